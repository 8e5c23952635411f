"""Transfers → jobs."""

from llmprism.recognize.prism import recognize

__all__ = ["recognize"]
