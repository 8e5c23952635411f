"""A job and its layout → its timeline."""

from llmprism.timeline.paper import timeline_paper
from llmprism.timeline.prism import reconstruct_timeline

__all__ = ["reconstruct_timeline", "timeline_paper"]
