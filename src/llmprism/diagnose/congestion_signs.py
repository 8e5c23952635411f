"""Signs of congestion in the packets → evidence on findings, and a note.

Where packets were read, CNPs, NAKs and retransmissions are known per pair. They are no finding of their own: DCQCN
sends CNPs in healthy training too. But a slow NIC or link about whose traffic the network complained is more likely
crowded than broken, and the one who looks for the cause wants to know. Counts cover the whole capture, not only the
time of the finding: packets are counted per pair, not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from llmprism.arrays import Int64
from llmprism.model.congestion import CongestionTable
from llmprism.model.finding import Evidence, Finding, Where, WhereType

__all__ = ["congestion_note", "with_congestion_signs"]

_SIGNS: Final = (
    ("congestion notifications (CNP) about its traffic in the packets", "notifications", True),
    ("negative acknowledgements (NAK) of its traffic in the packets", "negative", True),
    ("packets that it sent again", "retransmitted", False),
)
"""What, which column, and whether the sign travels against the traffic that it is about."""


def with_congestion_signs(findings: Sequence[Finding], signs: CongestionTable | None) -> tuple[Finding, ...]:
    """The same findings; those about a NIC or a link have the signs on their traffic as further evidence."""
    if signs is None or not len(signs.src):
        return tuple(findings)
    return tuple(replace(one, evidence=one.evidence + _evidence(one.where, signs)) for one in findings)


def _evidence(where: Where, signs: CongestionTable) -> tuple[Evidence, ...]:
    target: str | None = None
    if where.type is WhereType.NIC and isinstance(where.id, str):
        source = where.id
    elif where.type is WhereType.LINK and isinstance(where.id, tuple) and len(where.id) == 2:
        source, target = where.id
    else:
        return ()
    counts = ((what, _count(signs, column, against, source, target)) for what, column, against in _SIGNS)
    return tuple(Evidence(what, float(count)) for what, count in counts if count)


def _count(signs: CongestionTable, column: str, against: bool, source: str, target: str | None) -> int:
    values: Int64 = getattr(signs, column)
    senders, receivers = (signs.dst, signs.src) if against else (signs.src, signs.dst)
    rows = [
        row
        for row, (sender, receiver) in enumerate(zip(senders, receivers, strict=True))
        if sender == source and target in (None, receiver)
    ]
    return int(values[np.array(rows, dtype=np.int64)].sum())


def congestion_note(signs: CongestionTable | None) -> tuple[str, ...]:
    """One line for the report where the network complained at all."""
    if signs is None or not (signs.notifications.any() or signs.negative.any()):
        return ()
    worst = int(np.argmax(signs.notifications + signs.negative))
    return (
        f"the packets hold {int(signs.notifications.sum()):,} congestion notifications (CNP) and "
        f"{int(signs.negative.sum()):,} NAKs, most about traffic from {signs.dst[worst]} to {signs.src[worst]}",
    )
