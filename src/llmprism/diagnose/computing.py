"""Who seems to compute longer in the steps in which cells are sick: a rival of every place.

Whoever waits for a slow GPU, or a slow stage, pushes the head of a message and the rest long after, so that its
messages look slow, held back, broken up or late. So sick cells come with how likely it is that somebody computed longer
in their steps, and with the member that is most to blame. That is weighed with all else that is known of a place
(`place_signs`): such a member speaks against a group that it belongs to, whose other members it would not single out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from llmprism.arrays import Bool
from llmprism.diagnose.blame import blame, tensor_peers
from llmprism.diagnose.evidence import JobEvidence, usual_steps
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.stage_signs import suspected_stage

__all__ = ["NOBODY", "Computing", "computing"]


@dataclass(frozen=True, slots=True)
class Computing:
    """How likely it is that a GPU, or a stage, computed longer, and the share of the blame that one member has, which
    may be any of these (addresses: it and its tensor-parallel peers)."""

    chance: float = 0.0
    share: float = 0.0
    members: tuple[str, ...] = ()

    def share_in(self, names: Sequence[str]) -> float:
        """The share of the member that is most to blame, if it is one of these; else 0."""
        return self.share if not set(self.members).isdisjoint(names) else 0.0


NOBODY: Final = Computing()


def computing(evidence: JobEvidence, sick: Bool, rules: FaultRules = RULES) -> Computing:
    """Who seems to have computed longer in those steps with `sick` cells (pairs x steps) that are slower than usual."""
    usual = usual_steps(evidence, rules)
    slower: Bool = evidence.counted & ~usual & sick.any(axis=0)
    blamed = blame(evidence, slower, usual, rules) if slower.any() else None
    if blamed is None:
        return NOBODY
    stage = suspected_stage(evidence, slower, usual, rules)
    chance = max(blamed.confidence, 0.0 if stage is None else stage.chance)
    names = [evidence.job.transfers.addresses[member] for member in evidence.job.members]
    peers = tensor_peers(evidence, blamed.row).nonzero()[0].tolist()
    return Computing(chance, blamed.share, tuple(names[row] for row in peers))
