"""A job and its layout → its timeline."""

from llmprism.timeline.build_timeline import reconstruct_timeline
from llmprism.timeline.published_rules import timeline_paper

__all__ = ["reconstruct_timeline", "timeline_paper"]
