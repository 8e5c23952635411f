"""Micro-batches per step and the pipeline's schedule, from the forward and backward messages of pipeline links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.layout import Schedule
from llmprism.parallelism.agreed_ends import agreed_messages
from llmprism.parallelism.counted_messages import counted_messages
from llmprism.parallelism.rows_in_steps import rows_in_steps
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.quantum import equal_parts, scattered_parts
from llmprism.stats.robust import known_median, segment_quantiles

__all__ = [
    "InteriorSilences",
    "interior_silences",
    "message_counts",
    "micro_batches",
    "schedule",
    "virtual_stages",
]


def micro_batches(
    transfers: TransferTable, links: list[tuple[int, int]], clock: StepClock, rules: LayoutRules = RULES
) -> int | None:
    """Micro-batches per step, from (forward, backward) pairs: one message each way; None when silences do not tell."""
    return next(message_counts(transfers, links, clock, rules), None)


def message_counts(
    transfers: TransferTable, links: list[tuple[int, int]], clock: StepClock, rules: LayoutRules = RULES
) -> Iterator[int]:
    """Numbers of messages per step that silences may tell, the likeliest first; one may come several times.

    Messages are counted where they stand apart. Else the places of silences tell: in both directions together, then in
    each, because other traffic may share one of them; first exact places, then places that all links of a pipeline
    agree about (every message has a length of its own), then places that scatter (losses). Where no two steps carry the
    same bytes, agreement comes first.
    """
    rule = rules.stages
    forward, backward = (
        np.array([link[way] for link in links[: rule.links_sampled]], dtype=np.int64) for way in (0, 1)
    )
    there, back = (interior_silences(transfers, pairs, clock, rules, complete=True) for pairs in (forward, backward))
    found = [there.with_those_of(back), there, back]
    if found[0].length.sum() < rule.interior_silence * max(found[0].steps, 1) * clock.period_ns:
        yield 1
        return

    yield from counted_messages(transfers, np.concatenate([forward, backward]), clock, rules)

    def exact() -> Iterator[int | None]:
        return (equal_parts(one.place, one.length, rule.most_micro_batches, rule.messages_explain) for one in found)

    def agreed() -> Iterator[int | None]:
        yield agreed_messages(transfers, np.concatenate([forward, backward]), clock, rules)

    def scattered() -> Iterator[int | None]:
        return (scattered_parts(one.place, one.length) for one in found)

    for ask in (agreed, exact, scattered) if found[0].varied else (exact, agreed, scattered):
        yield from (parts for parts in ask() if parts is not None)


def virtual_stages(messages: int, closing_share: float, stages: int, rules: LayoutRules = RULES) -> list[int]:
    """Numbers of virtual stages per rank of an interleaved pipeline whose neighbours exchange `messages` per step, the
    one that explains the closing link best first.

    With v virtual stages each micro-batch passes every link v times and the link from the last stage back to the first
    v - 1 times; what that link carries beyond it is something else (tied embeddings). There is a micro-batch for every
    stage at least.
    """
    most = closing_share + rules.clock.step_tolerance
    fits = [v for v in range(2, messages // stages + 1) if messages % v == 0 and (v - 1) / v <= most]
    return sorted(fits, key=lambda v: (closing_share - (v - 1) / v, -v))


@dataclass(frozen=True, slots=True)
class InteriorSilences:
    """Silences of some pairs inside steps: place as a share of the pair's bytes in the step, and length in ns; `steps`
    counts the steps of all the pairs that were looked at. `varied`: hardly two steps of a pair carry the same bytes."""

    place: Float64
    length: Float64
    steps: int
    varied: bool = False

    def with_those_of(self, others: InteriorSilences) -> InteriorSilences:
        places, lengths = ([getattr(part, name) for part in (self, others)] for name in ("place", "length"))
        return InteriorSilences(
            np.concatenate(places), np.concatenate(lengths), self.steps + others.steps, self.varied and others.varied
        )


def interior_silences(
    transfers: TransferTable, pairs: Int64, clock: StepClock, rules: LayoutRules = RULES, *, complete: bool = False
) -> InteriorSilences:
    """The silences of these pairs, those of one pair after those of another; lengths are cut at what is usual for the
    pair: a multiple of the median or a high quantile, whichever is more. `complete`: only of steps in which the pair
    sends what it usually sends, where that is so of enough of them."""
    own = rows_in_steps(transfers, pairs, clock)
    rows, pair, step, cell, total = own.rows, own.pair, own.step, own.cell, own.total
    before = np.flatnonzero((cell[1:] == cell[:-1]) & clock.regular[step[1:]])
    steps, varied = pairs.size * clock.steps, False
    if complete:
        cells = _complete_cells(total.reshape(pairs.size, -1).astype(np.float64), clock, rules)
        if cells.sum() >= rules.stages.complete_steps * steps:
            before, steps = before[cells.ravel()[cell[before]]], int(cells.sum())
        else:
            varied = True
    place = own.sent[before] / np.maximum(total[cell[before]], 1.0)
    length = (transfers.start_ns[rows[before + 1]] - transfers.end_ns[rows[before]]).astype(np.float64)
    of_pair = pair[before]
    offsets = np.searchsorted(of_pair, np.arange(pairs.size + 1))
    median, longest = segment_quantiles(length, offsets, 0.5, rules.stages.usual_lengths)
    return InteriorSilences(
        place, np.minimum(length, np.maximum(rules.stages.usual_medians * median, longest)[of_pair]), steps, varied
    )


def _complete_cells(total: Float64, clock: StepClock, rules: LayoutRules) -> Bool:
    """The steps (columns) of each pair (rows) in which it sends its usual bytes."""
    seen = np.where(clock.regular & (total > 0), total, np.nan)
    usual = known_median(seen, axis=1)
    complete: Bool = np.abs(seen - usual[:, None]) <= rules.stages.complete_step * usual[:, None]
    return complete


def schedule(transfers: TransferTable, links: list[tuple[int, int]], clock: StepClock, stages: int,
             batches: int | None, rules: LayoutRules = RULES) -> Schedule:  # fmt: skip
    """GPipe sends every activation before the first gradient returns; 1F1B only the warm-up's."""
    if batches is None or batches <= 2 or not links:
        return Schedule.UNKNOWN
    shares = [
        _sent_before_return(transfers, forward, backward, clock)
        for forward, backward in links[: rules.stages.links_sampled]
    ]
    share = float(np.median(shares))
    if share >= rules.stages.gpipe_share and stages < batches:
        return Schedule.GPIPE
    if share <= rules.stages.one_f_one_b_share:
        return Schedule.ONE_F_ONE_B
    return Schedule.UNKNOWN


