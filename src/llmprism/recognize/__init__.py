"""Transfers → jobs."""

from llmprism.recognize.published_rules import recognize_paper

__all__ = ["recognize_paper"]
