"""Steps from conserved bytes.

A synchronous training step moves the same bytes every time, while its duration varies by tens of percent and records
end at arbitrary places. In byte-space (see `silences`) the step boundaries are therefore equally spaced, and the
longest silence of every step sits on one of them. For a trial number of bytes per step the best *chain* of silences
with that spacing is found by dynamic programming; the trial is judged by its *dominance*: the share of steps in which
no silence inside the step is longer than the silences at its two ends.

* At the true bytes per step the dominance is near 1.
* At twice the bytes (or any multiple) every chain link spans a boundary that is as long as its ends: well below 1/2.
* At a fraction (buckets, micro-batches) it may be high again, so the *largest* dominant spacing is the step, unless
  its silences are no longer than those of a finer dominant chain: then the finer one is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.kernel import kernel
from llmprism.stats.chain_bound import ROUNDING, ChainBound
from llmprism.stats.silences import Silences

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

__all__ = ["Chain", "chain_at", "find_steps"]

TOLERANCES: Final = (0.02, 0.08)
"""Relative deviation of one step's bytes. 2 % covers whole records (0.02-0.15 % measured on DDP, up to 2 % when a
transfer straddles the boundary); 8 % covers lossy and sampled collectors, tried where 2 % leaves much unexplained."""

TIGHT_TOLERANCE: Final = 0.004
"""Used to settle the phase: exact byte counts (0.02-0.15 %) cannot hop between two silences of one step."""

LOSSY: Final = 3.0
"""Multiple of the tolerance that is tried last, for collectors that lose records; taken only where it covers more."""

MIN_DOMINANCE: Final = 0.6
"""Measured on real captures: 0.75-1.0 at the true spacing, at most 0.45 at its multiples."""

SMALL_SAMPLE: Final = 0.8
"""Dominance asked for is MIN_DOMINANCE + SMALL_SAMPLE / steps: two or three steps must all agree."""

MIN_COVERAGE: Final = 0.5
"""A chain must span at least half of the bytes: set-up traffic and evaluation may take the rest."""

SAME_SILENCE: Final = 0.7
"""A finer chain whose added silences reach (in the median) this share of the coarser chain's is the step itself."""

PLAIN: Final = 0.9
"""Dominance asked of a finer chain that is to turn a coarser one's boundaries into pauses."""

LEAST_PARTS: Final = 5
"""Parts from which a step is told by their durations: steps that alternate come in twos and threes."""

LEAST_CYCLES: Final = 3
"""Steps that must show the same durations of their parts."""

UNLIKE: Final = 0.15
"""Relative difference of a part's duration, beyond the noise: backward takes twice as long as forward."""

UNLIKE_PARTS: Final = 0.25
"""Share of the parts that must differ: checkpoints and evaluation change one in many."""

PAUSE_SHARE: Final = 0.25
"""Share of the time that pauses every few steps take at most; gradient links rest longer than that between steps."""

SETTLING_GAIN: Final = 1.05
"""The tight tolerance settles the phase unless the usual one covers this many times the bytes."""

WIDER_GAIN: Final = 1.2
"""The wider tolerance is taken when its steps cover this many times the bytes: a lossy collector then explains more."""

CHANCE_STEPS: Final = 3
"""Two or three steps may be one long pause that happens to lie in the middle of the series (a checkpoint)..."""

MANY_STEPS: Final = 5
"""...when a finer chain of at least this many steps is dominant too: so many equal steps are no chance."""

LONG_SERIES: Final = 6_000
"""Silences beyond which steps of a single message are not looked for: every trial costs time in their number, and a
link of single-message steps has few silences (6,000 steps of 0.2 s are 20 minutes)."""

GRID: Final = 1.015
"""Ratio of neighbouring trial spacings: below the tolerance, so that none is missed."""

FEW: Final = 12
"""Silences up to which a loop in Python is faster than arrays."""

GUARD: Final = 0.03
"""Share of a step next to a boundary in which silences belong to that boundary (tails of small messages)."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Boundaries as indices into the silences, ascending. `regular[k]`: the bytes between boundary k and k+1 are one
    step's. Irregular links bridge set-up, evaluation, or records that were lost."""

    boundaries: Int64
    regular: NDArray[np.bool_]
    bytes_per_step: float
    dominance: float
    coverage: float

    @property
    def steps(self) -> int:
        return int(self.regular.sum())


