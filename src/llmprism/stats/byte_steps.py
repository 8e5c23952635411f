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
from functools import cached_property
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median, quantile
from llmprism.kernel import kernel
from llmprism.stats.chain_bound import ROUNDING, enough_links, last_as_long, longest_alone, next_as_long
from llmprism.stats.chains import GUARD, at_least, cap_of, kept_silences, least_kept, longest, refined_chain
from llmprism.stats.silences import Silences

__all__ = ["Chain", "chain_at", "find_rhythms"]

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
"""Dominance required is MIN_DOMINANCE + SMALL_SAMPLE / steps: two or three steps must all agree."""

MIN_COVERAGE: Final = 0.5
"""A chain must span at least half of the bytes: set-up traffic and evaluation may take the rest."""

FINER: Final = 0.6
"""Spacing of a finer chain at most, relative to the coarser one's: those between are the same chain again."""

SAME_SILENCE: Final = 0.7
"""A finer chain whose added silences reach (in the median) this share of the coarser chain's is the step itself."""

CLEAR_DOMINANCE: Final = 0.9
"""Dominance required of a finer chain that is to turn a coarser one's boundaries into pauses."""

LEAST_PARTS: Final = 5
"""Parts from which a step is recognised by their durations: steps that alternate come in twos and threes."""

LEAST_CYCLES: Final = 3
"""Steps that must show the same durations of their parts."""

UNLIKE: Final = 0.15
"""Relative difference of a part's duration, beyond the noise: backward takes twice as long as forward."""

NOISES: Final = 3.0
"""Median deviations that count as noise."""

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

OTHER_RHYTHMS: Final = 2
"""Rhythms besides the step's that are followed up: each costs a chain over all silences."""

GRID: Final = 1.015
"""Ratio of neighbouring trial spacings: below the tolerance, so that none is missed."""

TOGETHER: Final = GRID**8
"""Range of spacings that are ruled out together, if they can be: most can."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Boundaries as indices into the silences, ascending. `regular[k]`: the bytes between boundary k and k+1 are one
    step's. Irregular links bridge set-up, evaluation, or records that were lost."""

    boundaries: Int64
    regular: Bool
    bytes_per_step: float
    dominance: float
    coverage: float

    @property
    def steps(self) -> int:
        return int(self.regular.sum())


@kernel
def _is_dominant(total: float, dominance: float, covered: float, regular: int) -> bool:
    return regular >= 2 and covered >= MIN_COVERAGE * total and dominance >= MIN_DOMINANCE + SMALL_SAMPLE / regular


@kernel(looks=0)
def _dominates(
    position: Float64, weight: Float64, ordered: Float64, total: float, spacing: float, tolerance: float
) -> bool:
    """Is the best chain of this spacing dominant?"""
    where, length = at_least(position, weight, least_kept(ordered, total / spacing))
    cap = cap_of(ordered, total / spacing)
    _, _, dominance, covered, regular = refined_chain(where, length, spacing, tolerance, cap)
    return _is_dominant(total, dominance, covered, regular)


@kernel(looks=0)
def _hopeless(
    position: Float64, weight: Float64, ordered: Float64, following: Int64, preceding: Int64, total: float,
    finest: float, coarsest: float, tolerance: float,
) -> bool:  # fmt: skip
    """Can no chain with a spacing between these two be dominant?"""
    least = least_kept(ordered, total / finest)
    regular = max(2.0, MIN_COVERAGE * total / (coarsest * (1.0 + tolerance) ** 2))
    enough = (1.0 - ROUNDING) * (MIN_DOMINANCE * regular + SMALL_SAMPLE)
    return not enough_links(position, weight, following, preceding, least, finest, coarsest, tolerance, GUARD, enough)


