"""A job's transfers → its layout."""

from llmprism.parallelism.paper import layout_paper
from llmprism.parallelism.prism import identify_layout

__all__ = ["identify_layout", "layout_paper"]
