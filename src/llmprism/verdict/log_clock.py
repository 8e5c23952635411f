"""One clock: the iterations that a log counts laid over the steps that the flows show.

A log prints iteration `i` when the step that the flows call `i + shift` has ended, at its own clock's time. Two
things say which shift is right. The durations: steps vary, and both sides see the same variation (lines that print
how long the iteration took show it to a fraction of a millisecond, the times of the lines to their resolution). And
the offset that a shift implies: clocks of a cluster are close to each other or whole time zones apart, so that of two
shifts that fit equally well the one with the smaller rest is meant. Steps of equal length leave only the second.

Flows may show several steps per iteration (accumulation, or layers that look like steps): where one to one does not
fit, every second, third and so on is tried, as the lengths suggest.

Log times are often cut to whole seconds. A time that was cut lies half a resolution later on average; that much is
added.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.logs.view import JobView, RankView
from llmprism.model.timeline import Steps
from llmprism.model.verdict import HostClock
from llmprism.verdict.rules import RULES, LogClockRules

__all__ = ["ZONE_NS", "ClockFit", "fit_clock", "host_clocks", "resolution_ns"]


ZONE_NS: Final = 15 * 60 * 1_000_000_000
"""Time zones differ by multiples of a quarter of an hour."""


@dataclass(frozen=True, slots=True)
class ClockFit:
    """Iteration `i` ends with step `(i + shift) * stride + phase`.

    Log time less `offset_ns` is flow time, within `error_ns`. `steps` were compared. `rest` is what the durations
    differ by, as a share of a step (None: not compared), and `variation` how much the steps themselves vary: a rest
    far below it means that the two are the same run. `lead` is how much better the shift fits than the next one, in
    nats.
    """

    shift: int
    offset_ns: int
    error_ns: int
    steps: int
    rest: float | None
    variation: float
    lead: float
    stride: int = 1
    phase: int = 0
    rules: LogClockRules = field(default=RULES.clock, repr=False)

    def step_of(self, iteration: Int64) -> Int64:
        return (iteration + self.shift) * self.stride + self.phase

    @property
    def same_run(self) -> bool:
        """Whether the variation of the steps itself shows that both saw the same run."""
        least = max(self.rules.same_run * self.variation, self.rules.exact)
        return self.rest is not None and self.steps >= self.rules.least_steps and self.rest < least

    @property
    def same_pace(self) -> bool:
        return self.rest is not None and self.rest < self.rules.same_pace

    @property
    def trusted(self) -> bool:
        """Whether log times may be moved by it: the same run, or the same pace with clocks that are not far apart."""
        rest = (self.offset_ns + ZONE_NS // 2) % ZONE_NS - ZONE_NS // 2
        most = self.rules.near_ns
        near = abs(rest) <= most and (self.rest is not None or self.error_ns <= most // 10)
        return self.same_run or (near and (self.rest is None or self.same_pace))


@dataclass(frozen=True, slots=True)
class _LogSeries:
    """What the ranks of a log say of each iteration: median over the ranks; NaN where nobody says it."""

    first: int
    time_ns: Float64
    seconds: Float64
    resolution_ns: int


def resolution_ns(times: Int64) -> int:
    """The coarsest of a second, a millisecond, a microsecond or a nanosecond that all times are multiples of."""
    known = times[times > 0]
    for unit in (1_000_000_000, 1_000_000, 1_000):
        if known.size and not (known % unit).any():
            return unit
    return 1


def fit_clock(view: JobView, steps: Steps, rules: LogClockRules = RULES.clock) -> ClockFit | None:
    """Which step each iteration is; None where the two have too little in common."""
    if steps.count < rules.least_steps:
        return None
    series = _series(_around(view.ranks, steps, rules), rules)
    if series is None:
        return None
    best = _fit(series, steps.end_ns, (1, 0), rules)
    stride = _stride(series, steps, rules)
    if stride > 1 and (best is None or not best.same_pace):
        slower = [_fit(series, steps.end_ns, (stride, phase), rules) for phase in range(stride)]
        known = [one for one in (best, *slower) if one is not None]
        best = min(known, key=lambda one: 1.0 if one.rest is None else one.rest, default=None)
    return best


def _stride(series: _LogSeries, steps: Steps, rules: LogClockRules) -> int:
    """Steps per iteration as the lengths suggest; 1 where they suggest nothing."""
    known = series.seconds[np.isfinite(series.seconds)]
    lengths = np.diff(steps.end_ns)
    if known.size < rules.least_steps or not lengths.size or np.median(lengths) <= 0:
        return 1
    per = float(np.median(known) * 1e9 * lengths.size / (steps.end_ns[-1] - steps.end_ns[0]))
    return min(max(1, round(per)), rules.most_stride)


def _fit(series: _LogSeries, all_ends: Int64, every: tuple[int, int], rules: LogClockRules) -> ClockFit | None:
    """The shift that fits best when `every` (stride, phase) stride-th step, from phase on, ends an iteration."""
    stride, phase = every
    ends = all_ends[phase::stride].astype(np.float64)
    skipped = max(0, ends.size - rules.most_steps)
    ends = ends[skipped:]
    shifts = np.arange(-(series.first + series.time_ns.size), ends.size - series.first)
    tried = [_try(series, ends, int(shift), rules) for shift in shifts.tolist()]
    good = sorted((one for one in tried if one is not None), key=lambda one: one.cost)
    if not good:
        return None
    best = good[0]
    lead = good[1].cost - best.cost if len(good) > 1 else float("inf")
    return ClockFit(
        best.shift + skipped,
        best.offset_ns,
        best.error_ns,
        best.steps,
        best.rest,
        _variation(ends),
        lead,
        stride,
        phase,
        rules,
    )


@dataclass(frozen=True, slots=True)
class _ShiftTrial:
    shift: int
    cost: float
    offset_ns: int
    error_ns: int
    steps: int
    rest: float | None


def _try(series: _LogSeries, ends: Float64, shift: int, rules: LogClockRules) -> _ShiftTrial | None:
    """How well iteration `i` is step `i + shift`: the cost in nats, lower is better."""
    low = max(0, series.first + shift)
    high = min(ends.size, series.first + series.time_ns.size + shift)
    if high - low < rules.least_steps:
        return None
    at = np.arange(low, high)
    own = at - shift - series.first
    length = np.diff(ends[low:high])
    step = float(np.median(length)) if length.size else 1.0
    cost, rest = 0.0, None
    seconds = series.seconds[own[1:]] * 1e9
    known = np.isfinite(seconds)
    if known.sum() >= rules.least_steps - 1:
        left = np.abs(seconds[known] - length[known])
        rest = float(np.median(left)) / max(step, 1.0)
        cost += float(known.sum()) * np.log(max(rest, rules.least_rest))
    times = series.time_ns[own]
    timed = np.isfinite(times)
    offset, error = 0.0, float("inf")
    if timed.sum() >= rules.least_steps:
        apart = times[timed] + series.resolution_ns / 2 - ends[at[timed]]
        offset = float(np.median(apart))
        spread = float(np.median(np.abs(apart - offset)))
        error = spread + series.resolution_ns / 2
        # times cut to seconds cannot tell spreads below a quarter of a second apart
        cost += float(timed.sum()) * np.log(max(spread, series.resolution_ns / 4, 1e-3 * step) / step)
        cost += _clock_price(offset, rules)
    elif rest is None:
        return None
    used = int(max(timed.sum(), known.sum() + 1))
    usual = float(high - low)  # trials over few steps must not win by having little to pay for
    return _ShiftTrial(shift, cost - rules.step_worth * usual, int(offset), int(min(error, 2**62)), used, rest)


def _clock_price(offset_ns: float, rules: LogClockRules) -> float:
    """The price of an offset, in nats: little within a second of a whole time zone, however far away that is."""
    rest = (offset_ns + ZONE_NS / 2) % ZONE_NS - ZONE_NS / 2
    return float(rules.offset_price * np.log1p(abs(rest) / rules.usual_offset_ns))


def _around(ranks: tuple[RankView, ...], steps: Steps, rules: LogClockRules) -> tuple[RankView, ...]:
    """The ranks with their iterations around the steps of the flows only, where their times say which these are: logs
    of a job are weeks long, flows a minute."""
    kept = []
    for rank in ranks:
        when = rank.iteration_ns
        near = (when >= steps.start_ns[0] - rules.around_ns) & (when <= steps.end_ns[-1] + rules.around_ns)
        if near.sum() < rules.least_steps or near.all():
            return ranks
        kept.append(
            replace(
                rank,
                iterations=rank.iterations[near],
                iteration_ns=when[near],
                iteration_seconds=rank.iteration_seconds[near],
            )
        )
    return tuple(kept)


def _series(ranks: tuple[RankView, ...], rules: LogClockRules) -> _LogSeries | None:
    counting = [rank for rank in ranks if rank.iterations.size]
    if not counting:
        return None
    first = min(int(rank.iterations.min()) for rank in counting)
    last = max(int(rank.iterations.max()) for rank in counting)
    first = max(first, last - 2 * rules.most_steps)
    times = np.full((len(counting), last - first + 1), np.nan)
    seconds = np.full_like(times, np.nan)
    for row, rank in enumerate(counting):
        kept = rank.iterations >= first
        at = rank.iterations[kept] - first
        when = rank.iteration_ns[kept].astype(np.float64)
        times[row, at] = np.where(when > 0, when, np.nan)
        seconds[row, at] = rank.iteration_seconds[kept]
    resolution = min((resolution_ns(rank.iteration_ns) for rank in counting if rank.iteration_ns.any()), default=1)
    return _LogSeries(first, _median(times), _median(seconds), resolution)


def _median(values: Float64) -> Float64:
    """Median over the rows, NaN where no row has a value."""
    result = np.full(values.shape[1], np.nan)
    some = np.isfinite(values).any(axis=0)
    result[some] = np.nanmedian(values[:, some], axis=0)
    return result


def _variation(ends: Float64) -> float:
    """How much the length of a step differs from that of the step before, as a share of it."""
    lengths = np.diff(ends)
    if lengths.size < 2:
        return 0.0
    return float(np.median(np.abs(np.diff(lengths))) / max(np.median(lengths), 1.0))


def host_clocks(view: JobView, steps: Steps, fit: ClockFit, hosts: tuple[str, ...]) -> tuple[HostClock, ...]:
    """The offset of every host, by the iterations of its own ranks; `hosts` names the host of each rank."""
    apart: dict[str, list[Float64]] = {host: [] for host in sorted(set(hosts))}
    resolution: dict[str, int] = {}
    for rank, host in zip(view.ranks, hosts, strict=True):
        step = fit.step_of(rank.iterations)
        good = (step >= 0) & (step < steps.count) & (rank.iteration_ns > 0)
        if good.any():
            unit = resolution_ns(rank.iteration_ns)
            resolution[host] = max(unit, resolution.get(host, 1))
            apart[host].append((rank.iteration_ns[good] - steps.end_ns[step[good]]).astype(np.float64) + unit / 2)
    clocks = []
    for host, parts in apart.items():
        if not parts:
            clocks.append(HostClock(host, fit.offset_ns, fit.error_ns, 0))
            continue
        values = np.concatenate(parts)
        offset = float(np.median(values))
        spread = float(np.median(np.abs(values - offset)))
        error = max(spread, resolution[host] / 2) / np.sqrt(min(values.size, 100)) + spread / 10
        clocks.append(HostClock(host, round(offset), int(error), int(values.size)))
    return tuple(clocks)
