"""Which schedule explains when the messages of a pipeline pass, and so how many micro-batches a step has.

The links of a pipeline show how many equal messages pass in a step, but not whose they are: 18 messages each way
between two stages are 18 micro-batches, or 6 of a model in two interleaved chunks per rank (each passes the link three
times each way). The schedules predict different moments for them (`schedules.py`). Every schedule that makes this
number of messages is played through; what the moments seen miss of it, up to the unit of time, and what it takes to
say it are added up, and the cheapest one explains them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from llmprism.arrays import Float64, evenly_spread, median, medians
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.layout import Schedule
from llmprism.parallelism.features import PairFeatures
from llmprism.parallelism.likely_messages import odd_part
from llmprism.parallelism.link_rests import rested_clock
from llmprism.parallelism.micro_batches import schedule, virtual_stages
from llmprism.parallelism.pair_ends import pair_index
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.schedules import (
    PassOrder,
    gpipe,
    interleaved,
    message_times,
    one_f_one_b,
    v_shaped,
)
from llmprism.parallelism.stage_links import Pipelines

__all__ = ["NOT_PLAYED", "ScheduleFit", "chance_of", "fit_of_messages", "fitting_schedule", "order_price"]

NAMES: Final = {"gpipe": Schedule.GPIPE, "1f1b": Schedule.ONE_F_ONE_B, "interleaved": Schedule.INTERLEAVED}


@dataclass(frozen=True, slots=True)
class ScheduleFit:
    """The schedule and the micro-batches of a step, and by how many nats per message moments are off; nothing is known
    about these where no schedule was `played`. `turned`: how much clearer it is that pipelines run the other way (0:
    they do not). `by_bytes`: bytes alone say the number, and no schedule is better than chance with it. `by_link`: the
    bytes of the link that closes interleaved stages to a ring leave no other number of chunks. `messages` pass each
    link each way."""

    schedule: Schedule
    micro_batches: int | None
    misfit: float = 0.0
    played: bool = True
    turned: float = 0.0
    by_bytes: bool = False
    by_link: bool = False
    messages: int = 0

    def over_chance(self, rules: LayoutRules = RULES) -> float:
        """Nats per message by which moments are off, relative to those of random ones; 0 where nothing was played."""
        return self.misfit / chance_of(self.messages, rules) if self.played and self.messages else 0.0

    def bits_over_chance(self, rules: LayoutRules = RULES) -> float:
        """Bits by which the schedule explains the moments of a step's messages, each way over one link, better than
        chance does."""
        if not self.played or self.micro_batches is None:
            return 0.0
        return (rules.stages.schedule_chance - self.misfit) * 2 * self.micro_batches / float(np.log(2.0))


NOT_PLAYED: Final = ScheduleFit(Schedule.UNKNOWN, None, played=False)
"""Nothing is known of messages or their moments."""


def chance_of(messages: int, rules: LayoutRules = RULES) -> float:
    """Nats per message by which the best schedule misses so many messages at random moments, at the least: these are
    off by the root of their number. Few messages fit any schedule, at whatever moments they are."""
    rule = rules.stages
    return max(rule.schedule_random + 0.5 * math.log(messages / rule.random_messages), rule.few_random)


def fit_of_messages(
    transfers: TransferTable, pipes: Pipelines, features: PairFeatures, clock: StepClock, messages: int,
    rules: LayoutRules,
) -> ScheduleFit:  # fmt: skip
    """Micro-batches and schedule of pipelines whose links have so many messages in a step each way."""
    return replace(_fit_of_messages(transfers, pipes, features, clock, messages, rules), messages=messages)


def _fit_of_messages(
    transfers: TransferTable, pipes: Pipelines, features: PairFeatures, clock: StepClock, messages: int,
    rules: LayoutRules,
) -> ScheduleFit:  # fmt: skip
    if pipes.closing:
        fit = _interleaved_batches(transfers, pipes, features, clock, messages, rules)
        if fit is NOT_PLAYED or _closing_share(pipes, features) <= 1.0 + rules.clock.step_tolerance:
            return fit
        if fit.micro_batches is not None:
            folded = _if_folded(transfers, pipes.members, clock, messages, fit, rules)
            if folded is not None:
                return folded
    elif pipes.rings:
        return ScheduleFit(Schedule.INTERLEAVED, messages, played=False)
    closed = _may_be_folded(transfers, pipes, features, rules)
    open_fit = fitting_schedule(transfers, pipes.members, clock, messages, rules, folded=closed)
    if open_fit is not None and open_fit.micro_batches != messages:
        return open_fit
    stages = Counter(len(pipeline) for pipeline in pipes.members).most_common(1)[0][0]
    order = schedule(transfers, pipes.forward, clock, stages, messages, rules)
    return ScheduleFit(order, messages, played=False) if open_fit is None else replace(open_fit, schedule=order)


def _interleaved_batches(
    transfers: TransferTable, pipes: Pipelines, features: PairFeatures, clock: StepClock, messages: int,
    rules: LayoutRules,
) -> ScheduleFit:  # fmt: skip
    """Micro-batches of a pipeline that closes to a ring; where several numbers of virtual stages are possible, because
    the closing link may carry something else besides, the moments of the messages decide. Where they cannot be played
    and the closing link does carry more, nothing tells. A single number is played, too: messages that come in two
    pieces each are twice as many, and no schedule explains their moments."""
    stages, share = len(pipes.members[0]), _closing_share(pipes, features)
    virtual = virtual_stages(messages, share, stages, rules)
    if not virtual:
        return ScheduleFit(Schedule.INTERLEAVED, None, played=False)
    explained = share - (virtual[0] - 1) / virtual[0] <= rules.clock.step_tolerance
    orders = [interleaved(stages, messages // v, v) for v in virtual if messages // v % stages == 0]
    fit = fitting_schedule(transfers, pipes.members, clock, messages, rules, orders) if orders else None
    if fit is not None:
        return replace(fit, by_link=explained and len(virtual) == 1)
    return ScheduleFit(Schedule.INTERLEAVED, messages // virtual[0], played=False) if explained else NOT_PLAYED


def _if_folded(
    transfers: TransferTable, pipelines: tuple[tuple[int, ...], ...], clock: StepClock, messages: int,
    found: ScheduleFit, rules: LayoutRules,
) -> ScheduleFit | None:  # fmt: skip
    """How well interleaved stages explain the moments of the messages; None where open pipelines, whose first and last
    stage exchange something else, do better."""
    stages, batches = len(pipelines[0]), found.micro_batches or messages
    orders = [interleaved(stages, batches, messages // batches), one_f_one_b(stages, messages), gpipe(stages, messages)]
    fit = fitting_schedule(transfers, pipelines, clock, messages, rules, orders)
    if fit is None:
        return found
    return fit if fit.schedule is Schedule.INTERLEAVED else None


def _may_be_folded(
    transfers: TransferTable, pipes: Pipelines, features: PairFeatures, rules: LayoutRules
) -> bool:  # fmt: skip
    """Do the last stages of most pipelines send to the first ones as much as interleaved stages do at least?"""
    ends = np.array([(pipeline[-1], pipeline[0]) for pipeline in pipes.members], dtype=np.int64)
    back = transfers.pairs_between(ends[:, 0], ends[:, 1])
    sent = np.where(back >= 0, features.step_bytes[back], 0.0)
    usual = float(median([features.step_bytes[there] for there, _ in pipes.forward]))
    return float(median(sent)) >= (0.5 - rules.clock.step_tolerance) * usual


def _closing_share(pipes: Pipelines, features: PairFeatures) -> float:
    """Bytes of a step from the last stage to the first, relative to those between other stages. Interleaved stages
    send fewer there; tied embeddings of a pipeline that is none may send any number."""
    usual, closing = (
        float(median([features.step_bytes[there] for there, _ in links])) for links in (pipes.forward, pipes.closing)
    )
    return closing / max(usual, 1.0)


def fitting_schedule(
    transfers: TransferTable,
    pipelines: tuple[tuple[int, ...], ...],
    clock: StepClock,
    messages: int,
    rules: LayoutRules = RULES,
    orders: Sequence[PassOrder] = (),
    *,
    folded: bool = False,
) -> ScheduleFit | None:
    """The schedule under which `messages` pass each link of these pipelines each way, among these orders (the first one
    the likeliest) or those of open pipelines, and of `folded` ones; None where too little is seen."""
    rule = rules.stages
    stages = len(pipelines[0]) if pipelines else 0
    alike = [pipeline for pipeline in pipelines if len(pipeline) == stages]
    if stages < 2 or messages < 2:
        return None
    first = evenly_spread(stages - 1, max(rule.most_messages // (2 * messages), 1)).tolist()
    links = sorted(link for i in first for link in ((i, i + 1), (i + 1, i)))
    moments = [
        _seen_moments(transfers, alike[: rule.pipelines_sampled], clock, messages, rules, rested=rested)
        for rested in (False, True)
    ]
    seen = [np.concatenate([one[link] for link in links]) for one in moments if one]
    seen = [one for one in seen if np.isfinite(one).all() and np.ptp(one) > 0]
    if not seen:
        return None
    played = list(orders or _candidates(stages, messages, rules, folded=folded))
    misfits = [_misfit(order, links, seen, messages, rules) for order in played]
    usual = [order.name != "zbv" and order.micro_batches == messages for order in played]
    if orders:
        usual = [number == 0 for number in range(len(played))]
    misfit, best = _cheapest(played, misfits, usual, stages, messages, seen[0].size, rules)
    return ScheduleFit(NAMES.get(best.name, Schedule.UNKNOWN), best.micro_batches, misfit)


def _cheapest(
    played: list[PassOrder], misfits: list[float], usual: list[bool], stages: int, messages: int, moments: int,
    rules: LayoutRules,
) -> tuple[float, PassOrder]:  # fmt: skip
    """The order that explains the moments best, and how far it misses them: all compete by what their moments miss and
    by what it takes to say them. The same waits shift all messages that follow, so no more than a few moments tell
    something of their own: of 448 messages both 448 micro-batches and 64 of four chunks miss none by half of a
    distance. Orders that are not usual have to be nearer than random moments are."""
    rule, random = rules.stages, chance_of(messages, rules)
    tell = min(rule.moments_that_tell, moments)
    fits = []
    for order, misfit, first in zip(played, misfits, usual, strict=True):
        price = order_price(order, stages, rules) + (0.0 if first else rule.unusual_order)
        if first or misfit < random:
            fits.append((misfit + price / tell, misfit, order))
    _, misfit, best = min(fits, key=lambda fit: fit[0])
    return misfit, best


def order_price(order: PassOrder, stages: int, rules: LayoutRules = RULES) -> float:
    """Nats that it takes to say how many micro-batches and chunks an order has."""
    chunks = len(order.rank_of) // stages
    return rules.stages.odd_number * math.log(odd_part(order.micro_batches, stages)) + math.log(chunks)


def _candidates(stages: int, messages: int, rules: LayoutRules, *, folded: bool) -> Iterator[PassOrder]:
    """The schedules that send so many messages over every link of an open pipeline each way, or of one that is
    `folded`."""
    yield one_f_one_b(stages, messages)
    yield gpipe(stages, messages)
    if messages % 2 == 0 and messages // 2 >= 2 * stages:
        yield v_shaped(stages, messages // 2)
    for chunks in range(2, rules.stages.most_chunks + 1 if folded or stages == 2 else 0):
        passes = 2 * chunks - 1 if stages == 2 else chunks  # of two the way back to the first takes the same link
        if messages % passes == 0 and messages // passes >= stages:
            order = interleaved(stages, messages // passes, chunks)
            if order.micro_batches * passes == messages:
                yield order


def _misfit(
    order: PassOrder, links: list[tuple[int, int]], seen: list[Float64], messages: int, rules: LayoutRules
) -> float:
    """Nats per message of one link by which the moments seen are off those of the order, scaled and moved to fit, with
    the lengths of the backward pass and of a message that fit best; of several moments those that fit best."""
    played = []
    for backward in rules.stages.backward_lengths:
        for delay in rules.stages.message_delays:
            times = message_times(order, backward, delay)
            moments = np.concatenate([times.get(link, np.zeros(0)) for link in links])
            if moments.size == seen[0].size and np.isfinite(moments).all():
                played.append(moments)
    if not played:
        return float("inf")
    jitter = rules.stages.moment_jitter / messages
    return min(float(_misfits(np.array(played), one, jitter * float(np.ptp(one))).min()) for one in seen)


def _misfits(played: Float64, seen: Float64, spread: float) -> Float64:
    """The same for each row of moments played."""
    weight = np.ones_like(played)
    for _ in range(6):  # reweighted: some messages stall
        total = weight.sum(axis=1, keepdims=True)
        centred = played - (played * weight).sum(axis=1, keepdims=True) / total
        due = seen - (seen * weight).sum(axis=1, keepdims=True) / total
        slope = (weight * centred * due).sum(axis=1, keepdims=True) / (weight * centred**2).sum(axis=1, keepdims=True)
        off = (due - slope * centred) / spread
        weight = 1.0 / (1.0 + off**2)
    result: Float64 = 0.5 * np.log1p(off**2).mean(axis=1)
    return result


def _seen_moments(
    transfers: TransferTable, pipelines: list[tuple[int, ...]], clock: StepClock, messages: int, rules: LayoutRules, *,
    rested: bool,
) -> dict[tuple[int, int], Float64]:  # fmt: skip
    """When each message passes each link, by the ranks of its ends: medians over steps, then over pipelines. `rested`:
    in the steps between the longest rests of each pipeline, wherever the clock ticks."""
    pair_of = pair_index(transfers)
    found: dict[tuple[int, int], list[Float64]] = {}
    for pipeline in pipelines:
        links = [link for i, j in pairwise(range(len(pipeline))) for link in ((i, j), (j, i))]
        pairs = {link: pair_of.get((pipeline[link[0]], pipeline[link[1]])) for link in links}
        known = {link: pair for link, pair in pairs.items() if pair is not None}
        if len(known) < len(links):
            continue
        steps = rested_clock(transfers, np.array([*known.values()]), clock) if rested else clock
        moments = {link: _moments(transfers, pair, steps, messages, rules) for link, pair in known.items()}
        whole = np.logical_and.reduce([np.isfinite(times[:, 0]) for times in moments.values()])
        if not whole.any():
            continue
        begin = moments[0, 1][whole, :1]
        for link, times in moments.items():
            found.setdefault(link, []).append(medians(times[whole] - begin, axis=0))
    return {link: medians(times, axis=0) for link, times in found.items()}


def _moments(transfers: TransferTable, pair: int, clock: StepClock, messages: int, rules: LayoutRules) -> Float64:
    """When the middle of each message starts in each step (rows), in ns after the first tick; NaN where the bytes of
    the step are not the usual. Of several messages in one row each starts at its share of the row's time."""
    first, after = int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1])
    start, size = transfers.start_ns[first:after], transfers.bytes[first:after].astype(np.float64)
    sent = np.cumsum(size)
    before = np.concatenate([[0.0], sent])[np.searchsorted(start, clock.boundary_ns)]
    total = np.diff(before)
    usual = float(median(total[clock.regular])) if clock.regular.any() else 0.0
    whole = clock.regular & (total > 0) & (np.abs(total - usual) <= rules.stages.fitted_step * usual)
    result = np.full((total.size, messages), np.nan)
    middle = before[:-1][whole, None] + total[whole, None] * (np.arange(messages) + 0.5) / messages
    row = np.minimum(np.searchsorted(sent, middle), max(start.size - 1, 0))
    begun = middle - 0.5 * total[whole, None] / messages - (sent - size)[row]  # in the row, when its message begins
    share = np.clip(begun / np.maximum(size[row], 1.0), 0.0, 1.0)
    lasts = (transfers.end_ns[first:after] - start).astype(np.float64)[row]
    result[whole] = start[row] - clock.boundary_ns[0] + share * lasts
    return result
