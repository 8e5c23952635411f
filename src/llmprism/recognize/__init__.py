"""Transfers → jobs."""

from llmprism.recognize.paper import recognize_paper
from llmprism.recognize.prism import recognize

__all__ = ["recognize", "recognize_paper"]
