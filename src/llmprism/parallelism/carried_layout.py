"""The layout of a job in one window, carried over to a later window that overlaps it.

Finding a layout is four fifths of the work of a diagnosis, and a job that goes on as before has the layout that it had.
What has to be found again are the ends of the steps and the kind of each transfer. A pair sends the same bytes in each
step, so a step is over for a pair with the transfer that completes these bytes: that counts the new steps. Where they
end exactly is then found as in the first place (`step_ends`), with the groups and pipelines that are known. The kind of
a transfer is that of the pair's earlier transfer of the nearest size.

A pattern is only made where these rules give back exactly what it is made from: all step ends and all kinds of its own
window. It is only applied where the job still has the same members and pairs and every pair keeps to its bytes; in
all other cases the answer is None, and the layout has to be found anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Int8, Int32, Int64
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import Group, JobLayout, PairKind
from llmprism.parallelism.features import pair_features
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.step_ends import step_ends

__all__ = ["LayoutPattern", "carried_layout", "layout_pattern"]

_SIZE_BITS: Final = 42
"""Bits for the bytes of a transfer in addition to the number of its pair: 4 TB."""


@dataclass(frozen=True, slots=True)
class LayoutPattern:
    """What a job repeats. Members are numbered by their place in `members`; `layout` has its members by that number.

    `every_key` are all pairs (source times member count plus destination, ascending) and `key` those with messages;
    `step_bytes` is what each of these sends in a step (0 where that varies), give or take `slack`. `size_key` are
    (pair, bytes) of transfers that were seen, ascending, with their kinds. `clock` is the clock as far as it is known,
    `found_ns` the end of the window in which the layout was found.
    """

    members: tuple[str, ...]
    layout: JobLayout
    every_key: Int64
    key: Int64
    step_bytes: Int64
    slack: Int64
    size_key: Int64
    size_kind: Int8
    clock: StepClock
    found_ns: int


def layout_pattern(job: Job, layout: JobLayout, found_ns: int, rules: LayoutRules = RULES) -> LayoutPattern | None:
    """The pattern behind this layout; None where the two rules do not give it back."""
    clock, transfers = layout.clock, job.transfers
    if clock is None or clock.steps < rules.carrying.least_steps or not transfers.start_ns.size:
        return None
    if not clock.regular[1:].all():
        return None
    pairs = np.flatnonzero(_with_messages(transfers))
    step_bytes, slack = _pacing(transfers, pairs, clock, rules)
    if transfers.pair_bytes[pairs[step_bytes > 0]].sum() < rules.carrying.pacing_bytes * transfers.bytes.sum():
        return None
    size_key, size_kind = _sizes(transfers, layout)
    pattern = LayoutPattern(
        tuple(transfers.addresses[member] for member in job.members),
        _numbered(layout, job),
        _keys(job),
        _keys(job)[pairs],
        step_bytes,
        slack,
        size_key,
        size_kind,
        clock,
        found_ns,
    )
    return pattern if _gives_back(pattern, job, layout, rules) else None


def carried_layout(
    pattern: LayoutPattern, job: Job, rules: LayoutRules = RULES
) -> tuple[JobLayout, LayoutPattern] | None:
    """The layout of the same job in a later window, and the pattern with the clock up to its end; None where the job
    does not go on as before."""
    transfers = job.transfers
    if tuple(transfers.addresses[member] for member in job.members) != pattern.members:
        return None
    pairs = np.flatnonzero(_with_messages(transfers))
    if not np.array_equal(_keys(job)[pairs], pattern.key):
        return None
    counted = _counted(pattern, transfers, pairs, rules)
    if counted is None:
        return None
    members, layout = np.array(job.members, dtype=np.int32), pattern.layout
    groups = tuple(Group(group.kind, _ids(members, group.members), group.ring) for group in layout.groups)
    pipelines = tuple(_ids(members, pipeline) for pipeline in layout.pipelines)
    kinds = _kinds(pattern, job)
    clock = _clock(job, counted, groups, pipelines, kinds, rules)
    if abs(clock.steps - counted.steps) > 1 or clock is counted:
        return None
    pairs_of = replace(layout.pairs, src=members[layout.pairs.src], dst=members[layout.pairs.dst])
    found = replace(layout, groups=groups, pipelines=pipelines, pairs=pairs_of, transfer_kind=kinds, clock=clock)
    return found, replace(pattern, clock=clock)


def _ids(members: Int32, numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(members[list(numbers)].tolist())


def _numbered(layout: JobLayout, job: Job) -> JobLayout:
    """The layout with members by their number in the job instead of their address ids; without rows."""
    members = np.array(job.members, dtype=np.int32)

    def numbers(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(np.searchsorted(members, ids).tolist())

    pairs = layout.pairs
    return replace(
        layout,
        groups=tuple(Group(group.kind, numbers(group.members), group.ring) for group in layout.groups),
        pipelines=tuple(numbers(pipeline) for pipeline in layout.pipelines),
        pairs=replace(
            pairs,
            src=np.searchsorted(members, pairs.src).astype(np.int32),
            dst=np.searchsorted(members, pairs.dst).astype(np.int32),
        ),
        transfer_kind=np.zeros(0, dtype=np.int8),
        clock=None,
    )


def _keys(job: Job) -> Int64:
    """Every pair as one number, ascending; members count by their place."""
    members = np.array(job.members, dtype=np.int32)
    src, dst = (np.searchsorted(members, ends) for ends in (job.transfers.pair_src, job.transfers.pair_dst))
    return src.astype(np.int64) * members.size + dst


def _with_messages(transfers: TransferTable) -> Bool:
    """The pairs that send more than heartbeats."""
    if not transfers.pair_count:
        return np.zeros(0, dtype=np.bool_)
    return np.maximum.reduceat(transfers.bytes, transfers.pair_offsets[:-1]) >= MESSAGE_FLOOR_BYTES


def _rows_by(transfers: TransferTable, pairs: Int64, when_ns: Int64) -> Int64:
    """The row after the last one of each pair that had ended by each moment: pairs x moments."""
    rows = np.empty((pairs.size, when_ns.size), dtype=np.int64)
    for index, pair in enumerate(pairs.tolist()):
        first, last = transfers.pair_offsets[pair], transfers.pair_offsets[pair + 1]
        rows[index] = first + np.searchsorted(transfers.end_ns[first:last], when_ns, side="right")
    return rows


def _pacing(transfers: TransferTable, pairs: Int64, clock: StepClock, rules: LayoutRules) -> tuple[Int64, Int64]:
    """What each pair sends in every step, and how many bytes of that may be missing when it is done: half of the
    message that it ends the step with. Zeros where a pair does not send the same in every step."""
    rows = _rows_by(transfers, pairs, clock.boundary_ns[1:])
    so_far = np.concatenate([[0], np.cumsum(transfers.bytes)])
    sent = np.diff(so_far[rows], axis=1)
    usual = np.median(sent, axis=1).astype(np.int64)
    last = np.median(transfers.bytes[np.maximum(rows[:, 1:] - 1, 0)], axis=1)
    slack = np.minimum(last / 2, rules.carrying.most_slack * usual).astype(np.int64)
    exact = (usual >= MESSAGE_FLOOR_BYTES) & (np.abs(sent - usual[:, None]) < slack[:, None]).all(axis=1)
    return np.where(exact, usual, 0), np.where(exact, slack, 0)


def _ends_after(transfers: TransferTable, pairs: Int64, pattern: LayoutPattern, anchor_ns: int) -> Int64 | None:
    """The ends of the steps after the anchor; None where a pair is more than a step ahead of another one."""
    paced = pattern.step_bytes > 0
    pairs, step, slack = pairs[paced], pattern.step_bytes[paced], pattern.slack[paced]
    so_far = np.concatenate([[0], np.cumsum(transfers.bytes)])
    rows = _rows_by(transfers, pairs, np.array([anchor_ns]))[:, 0]
    end_of_pair = transfers.pair_offsets[pairs + 1]
    ends = []
    while True:
        due = so_far[rows] + step - slack
        if (due > so_far[end_of_pair]).any():
            break
        rows = np.searchsorted(so_far, due)
        ends.append(int(transfers.end_ns[rows - 1].max()))
    ahead = so_far[end_of_pair] - so_far[rows]
    return np.array(ends, dtype=np.int64) if (ahead < 2 * step).all() else None


def _counted(pattern: LayoutPattern, transfers: TransferTable, pairs: Int64, rules: LayoutRules) -> StepClock | None:
    """The steps in the new window: the known ends that lie in it, and about where those that follow are. None where no
    end is known in it, or a pair does not keep to its bytes."""
    kept = np.flatnonzero(pattern.clock.boundary_ns > int(transfers.end_ns.min()))
    if not kept.size:
        return None
    known = pattern.clock.boundary_ns[kept]
    ends = _ends_after(transfers, pairs, pattern, int(known[-1]))
    if ends is None or (np.diff(ends, prepend=known[-1]) <= 0).any():
        return None
    regular = np.concatenate([pattern.clock.regular[kept[:-1]], np.ones(ends.size, dtype=np.bool_)])
    if regular.sum() < rules.carrying.least_steps:
        return None
    return StepClock(np.concatenate([known, ends]), regular, pattern.clock.dominance)


def _clock(job: Job, counted: StepClock, groups: tuple[Group, ...], pipelines: tuple[tuple[int, ...], ...],
           transfer_kind: Int8, rules: LayoutRules) -> StepClock:  # fmt: skip
    """The ends of the steps that were counted, found as in the first place."""
    transfers = job.transfers
    other = np.zeros(transfers.pair_count, dtype=np.bool_)
    other[transfers.pair_of_row[transfer_kind == PairKind.OTHER]] = True
    gradient = tuple(group for group in groups if group.kind is PairKind.DP)
    features = pair_features(transfers, counted, rules)
    return step_ends(replace(job, clock=counted), gradient, _stage_links(transfers, pipelines), features, other, rules)


def _stage_links(transfers: TransferTable, pipelines: tuple[tuple[int, ...], ...]) -> list[tuple[int, int]]:
    """The pairs (there, back) between neighbouring stages."""
    before = np.array([one for line in pipelines for one in line[:-1]], dtype=np.int64)
    after = np.array([one for line in pipelines for one in line[1:]], dtype=np.int64)
    there, back = transfers.pairs_between(before, after), transfers.pairs_between(after, before)
    both = (there >= 0) & (back >= 0)
    return list(zip(there[both].tolist(), back[both].tolist(), strict=True))


def _sizes(transfers: TransferTable, layout: JobLayout) -> tuple[Int64, Int8]:
    """(number of the pair, bytes) as one key, ascending, with the kind: the first and the last of every stretch of
    sizes of one kind, so that the nearest size is found from both sides."""
    key, kind = _size_key(transfers.pair_of_row, transfers.bytes), layout.transfer_kind
    order = np.argsort(key, kind="stable")
    key, kind = key[order], kind[order]
    first = np.ones(key.size, dtype=np.bool_)
    first[1:] = (np.diff(key >> _SIZE_BITS) != 0) | (np.diff(kind) != 0)
    kept = first | np.append(first[1:], True)
    return key[kept], kind[kept]


def _size_key(pair: Int32 | Int64, size: Int64) -> Int64:
    return (pair.astype(np.int64) << _SIZE_BITS) | np.minimum(size, (1 << _SIZE_BITS) - 1)


def _kinds(pattern: LayoutPattern, job: Job) -> Int8:
    """The kind of every transfer: that of the nearest size of its pair; unknown for a pair that is new."""
    transfers, keys = job.transfers, _keys(job)
    number = np.minimum(np.searchsorted(pattern.every_key, keys), pattern.every_key.size - 1)
    known = np.repeat(pattern.every_key[number] == keys, np.diff(transfers.pair_offsets))
    wanted = _size_key(number[transfers.pair_of_row], transfers.bytes)
    above = np.searchsorted(pattern.size_key, wanted)
    below = np.maximum(above - 1, 0)
    above = np.minimum(above, pattern.size_key.size - 1)
    up, down = pattern.size_key[above] - wanted, wanted - pattern.size_key[below]
    up_fits, down_fits = (pattern.size_key[at] >> _SIZE_BITS == wanted >> _SIZE_BITS for at in (above, below))
    nearest = np.where(up_fits & (~down_fits | (up <= down)), above, below)
    return np.where(known & (up_fits | down_fits), pattern.size_kind[nearest], 0).astype(np.int8)


def _gives_back(pattern: LayoutPattern, job: Job, layout: JobLayout, rules: LayoutRules) -> bool:
    """Do the rules give all kinds of the window itself, and all step ends from those of its first half?"""
    assert layout.clock is not None  # noqa: S101 - checked by the caller
    known = layout.clock
    half = known.boundary_ns.size // 2
    early = StepClock(known.boundary_ns[:half], known.regular[: half - 1], known.dominance)
    found = carried_layout(replace(pattern, clock=early), job, rules)
    if found is None or found[0].clock is None:
        return False
    clock = found[0].clock
    same = np.array_equal(clock.boundary_ns, known.boundary_ns) and np.array_equal(clock.regular, known.regular)
    return same and np.array_equal(found[0].transfer_kind, layout.transfer_kind)
