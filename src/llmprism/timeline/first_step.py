"""The job's own first step: it begins with the first message, and ends when the last rank begins the second.

A job sets up in its first step: it compiles and connects before it, and its optimizer allocates state after the last
gradient, which takes a tenth of a step to three, on some ranks longer than on others. The clock ticks with the
gradients, too early there, has no tick at the job's begin, and may miss the first ticks altogether, because these steps
look unlike the others. But they send what all steps send.

* Where a whole step's bytes were sent before the first tick, a step ends there, which begins with the first message.
  A tick before which a part of a step was sent, and after which the rest of it, is none. Where the window begins in a
  step both together are more than one, and the tick is its end.
  Where the first step sent the bytes of several, it is several. Only what nobody sends while a job is set up can be
  counted so: activations, tokens and the gathers of sharded parameters. Replicated training hands them out first.
* Each rank begins the second step when its own optimizer is done, and sends its first message as long after that as in
  other steps. The first step ends when the last of them begins. Replicas do not show it: they send when all have
  computed. Communicators that are set up after the first gradients (for their norm) exchange tables on the same pairs,
  which are far smaller than tensors and begin nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Bool, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import JobLayout, PairKind, Sharding
from llmprism.stats.by_moment import NEVER
from llmprism.stats.robust import known_max, known_median
from llmprism.timeline.member_begins import first_messages, member_begins, usual_size
from llmprism.timeline.rules import RULES, TimelineRules

__all__ = ["with_first_steps"]

_OF_PASSES: Final = (PairKind.PP, PairKind.EP, PairKind.CP)
"""What is sent in forward and backward passes only."""


def with_first_steps(job: Job, layout: JobLayout, clock: StepClock, rules: TimelineRules = RULES) -> StepClock:
    """The clock with ticks where its first steps end."""
    transfers = job.transfers
    counted = transfers.bytes >= MESSAGE_FLOOR_BYTES
    in_passes = counted & np.isin(layout.transfer_kind, _OF_PASSES)
    alone = in_passes.any() or layout.layout.sharding is Sharding.FSDP
    sent = in_passes if in_passes.any() else counted
    if not alone or not clock.regular[0]:
        return _settled(job, clock, None, rules) if _takes_longer(clock, rules) else clock
    before, within, both, one = _steps_sent(transfers, sent, clock, rules)
    own = before >= 1 or (within < 1 <= both and one)
    if own:
        begin = np.array([transfers.start_ns[counted].min()])
        boundary = np.concatenate([begin, clock.boundary_ns if before else clock.boundary_ns[1:]])
        regular = np.concatenate([[True], clock.regular]) if before else clock.regular
        clock, within = StepClock(boundary, regular, clock.dominance), before or both
    if within > 1:
        return _several(clock, within)
    return _settled(job, clock, sent, rules) if own or _takes_longer(clock, rules) else clock


def _steps_sent(
    transfers: TransferTable, sent: Bool, clock: StepClock, rules: TimelineRules
) -> tuple[int, int, int, bool]:
    """How many steps' bytes nearly all pairs have sent before the first tick, in the first step, and in both together:
    what is sent only while a job is set up goes other ways. And whether both together are one step of most pairs, and
    not more."""
    total = np.concatenate([[0], np.cumsum(np.where(sent, transfers.bytes, 0))])[transfers.pair_offsets]
    tick, start = clock.boundary_ns, transfers.start_ns
    rows = np.flatnonzero(sent & ((start < tick[1]) | (start >= tick[-1])))
    pair, size = np.searchsorted(transfers.pair_offsets, rows, side="right") - 1, transfers.bytes[rows]
    part = np.searchsorted(tick[[0, 1]], start[rows], side="right")
    before, within, after = (np.bincount(pair[part == k], size[part == k], total.size - 1) for k in range(3))
    each = (np.diff(total) - before - within - after) / max(clock.regular.size - 1, 1)
    used = each > 0
    if not used.any():
        return 0, 0, 0, False
    shares = [here[used] / each[used] for here in (before, within, before + within)]
    whole = [int(np.quantile(share, rules.set_up_pairs) + rules.cut_off) for share in shares]
    return whole[0], whole[1], whole[2], bool(median(shares[2]) <= 1.0 + rules.cut_off)


def _several(clock: StepClock, steps: int) -> StepClock:
    """The clock, its first step cut in so many, all but the first of usual length."""
    ends = clock.boundary_ns[1] - (np.arange(steps - 1, 0, -1) * clock.period_ns).astype(np.int64)
    ends = ends[ends > clock.boundary_ns[0]]
    regular = np.concatenate([np.ones(ends.size, dtype=np.bool_), clock.regular])
    return StepClock(np.insert(clock.boundary_ns, 1, ends), regular, clock.dominance)


def _takes_longer(clock: StepClock, rules: TimelineRules) -> bool:
    """Is the first step the job's own? It takes longer than others may. In a window of a running job it is like the
    others, and a pause after it is a checkpoint."""
    longer = (clock.boundary_ns[1] - clock.boundary_ns[0]) / max(clock.period_ns, 1.0) - 1.0
    return bool(longer > max(rules.first_longer, rules.first_spreads * clock.unevenness))


def _settled(job: Job, clock: StepClock, sent: Bool | None, rules: TimelineRules) -> StepClock:
    """The clock, the end of the job's own first step moved to where the second one begins: as long before the last of
    its members' first messages of those `sent` as in other steps, or before the first message of all."""
    boundary = clock.boundary_ns.copy()
    if clock.steps <= 2 or not clock.regular[:2].all():
        return clock
    if sent is None:
        begins = first_messages(job.transfers, boundary, rules)[None, :]
    else:
        size = job.transfers.bytes
        tensors = sent & (size >= rules.tables_share * usual_size(size[sent], rules))
        begins = member_begins(job, boundary, tensors, rules)
    seen = (begins < NEVER) & clock.regular
    lead = np.where(seen, (begins - boundary[:-1]).astype(np.float64), np.nan)
    last = known_max(lead - known_median(lead, axis=1)[:, None], axis=0)  # of many members one is always late
    late = last[1] - known_median(last[2:])
    if late > 0:
        boundary[1] += int(late)
    return StepClock(boundary, clock.regular, clock.dominance)
