"""A member that everybody waits for: its GPU, or its card.

Whoever is to blame for slower steps (`blame`) computes longer, or its messages pass slowly. Its card is slow where the
rate of what it sends, or is sent, fell by more than anybody else's: those that wait for a GPU are paced alike, and
those that wait for a card fall less than it. Of the peers of a tensor-parallel group, who are blamed together, the card
is that of the one whose messages fell most.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.arrays import Bool
from llmprism.diagnose.blame import WaitedFor, falls, tensor_peers
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType

__all__ = ["card_of", "of_gpu_or_card"]


def of_gpu_or_card(
    evidence: JobEvidence, finding: Finding, blamed: WaitedFor, slower: Bool, usual: Bool, rules: FaultRules = RULES
) -> Finding:
    """The finding on the GPU of a member that was waited for in the `slower` steps, or one on its card, which is no
    surer than that it was this member."""
    card = card_of(evidence, blamed.row, slower, usual, rules)
    if card is None:
        return finding
    row, share = card[0], float(np.exp(-card[1]))
    name = evidence.job.transfers.addresses[evidence.job.members[row]]
    return replace(
        finding,
        kind=FindingKind.SLOW_NIC,
        where=Where(WhereType.NIC, name),
        confidence=round(rules.blame.card_sure * blamed.share, 3),
        summary=(
            f"All others wait for {name}, and its messages alone move at {share:.0%} of their usual rate or "
            "less: check its cable, port counters and PCIe link; move the rank off this server."
        ),
        evidence=(*finding.evidence, Evidence("rate of its messages, in shares of the usual", round(share, 3))),
        alternatives=(),
    )


def card_of(
    evidence: JobEvidence, row: int, slower: Bool, usual: Bool, rules: FaultRules = RULES
) -> tuple[int, float] | None:
    """Of a member and its tensor-parallel peers the one whose messages fell most, and by how much (a logarithm) beyond
    those of all others; None where they did not by what a slow place does at least, or nobody else's were timed."""
    fell = np.where(evidence.timed, falls(evidence, slower, usual), np.nan)
    transfers, members = evidence.job.transfers, np.array(evidence.job.members)
    peers = np.flatnonzero(tensor_peers(evidence, row))
    known, ends = np.isfinite(fell), (transfers.pair_src, transfers.pair_dst)
    touched = {peer: known & np.logical_or(*(end == members[peer] for end in ends)) for peer in peers.tolist()}
    others = known & ~np.logical_or.reduce(list(touched.values()))
    most = {peer: float(fell[own].max(initial=-np.inf)) for peer, own in touched.items()}
    first = max(most, key=lambda peer: (most[peer], peer == row))
    beyond = most[first] - max(float(fell[others].max(initial=-np.inf)), 0.0)
    return (first, most[first]) if others.any() and beyond >= rules.places.past_least else None