def _link_by_arrays(position: Float64, weight: Float64, spacing: float, tolerance: float, cap: float) -> Int64:
    """The kernel below with arrays in place of its inner loop where many silences lie within the tolerance."""
    n = position.size
    where, length = position.tolist(), np.minimum(weight, cap).tolist()
    shortest, longest = spacing * (1.0 - tolerance), spacing * (1.0 + tolerance)
    best, previous = np.empty(n), [-1] * n
    told: list[float] = []  # the same as `best`, for reading one by one
    low = high = lead = 0
    for i in range(n):
        gain, origin, here = 0.0, -1, where[i]
        if i > 0 and told[lead] - 2.0 * cap > gain:
            gain, origin = told[lead] - 2.0 * cap, lead
        while here - where[low] > longest:
            low += 1
        while high < i and here - where[high] >= shortest:
            high += 1
        if high - low > FEW:
            apart = ((here - position[low:high]) / spacing - 1.0) / tolerance
            values = best[low:high] - 0.3 * cap * apart * apart
            j = int(values.argmax())
            if values[j] > gain:
                gain, origin = float(values[j]), low + j
        else:
            for j in range(low, high):
                misfit = ((here - where[j]) / spacing - 1.0) / tolerance
                value = told[j] - 0.3 * cap * misfit * misfit
                if value > gain:
                    gain, origin = value, j
        best[i] = length[i] + gain
        told.append(length[i] + gain)
        previous[i] = origin
        lead = i if told[i] > told[lead] else lead
    chain = [lead]
    while previous[chain[-1]] >= 0:
        chain.append(previous[chain[-1]])
    return np.array(chain[::-1], dtype=np.int64)


@kernel(small=_link_by_arrays)
def _link(position: Float64, weight: Float64, spacing: float, tolerance: float, cap: float) -> Int64:
    """Best chain: sum of the (capped) silences minus the misfit of each link; a break costs two caps."""
    n = position.size
    shortest, longest = spacing * (1.0 - tolerance), spacing * (1.0 + tolerance)
    best, previous = np.empty(n), np.full(n, -1, dtype=np.int64)
    leader = np.full(n, -1, dtype=np.int64)  # best chain end among 0..i
    low = 0
    for i in range(n):
        gain, origin = 0.0, -1
        if i > 0 and best[leader[i - 1]] - 2.0 * cap > gain:
            gain, origin = best[leader[i - 1]] - 2.0 * cap, leader[i - 1]
        while position[i] - position[low] > longest:
            low += 1
        j = low
        while j < i and position[i] - position[j] >= shortest:
            misfit = ((position[i] - position[j]) / spacing - 1.0) / tolerance
            value = best[j] - 0.3 * cap * misfit * misfit
            if value > gain:
                gain, origin = value, j
            j += 1
        best[i] = min(weight[i], cap) + gain
        previous[i] = origin
        leader[i] = i if i == 0 or best[i] > best[leader[i - 1]] else leader[i - 1]
    chain = np.empty(n, dtype=np.int64)
    count, i = 0, leader[n - 1]
    while i >= 0:
        chain[count] = i
        count += 1
        i = previous[i]
    return chain[:count][::-1].copy()


@kernel
def _judge(
    position: Float64, weight: Float64, chain: Int64, spacing: float, tolerance: float
) -> tuple[float, float, int]:
    """Dominance, covered bytes and number of regular links."""
    dominant, regular, covered = 0, 0, 0.0
    for k in range(chain.size - 1):
        a, b = chain[k], chain[k + 1]
        length = position[b] - position[a]
        if abs(length / spacing - 1.0) > tolerance:
            continue
        regular += 1
        covered += length
        inner = 0.0
        for i in range(a + 1, b):
            if position[a] + GUARD * spacing < position[i] < position[b] - GUARD * spacing:
                inner = max(inner, weight[i])
        if inner < min(weight[a], weight[b]):
            dominant += 1
    return (dominant / regular if regular else 0.0), covered, regular


