"""What is measured of each two GPUs of a server before they are called tensor-parallel peers or replicas.

*Ends*: how far apart the last messages of their gradients end, step after step. Servers have delays of their own, so
the two are not compared with each other, but each with the other's partner in its gradient group on a second server,
relative to its own partner there: members of one group end together, whichever of them are compared.

*Sends*: how far apart they hand on their activations, relative to GPUs of the same stage on different servers, which
cannot be peers (`peer_sends`, message by message); where a stage is on one server only, relative to how much the same
GPU varies from step to step, which replicas do independently of each other.

Both are logarithms of ratios of deviations: 0 means as far apart as the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import isqrt

import numpy as np

from llmprism.arrays import Bool, Float64, Int8, Int64
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.peer_sends import relative, sends_apart
from llmprism.parallelism.peer_starts import starting_together
from llmprism.parallelism.rules import RULES, LayoutRules

Cell = tuple[int, ...]
Pair = tuple[int, int]

_Common = tuple[list[str], list[int], list[int]]
"""The servers of two groups, and the member of each group there."""

__all__ = ["PeerSigns", "peer_signs"]


@dataclass(frozen=True, slots=True)
class PeerSigns:
    """For each two members of a cell (low, high): how much farther apart than members of one group they end a
    synchronisation, and how much farther apart than replicas they send activations, as logarithms; NaN where not
    known. `compared`: sends were measured against members of the same stage on other servers. `ends_error`: the error
    of `ends` that the rounding of time stamps makes, the same way for all pairs. `along_ns`: how far apart members of
    one group end themselves. `together`: share of their messages that GPUs of a server begin in the same moment; NaN if
    not known or not asked for. `sends_rounded`: `sends` that rounded time stamps make of GPUs that send together."""

    ends: dict[Pair, float]
    sends: dict[Pair, float]
    compared: bool
    ends_error: float = 0.0
    along_ns: float = 0.0
    together: float = float("nan")
    sends_rounded: float = float("nan")


def peer_signs(
    job: Job, cells: list[Cell], groups: tuple[Group, ...], pipelines: tuple[Cell, ...], pair_kind: Int8,
    clock: StepClock, rules: LayoutRules = RULES, *, starts: bool = False,
) -> PeerSigns:  # fmt: skip
    """The signs of all pairs of members of one cell; with `starts` also whether their collectives begin together."""
    listed = [pair for cell in cells for pair in combinations(cell, 2)]
    pairs = _as_rows(listed)
    crossed = _crossed(job, listed, groups, rules)
    members = np.unique(np.concatenate([pairs, crossed.across, crossed.along])).tolist()
    last = _moments(job.transfers, pair_kind == PairKind.DP, members, clock, last=True)
    sent = _moments(job.transfers, pair_kind == PairKind.PP, members, clock, last=False)
    across, along = (_variation(last.edge, last.row, chosen, rules) for chosen in (crossed.across, crossed.along))
    rounding_ns = rules.peers.stamp_error * _stamp_unit_ns(job.transfers)
    ends = crossed.mean(_log_ratio(across, along, rounding_ns, rules), len(listed))
    sends, rounded = sends_apart(job, listed, pipelines, rules, rounding_ns)
    compared = bool(np.isfinite(sends).any())
    if not compared:
        sends = sum((relative(_variation(times, sent.row, pairs, rules), _of_its_own(times, rules), rules, rounding_ns)
                     for times in (sent.mean, sent.edge)), np.zeros(len(listed)))  # fmt: skip
    fine = starts and rounding_ns <= rules.peers.finest_ns
    return PeerSigns(
        dict(zip(listed, ends.tolist(), strict=True)), dict(zip(listed, sends.tolist(), strict=True)),
        compared, _rounding_error(across, along, rounding_ns),
        _quantile(along, 0.5) if np.isfinite(along).any() else 0.0,
        starting_together(job.transfers, cells, pair_kind == PairKind.DP, rules) if fine else float("nan"),
        rounded,
    )  # fmt: skip


def _as_rows(pairs: list[Pair]) -> Int64:
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True, slots=True)
class _Crossed:
    """For some of the pairs (`of`), members of their two groups on two servers: once across the groups and once along
    one of them, over the same servers. Two columns each."""

    of: Int64
    across: Int64
    along: Int64

    def mean(self, values: Float64, count: int) -> Float64:
        """Mean of the values of each of `count` pairs; NaN where there is none."""
        known = np.isfinite(values)
        number, of = values[known], self.of[known]
        total, each = np.bincount(of, number, minlength=count), np.bincount(of, minlength=count)
        return np.where(each > 0, total / np.maximum(each, 1), np.nan)


def _crossed(job: Job, pairs: list[Pair], groups: tuple[Group, ...], rules: LayoutRules) -> _Crossed:
    """Servers differ, so what is across two groups is measured over the same two servers as what is along one."""
    place = dict(zip(job.members, job.places, strict=False))
    at: dict[int, dict[str, int]] = {}
    for group in groups:
        by_server = {place.get(member, ""): member for member in group.members}
        at.update(dict.fromkeys(group.members, by_server))
    nowhere: dict[str, int] = {}
    common: dict[tuple[int, int], _Common] = {}  # many pairs have the servers of two groups in common
    most = rules.peers.compared_servers
    far_one: list[int] = []
    far_other: list[int] = []
    servers: list[int] = []
    for one, other in pairs:
        of_one, of_other = at.get(one, nowhere), at.get(other, nowhere)
        two = id(of_one), id(of_other)
        if two not in common:
            names = sorted(of_one.keys() & of_other.keys())[: most + 1]
            common[two] = names, [of_one[name] for name in names], [of_other[name] for name in names]
        names, of_first, of_second = common[two]
        here = names.index(place[one]) if place[one] in names else most
        far_one += (of_first[:here] + of_first[here + 1 :])[:most]
        far_other += (of_second[:here] + of_second[here + 1 :])[:most]
        servers.append(len(far_one))
    of = np.repeat(np.arange(len(pairs)), np.diff(servers, prepend=0))
    one, other = _as_rows(pairs)[of].T
    far = np.array(far_one, dtype=np.int64), np.array(far_other, dtype=np.int64)
    across, along = (
        np.column_stack(columns).reshape(-1, 2)
        for columns in ((one, far[1], far[0], other), (one, far[0], other, far[1]))
    )
    return _Crossed(np.repeat(of, 2), across, along)


@dataclass(frozen=True, slots=True)
class _Moments:
    """Two times of each member (rows) in each step: when the messages that it sends lie in the mean, and when the last
    of them ended or the first began. `row` is that of each address (-1: no member)."""

    row: Int64
    mean: Float64
    edge: Float64


def _moments(transfers: TransferTable, pairs: Bool, members: list[int], clock: StepClock, *, last: bool) -> _Moments:
    steps = clock.boundary_ns.size - 1
    number = np.full(len(transfers.addresses), -1, dtype=np.int64)
    number[members] = np.arange(len(members))
    wanted = pairs & (number[transfers.pair_src] >= 0)
    rows = np.flatnonzero(transfers.rows_of(wanted) & (transfers.bytes >= MESSAGE_FLOOR_BYTES))
    step = clock.step_at(transfers.start_ns[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    start = (transfers.start_ns[rows] - clock.boundary_ns[step]).astype(np.float64)
    weight = transfers.bytes[rows].astype(np.float64)
    cell = number[transfers.pair_src[transfers.pair_of_row[rows]]] * steps + step
    size = len(members) * steps
    total, moment = np.bincount(cell, weight, minlength=size), np.bincount(cell, weight * start, minlength=size)
    edge = np.full(size, -np.inf if last else np.inf)
    if last:
        np.maximum.at(edge, cell, (transfers.end_ns[rows] - clock.boundary_ns[step]).astype(np.float64))
    else:
        np.minimum.at(edge, cell, start)
    mean = np.where(total > 0, moment / np.maximum(total, 1.0), np.nan)
    known = np.where(np.isfinite(edge), edge, np.nan)
    return _Moments(number, mean.reshape(-1, steps), known.reshape(-1, steps))


def _stamp_unit_ns(transfers: TransferTable) -> int:
    """The unit of the collector's time stamps: what divides durations and distances in time of the transfers of a pair,
    in which offsets of clocks cancel; 0 where nothing lasts."""
    unit, inside = 0, np.ones(transfers.start_ns.size, dtype=np.bool_)
    inside[transfers.pair_offsets[:-1][np.diff(transfers.pair_offsets) > 0]] = False
    some = max(isqrt(inside.size), 1)  # enough where the unit is a nanosecond, and so many times that it costs nothing
    for first in range(0, inside.size, some):
        after = first + some
        start = transfers.start_ns[max(first - 1, 0) : after]
        between = np.diff(start)[inside[max(first, 1) : after]]
        lasts = transfers.end_ns[first:after] - transfers.start_ns[first:after]
        unit = int(np.gcd.reduce(np.concatenate([lasts, between, np.array([unit])])))
        if unit == 1:
            break  # no unit is finer
    return unit


def _log_ratio(one: Float64, other: Float64, rounding_ns: float, rules: LayoutRules) -> Float64:
    """Logarithm of the ratio of two variations; NaN where time stamps are too coarse to show either."""
    finest = max(rules.peers.finest_ns, rounding_ns)
    ratio: Float64 = np.log(np.maximum(one, finest) / np.maximum(other, finest))
    hidden = (np.maximum(one, other) < finest) & (rounding_ns > rules.peers.finest_ns)
    return np.where(hidden, np.nan, ratio)


def _rounding_error(one: Float64, other: Float64, rounding_ns: float) -> float:
    """Error of the logarithm of the ratio of two variations that rounding adds to each: the median of all pairs."""
    known = np.isfinite(one) & np.isfinite(other) & (np.maximum(one, other) >= rounding_ns)
    if not known.any() or rounding_ns <= 0.0:
        return 0.0
    share = [rounding_ns / np.maximum(variation[known], rounding_ns) for variation in (one, other)]
    return float(np.median(np.hypot(*share)))


def _quantile(values: Float64, quantile: float) -> float:
    known = values[np.isfinite(values)]
    return float(np.quantile(known, quantile)) if known.size else float("nan")


def _of_its_own(times: Float64, rules: LayoutRules) -> float:
    """How far apart two members would be that vary from step to step as much as these do, each on its own."""
    seen = times[np.isfinite(times).sum(axis=1) >= rules.peers.least_steps]
    if not seen.size:
        return float("nan")
    alone = _medians(np.abs(seen - _medians(seen)[:, None]))
    return float(np.sqrt(2.0) * np.median(alone))


def _variation(times: Float64, row: Int64, pairs: Int64, rules: LayoutRules) -> Float64:
    """Median deviation of the difference of two members' times from its median, for each pair; NaN if unknown."""
    if not pairs.size:
        return np.zeros(0)
    one, other = row[pairs].T
    apart = times[one] - times[other]
    known = np.isfinite(apart).sum(axis=1) >= rules.peers.least_steps
    result = np.full(len(pairs), np.nan)
    if known.any():
        part = apart[known]
        result[known] = _medians(np.abs(part - _medians(part)[:, None]))
    return result


def _medians(values: Float64) -> Float64:
    """Median of the numbers in each row, each of which has some; NaNs are sorted to the end and left out."""
    ordered, count = np.sort(values, axis=1), np.isfinite(values).sum(axis=1)
    row = np.arange(values.shape[0])
    result: Float64 = 0.5 * (ordered[row, (count - 1) // 2] + ordered[row, count // 2])
    return result