@kernel(looks=0)
def _next_dominant(
    position: Float64, weight: Float64, ordered: Float64, following: Int64, preceding: Int64, spacing: float,
    tolerance: float, max_steps: int,
) -> float:  # fmt: skip
    """The largest spacing, from this one down the grid, whose chain is dominant; 0 when there is none.

    Spacings that cannot be dominant, first several together, then one by one, are not tried. Coarse ones are tried
    on few silences, the longest: those that the next ones need are set apart, twice as many when they become too few.
    """
    total, apart = position[-1], 0
    where, length, after, before = position, weight, following, preceding
    while total / spacing <= max_steps:
        finest = spacing / TOGETHER
        if kept_silences(total / finest) > apart and apart < position.size:
            apart = min(2 * kept_silences(total / finest), position.size)
            least = ordered[apart - 1]
            where, length, after, before = longest_alone(position, weight, following, preceding, least)
        hopeless = _hopeless(where, length, ordered, after, before, total, finest, spacing, tolerance)
        while spacing >= finest and total / spacing <= max_steps:
            tried = not hopeless and not _hopeless(
                where, length, ordered, after, before, total, spacing, spacing, tolerance
            )
            if tried and _dominates(where, length, ordered, total, spacing, tolerance):
                return spacing
            spacing /= GRID
    return 0.0


@dataclass(frozen=True, slots=True)
class _SpacingTrial:
    """A trial spacing, refined, and how well it does on the longest silences."""

    spacing: float
    dominance: float
    regular: int
    boundary_silences: Float64
    boundary_times: Float64

    @property
    def silence(self) -> float:
        return float(median(self.boundary_silences))

    def added_silence(self, coarser: _SpacingTrial) -> float:
        """Median of the silences that are not the coarser chain's too; those are the longer ones."""
        return float(quantile(self.boundary_silences, 0.5 * max(1.0 - self.spacing / coarser.spacing, 0.0)))

    def parts_of(self, coarser: _SpacingTrial) -> bool:
        """Are these parts of the coarser chain's steps: does their duration depend on their place in it?

        Steps are alike, but for the one before a checkpoint; layers forward and backward are not.
        """
        duration = np.diff(self.boundary_times)
        first = np.searchsorted(self.boundary_times, coarser.boundary_times)
        parts = int(median(np.diff(first))) if first.size > 1 else 0
        begins = first[:-1][(np.diff(first) == parts) & (first[:-1] + parts <= duration.size)]
        if parts < LEAST_PARTS or begins.size < LEAST_CYCLES:
            return False
        by_place = duration[begins[:, None] + np.arange(parts)[None, :]]
        usual = np.median(by_place, axis=0)
        typical = float(median(usual))
        noise = float(median(np.abs(by_place - usual[None, :])))
        unlike = np.abs(usual - typical) > max(UNLIKE * typical, NOISES * noise)
        return bool(unlike.mean() >= UNLIKE_PARTS)

    @property
    def silent_share(self) -> float:
        """Share of the time between two boundaries that is the silence at the boundary."""
        return self.silence / max(float(median(np.diff(self.boundary_times))), 1.0)


class _SilenceSeries:
    """Silences of one series, ranked once for all trials."""

    def __init__(self, silences: Silences) -> None:
        self.position = silences.bytes_before.astype(np.float64)
        self.weight = silences.length_ns.astype(np.float64)
        self.time = silences.begin_ns.astype(np.float64)
        self.ordered = np.sort(self.weight)[::-1].copy()
        self.total = float(self.position[-1])

    @cached_property
    def rivals(self) -> tuple[Int64, Int64]:
        """For each silence the next one and the last one that is as long."""
        return next_as_long(self.weight), last_as_long(self.weight)

    def attempt(self, spacing: float, tolerance: float) -> _SpacingTrial:
        steps = self.total / spacing
        long = longest(self.weight, self.ordered, steps)
        where, length = self.position[long], self.weight[long]
        cap = cap_of(self.ordered, steps)
        chain, refined, dominance, _, regular = refined_chain(where, length, spacing, tolerance, cap)
        return _SpacingTrial(refined, dominance, regular, length[chain], self.time[long][chain])

    def next_dominant(self, spacing: float, tolerance: float, max_steps: int) -> float:
        """The largest spacing, from this one down the grid, whose chain is dominant; 0 when there is none."""
        return _next_dominant(self.position, self.weight, self.ordered, *self.rivals, spacing, tolerance, max_steps)