def _sent_before_return(transfers: TransferTable, forward: int, backward: int, clock: StepClock) -> float:
    """Median share of a step's forward bytes that were sent before its first backward message."""
    if forward < 0 or backward < 0:
        return 1.0
    first_back = _first_start(transfers, backward, clock)
    rows = slice(int(transfers.pair_offsets[forward]), int(transfers.pair_offsets[forward + 1]))
    start, size = transfers.start_ns[rows], transfers.bytes[rows]
    step = clock.step_at(start)
    inside = step >= 0
    start, size, step = start[inside], size[inside], step[inside]
    total = np.bincount(step, size, minlength=clock.regular.size)
    early = np.bincount(step, size * (start < first_back[step]), minlength=clock.regular.size)
    known = clock.regular & (total > 0) & (first_back < np.iinfo(np.int64).max)
    return float(median(early[known] / total[known])) if known.any() else 1.0


def _first_start(transfers: TransferTable, pair: int, clock: StepClock) -> Int64:
    rows = slice(int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1]))
    start = transfers.start_ns[rows][transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]
    first = np.full(clock.regular.size, np.iinfo(np.int64).max, dtype=np.int64)
    step = clock.step_at(start)
    inside = step >= 0
    np.minimum.at(first, step[inside], start[inside])
    return first
