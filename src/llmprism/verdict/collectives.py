"""Ranks that wait for each other in different collectives.

The flows say who fell silent first. If that rank's own log says that it waits too, and in something else than all the
others (another operation, a communicator that nobody else sets up), nobody died: the ranks made different collectives,
which is a fault of the program. A rank that is behind in the same operations, or that does not say that it waits, is no
such case. NCCL's watchdog names the operation; gloo does not, but every rank that gives up prints its stack, and the
frame of the collective is in it. What each sent in the step that broke off is measured in the flows (`sent_share`).

Where all ranks say in what they wait and one of them waits in a collective that no other has entered, that is the rank
(`find_rank_apart`), whoever fell silent first: nobody died, and in a deadlock all fall silent within a moment.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import numpy as np

from llmprism.logs.view import POINT_TO_POINT
from llmprism.model.log import Cause, CauseClass
from llmprism.verdict.case import JobCase

__all__ = ["find_mismatch", "find_rank_apart", "sent_share"]

SIGNATURE: Final = "verdict.mismatched_collective"
_WORK: Final = re.compile(r"WorkNCCL\(SeqNum=(\d{1,15}), OpType=(\w{1,40})")
_SET_UP: Final = re.compile(
    r"setting up NCCL communicator|retrieving ncclUniqueId|wait(?:ed|ing) for (?:keys?|others) at the store"
)
_COMMUNICATOR: Final = "the set-up of a communicator"
"""What a rank waits in that makes a collective of a group which has made none before. Nobody else sets it up: what the
others wait in need not be one operation, as it is not in a pipeline."""

_ADVICE: Final = (
    "Look for code that only some ranks run (a branch on the rank, on data or on a loss) and that communicates; "
    "TORCH_DISTRIBUTED_DEBUG=DETAIL names the first collective that differs."
)


def find_mismatch(case: JobCase, rank: int | None) -> Cause | None:
    """The cause where the silent rank waits in another collective than the others; None where it does not."""
    differs = _differs(_waits(case), rank, case) if rank is not None else None
    if differs is None:
        return None
    own, others = differs
    summary = f"rank {rank} waits in {own} while the other ranks wait in {others}: they make different collectives"
    return Cause(CauseClass.USER_CODE, SIGNATURE, case.rules.ending.mismatch, summary, _ADVICE)


def find_rank_apart(case: JobCase) -> int | None:
    """The rank that waits in a collective while all the others wait in one other thing; None where a rank does not say
    in what it waits, which then may be the one that hangs, or where it takes two to differ."""
    waits = _waits(case)
    if len(waits) < max(case.size, len(case.view.ranks), 1 + case.rules.ending.witnesses):
        return None
    times = Counter(waits.values())
    alone = [rank for rank, operation in waits.items() if times[operation] == 1]
    apart = [rank for rank in alone if _differs(waits, rank, case) is not None]
    return apart[0] if len(apart) == 1 else None


def _differs(waits: dict[int, str], rank: int, case: JobCase) -> tuple[str, str] | None:
    """What the rank waits in and what all the others do; None where that is the same, or too few say it."""
    own = waits.get(rank)
    if own is None or own == POINT_TO_POINT or len(waits) < 2:
        return None
    times = Counter(operation for other, operation in waits.items() if other != rank)
    others, count = times.most_common(1)[0]
    if own == _COMMUNICATOR and own not in times:
        others, count = " or ".join(sorted(times)), times.total()
    enough = count == times.total() >= min(case.rules.ending.witnesses, case.size - 1)
    return (own, others) if enough and others != own else None


def _waits(case: JobCase) -> dict[int, str]:
    """Rank → what it waited in when it gave up."""
    waits: dict[int, str] = {}
    for line in case.last_words():
        if not 0 <= line.actor < len(case.view.ranks):
            continue
        operation = _operation(line.text) or case.view.ranks[line.actor].collective
        who = case.view.ranks[line.actor].rank
        if operation is not None and who is not None:
            waits.setdefault(who, operation)
    return waits


def sent_share(case: JobCase, address: str | None) -> tuple[float, float] | None:
    """What the address sent after the last whole step, and the middle of what the others did, as shares of what each
    usually sends in a step; None where the flows do not show it."""
    job = case.job
    if job is None or address is None or job.timeline.steps.count < case.rules.ending.sent_steps:
        return None
    transfers, ends = job.job.transfers, job.timeline.steps.end_ns
    sender = transfers.pair_src[transfers.pair_of_row]
    late = transfers.start_ns >= ends[-1]
    whole = ~late & (transfers.start_ns >= ends[0])
    size = len(case.report.addresses)
    usual = np.bincount(sender[whole], transfers.bytes[whole], size) / (ends.size - 1)
    last = np.bincount(sender[late], transfers.bytes[late], size)
    members = np.array([member for member in job.job.members if usual[member] > 0], dtype=np.int64)
    names = [case.report.addresses[member] for member in members.tolist()]
    if address not in names or len(names) < case.rules.ending.senders:
        return None
    shares = last[members] / usual[members]
    own = names.index(address)
    return round(float(shares[own]), 3), round(float(np.median(np.delete(shares, own))), 3)


def _operation(text: str) -> str | None:
    """What a rank waits in: the operation of its collective, or the set-up of a communicator."""
    if match := _WORK.search(text):
        return match[2]
    return _COMMUNICATOR if _SET_UP.search(text) else None