def _dominant_spacings(series: _SilenceSeries, tolerance: float, max_steps: int, pauses: bool) -> list[float]:
    """Bytes per step of the step chain, then of the other dominant chains that were met on the way to it."""
    found: _SpacingTrial | None = None
    others: list[float] = []
    spacing = series.total / 1.9
    while proposed := series.next_dominant(spacing, tolerance, max_steps):
        spacing = proposed / GRID
        trial = series.attempt(proposed, tolerance)
        if found is None:
            found = trial
        elif trial.spacing < FINER * found.spacing:
            alike = trial.added_silence(found) >= SAME_SILENCE * found.silence
            chance = found.regular <= CHANCE_STEPS and trial.regular >= MANY_STEPS
            rest = pauses and trial.dominance >= CLEAR_DOMINANCE and found.silent_share < PAUSE_SHARE
            if not (alike or rest or chance) or trial.parts_of(found):
                others.append(trial.spacing)
                break
            others.append(found.spacing)
            found = trial
        while spacing * (1.0 - tolerance) * (1.0 - ROUNDING) >= FINER * found.spacing:
            spacing /= GRID  # refined, it would still be too near to the one found
    return [found.spacing, *others[::-1]] if found is not None else []


def chain_at(silences: Silences, bytes_per_step: float, tolerance: float) -> Chain:
    """The best chain of boundaries for known bytes per step, its phase settled by the tight tolerance if it holds."""
    return _settled(_SilenceSeries(silences), bytes_per_step, tolerance)


def _settled(series: _SilenceSeries, bytes_per_step: float, tolerance: float) -> Chain:
    position, weight = series.position, series.weight
    cap = cap_of(series.ordered, series.total / bytes_per_step)
    best: tuple[Int64, float, float, float, float] | None = None
    for width in (TIGHT_TOLERANCE, tolerance, LOSSY * tolerance):
        gain = WIDER_GAIN if width > tolerance else SETTLING_GAIN
        if best is not None and gain * best[3] > (1.0 + ROUNDING) * (position[-1] - position[0]):
            break  # no chain covers more than there is
        links, refined, dominance, covered, _ = refined_chain(position, weight, bytes_per_step, width, cap)
        if best is None or covered > gain * best[3]:
            best = links, refined, dominance, covered, width
    assert best is not None  # noqa: S101 - the loop ran
    links, refined, dominance, covered, width = best
    regular = np.abs(np.diff(position[links]) / refined - 1.0) <= max(width, tolerance)
    return Chain(links, regular, refined, dominance, covered / max(series.total, 1.0))


def _most_steps(silences: int) -> int:
    """A step may be one message, with one silence behind it."""
    return silences if silences <= LONG_SERIES else silences // 3


def find_rhythms(silences: Silences, max_steps: int | None = None, *, pauses: bool = False) -> tuple[Chain, ...]:
    """The chain of step boundaries of a series, then the chains of other dominant rhythms: those of something slower
    (checkpoints, evaluation) that were met before it, the nearest first, or of something faster (layers,
    micro-batches). Nothing when the silences show no steps.

    `max_steps` bounds the search (default: as many as silences, a third of them in long series). With `pauses`, long
    silences that come round every few steps and take a small share of the time are taken for checkpoints or evaluation,
    not for boundaries: right for gradient traffic, which is silent for much of every step, wrong for pipelines, whose
    micro-batches fill it.
    """
    if silences.count < 3 or silences.bytes_before[-1] <= 0:
        return ()
    limit = max_steps if max_steps is not None else _most_steps(silences.count)
    series = _SilenceSeries(silences)
    best: tuple[Chain, ...] = ()
    for tolerance in TOLERANCES:
        spacings = _dominant_spacings(series, tolerance, limit, pauses)
        if spacings:
            chain = _settled(series, spacings[0], tolerance)
            if not best or chain.coverage > WIDER_GAIN * best[0].coverage:
                others = (_settled(series, other, tolerance) for other in spacings[1 : 1 + OTHER_RHYTHMS])
                best = (chain, *(other for other in others if other.steps >= 2))
        if best and best[0].coverage >= 1.0 / WIDER_GAIN:
            break
    return best if best and best[0].steps >= 2 else ()
