"""Transfers → jobs."""

from llmprism.recognize.published_rules import recognize_paper
from llmprism.recognize.recognise_jobs import recognize

__all__ = ["recognize", "recognize_paper"]
