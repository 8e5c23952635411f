"""A job's transfers → its layout."""

from llmprism.parallelism.identify_layout import identify_layout
from llmprism.parallelism.published_rules import layout_paper

__all__ = ["identify_layout", "layout_paper"]
