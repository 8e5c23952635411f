"""Compares any report with any truth: how much of what was there was said, and how much of what was said was there.

The scorer knows the report's JSON document and nothing of the code that wrote it, so any tool's output can be scored.
"""

from llmprism.score.document import Facts, GroupFact, IssueFact, LayoutFacts, ScoredJob, parse_report, read_document
from llmprism.score.measures import Rate, SetScore
from llmprism.score.score import Score, score_report
from llmprism.score.truth import Truth, read_truth

__all__ = [
    "Facts",
    "GroupFact",
    "IssueFact",
    "LayoutFacts",
    "Rate",
    "Score",
    "ScoredJob",
    "SetScore",
    "Truth",
    "parse_report",
    "read_document",
    "read_truth",
    "score_report",
]
