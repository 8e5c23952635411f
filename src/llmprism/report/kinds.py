"""Words for each kind of finding, out of the one list of kinds: its title, and the first checks to make."""

from __future__ import annotations

from typing import Final

from llmprism.model.kind_facts import KIND_FACTS

__all__ = ["CHECKS", "TITLES"]

TITLES: Final = {kind: facts.title for kind, facts in KIND_FACTS.items()}

CHECKS: Final = {kind: facts.checks for kind, facts in KIND_FACTS.items()}
"""Where to look and with which tool. The summary of a finding says what is wrong; this says how to make sure."""