@kernel
def _cap(ordered: Float64, steps: float) -> float:
    """Twice the median of the `steps` longest silences: one checkpoint pause must not outweigh many boundaries."""
    count = min(ordered.size, max(3, int(steps)))
    return 2.0 * float(ordered[count // 2])


@kernel
def _longest(weight: Float64, ordered: Float64, steps: float) -> Int64:
    """The longest silences, some for every step; `ordered` are all, the longest first."""
    kept = min(ordered.size, int(6 * steps) + 20)
    return np.flatnonzero(weight >= ordered[kept - 1])


@kernel
def _mean_link(position: Float64, chain: Int64, spacing: float, tolerance: float) -> float:
    """Mean bytes of the regular links: all of them lie within the tolerance, so none can pull it away."""
    total, count = 0.0, 0
    for k in range(chain.size - 1):
        length = position[chain[k + 1]] - position[chain[k]]
        if abs(length / spacing - 1.0) <= tolerance:
            total += length
            count += 1
    return total / count if count else spacing


@kernel
def _is_dominant(total: float, dominance: float, covered: float, regular: int) -> bool:
    return regular >= 2 and covered >= MIN_COVERAGE * total and dominance >= MIN_DOMINANCE + SMALL_SAMPLE / regular


@kernel
def _dominates(position: Float64, weight: Float64, ordered: Float64, spacing: float, tolerance: float) -> bool:
    """Is the best chain of this spacing dominant?"""
    total = position[-1]
    chosen = _longest(weight, ordered, total / spacing)
    where, length = position[chosen], weight[chosen]
    cap = _cap(ordered, total / spacing)
    refined = _mean_link(where, _link(where, length, spacing, tolerance, cap), spacing, tolerance)
    chain = _link(where, length, refined, tolerance, cap)
    dominance, covered, regular = _judge(where, length, chain, refined, tolerance)
    return _is_dominant(total, dominance, covered, regular)


def _next_by_bound(
    position: Float64, weight: Float64, ordered: Float64, spacing: float, tolerance: float, max_steps: int
) -> float:
    """The kernel below; spacings that cannot be dominant are not tried."""
    total = float(position[-1])
    bound = ChainBound(position, weight)
    while total / spacing <= max_steps:
        links = bound.links(_longest(weight, ordered, total / spacing), spacing, tolerance, GUARD)
        regular = max(2.0, MIN_COVERAGE * total / (spacing * (1.0 + tolerance) ** 2))
        hopeless = links < (1.0 - ROUNDING) * (MIN_DOMINANCE * regular + SMALL_SAMPLE)
        if not hopeless and _dominates(position, weight, ordered, spacing, tolerance):
            return spacing
        spacing /= GRID
    return 0.0


@kernel(small=_next_by_bound)
def _next_dominant(
    position: Float64, weight: Float64, ordered: Float64, spacing: float, tolerance: float, max_steps: int
) -> float:
    """The largest spacing, from this one down the grid, whose chain is dominant; 0 when there is none."""
    total = position[-1]
    while total / spacing <= max_steps:
        if _dominates(position, weight, ordered, spacing, tolerance):
            return spacing
        spacing /= GRID
    return 0.0


@dataclass(frozen=True, slots=True)
class _Trial:
    """A trial spacing, refined, and how well it does on the longest silences."""

    spacing: float
    dominance: float
    covered: float
    regular: int
    boundary_silences: Float64
    boundary_times: Float64

    @property
    def silence(self) -> float:
        return float(np.median(self.boundary_silences))

    def added_silence(self, coarser: _Trial) -> float:
        """Median of the silences that are not the coarser chain's too; those are the longer ones."""
        return float(np.quantile(self.boundary_silences, 0.5 * max(1.0 - self.spacing / coarser.spacing, 0.0)))

    def parts_of(self, coarser: _Trial) -> bool:
        """Are these parts of the coarser chain's steps: does their duration depend on their place in it?

        Steps are alike, but for the one before a checkpoint; layers forward and backward are not.
        """
        duration = np.diff(self.boundary_times)
        first = np.searchsorted(self.boundary_times, coarser.boundary_times)
        parts = int(np.median(np.diff(first))) if first.size > 1 else 0
        begins = first[:-1][(np.diff(first) == parts) & (first[:-1] + parts <= duration.size)]
        if parts < LEAST_PARTS or begins.size < LEAST_CYCLES:
            return False
        by_place = duration[begins[:, None] + np.arange(parts)[None, :]]
        usual = np.median(by_place, axis=0)
        typical = float(np.median(usual))
        noise = float(np.median(np.abs(by_place - usual[None, :])))
        unlike = np.abs(usual - typical) > max(UNLIKE * typical, 3.0 * noise)
        return bool(unlike.mean() >= UNLIKE_PARTS)

    @property
    def silent_share(self) -> float:
        """Share of the time between two boundaries that is the silence at the boundary."""
        return self.silence / max(float(np.median(np.diff(self.boundary_times))), 1.0)


class _Series:
    """Silences of one series, ranked once for all trials."""

    def __init__(self, silences: Silences) -> None:
        self.position = silences.bytes_before.astype(np.float64)
        self.weight = silences.length_ns.astype(np.float64)
        self.time = silences.begin_ns.astype(np.float64)
        self.ordered = np.sort(self.weight)[::-1].copy()
        self.total = float(self.position[-1])

    def attempt(self, spacing: float, tolerance: float) -> _Trial:
        steps = self.total / spacing
        long = _longest(self.weight, self.ordered, steps)
        where, length = self.position[long], self.weight[long]
        cap = _cap(self.ordered, steps)
        refined = float(_mean_link(where, _link(where, length, spacing, tolerance, cap), spacing, tolerance))
        chain = _link(where, length, refined, tolerance, cap)
        dominance, covered, regular = _judge(where, length, chain, refined, tolerance)
        return _Trial(refined, dominance, covered, regular, length[chain], self.time[long][chain])

    def next_dominant(self, spacing: float, tolerance: float, max_steps: int) -> float:
        """The largest spacing, from this one down the grid, whose chain is dominant; 0 when there is none."""
        return _next_dominant(self.position, self.weight, self.ordered, spacing, tolerance, max_steps)


def _largest_dominant(series: _Series, tolerance: float, max_steps: int, pauses: bool) -> float | None:
    """Bytes per step of the step chain; None when no spacing is dominant."""
    found: _Trial | None = None
    spacing = series.total / 1.9
    while asked := series.next_dominant(spacing, tolerance, max_steps):
        spacing = asked / GRID
        trial = series.attempt(asked, tolerance)
        if found is None:
            found = trial
        elif trial.spacing < 0.6 * found.spacing:
            alike = trial.added_silence(found) >= SAME_SILENCE * found.silence
            chance = found.regular <= CHANCE_STEPS and trial.regular >= MANY_STEPS
            rest = pauses and trial.dominance >= PLAIN and found.silent_share < PAUSE_SHARE
            if not (alike or rest or chance) or trial.parts_of(found):
                break
            found = trial
    return found.spacing if found is not None else None


def chain_at(silences: Silences, bytes_per_step: float, tolerance: float) -> Chain:
    """The best chain of boundaries for known bytes per step, its phase settled by the tight tolerance if it holds."""
    series = _Series(silences)
    position, weight = series.position, series.weight
    cap = _cap(series.ordered, series.total / bytes_per_step)
    best: tuple[Int64, float, float, float, float] | None = None
    for width in (TIGHT_TOLERANCE, tolerance, LOSSY * tolerance):
        links = _link(position, weight, bytes_per_step, width, cap)
        refined = float(_mean_link(position, links, bytes_per_step, width))
        links = _link(position, weight, refined, width, cap)
        dominance, covered, _ = _judge(position, weight, links, refined, width)
        gain = WIDER_GAIN if width > tolerance else SETTLING_GAIN
        if best is None or covered > gain * best[3]:
            best = links, refined, dominance, covered, width
    assert best is not None  # noqa: S101 - the loop ran
    links, refined, dominance, covered, width = best
    regular = np.abs(np.diff(position[links]) / refined - 1.0) <= max(width, tolerance)
    return Chain(links, regular, refined, dominance, covered / max(series.total, 1.0))


def _most_steps(silences: int) -> int:
    """A step may be one message, with one silence behind it."""
    return silences if silences <= LONG_SERIES else silences // 3


def find_steps(silences: Silences, max_steps: int | None = None, *, pauses: bool = False) -> Chain | None:
    """The chain of step boundaries of a series, or None when its silences show no steps.

    `max_steps` bounds the search (default: as many as silences, a third of them in long series). With `pauses`, long
    silences that come round every few steps and take a small share of the time are taken for checkpoints or evaluation,
    not for boundaries: right for gradient traffic, which is silent for much of every step, wrong for pipelines, whose
    micro-batches fill it.
    """
    if silences.count < 3 or silences.bytes_before[-1] <= 0:
        return None
    limit = max_steps if max_steps is not None else _most_steps(silences.count)
    series = _Series(silences)
    best: Chain | None = None
    for tolerance in TOLERANCES:
        spacing = _largest_dominant(series, tolerance, limit, pauses)
        if spacing is not None:
            chain = chain_at(silences, spacing, tolerance)
            if best is None or chain.coverage > WIDER_GAIN * best.coverage:
                best = chain
        if best is not None and best.coverage >= 1.0 / WIDER_GAIN:
            break
    return best if best is not None and best.steps >= 2 else None
