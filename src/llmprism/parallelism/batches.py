"""How many micro-batches a step has: all numbers of messages that the records may tell compete by their schedules.

Silences tell numbers of messages (`micro_batches`); where they tell none, or one whose moments no schedule explains, or
one that nobody sets, the bytes of all bursts are asked (`likely_messages`), and how well schedules explain the moments
counts with what the bytes say. The same schedules tell which stage is the first: played from the wrong end they miss
the moments of a pipeline's messages by nats each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.layout import Schedule
from llmprism.parallelism.features import PairFeatures
from llmprism.parallelism.likely_messages import likely_messages, number_price
from llmprism.parallelism.link_rests import rested_clock
from llmprism.parallelism.micro_batches import message_counts
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.schedule_fit import NOT_PLAYED, ScheduleFit, chance_of, fit_of_messages, fitting_schedule
from llmprism.parallelism.schedules import interleaved
from llmprism.parallelism.stage_links import Pipelines

__all__ = ["batches_and_schedule"]


def batches_and_schedule(
    transfers: TransferTable, pipes: Pipelines, features: PairFeatures, clock: StepClock, rules: LayoutRules = RULES
) -> ScheduleFit:
    """Micro-batches of a step, and the order in which the pipelines take them.

    The likeliest number of messages competes with the others: one that a schedule explains, and by a margin better,
    stands in its place. Where that leaves none, messages are counted between the longest rests of the links: a tick
    among the passes cuts some in two; and what the bytes of all bursts make likely competes with them. A schedule that
    explains the moments from the last stage on says that the pipelines run the other way. None where the moments are
    hopeless with all numbers, unless silences and bytes agree, or the closing link of interleaved stages leaves no
    other."""
    if not pipes.forward:
        return NOT_PLAYED
    fits = _Fits(transfers, pipes, features, clock, rules)
    found = fits.best()
    if found is None:
        return replace(NOT_PLAYED, schedule=Schedule.INTERLEAVED) if pipes.rings else NOT_PLAYED
    found = fits.turned(found)
    if found.misfit < rules.stages.schedule_hopeless or fits.agreed or found.by_link:
        return found
    known = found.schedule if found.schedule is Schedule.INTERLEAVED else Schedule.UNKNOWN
    return replace(found, micro_batches=None, schedule=known)


def _of_pieces(likely: list[tuple[int, float]], rules: LayoutRules) -> Iterator[tuple[int, float]]:
    """Numbers of messages that come in so many pieces of one size as are likely, at a price."""
    for pieces in range(2, rules.stages.alike_pieces + 1):
        for count, nats in likely:
            if count % pieces == 0 and count > pieces:
                yield count // pieces, nats - rules.stages.schedule_margin


class _Fits:
    """Numbers of messages that were tried for the pipelines of a job, and how well schedules explain each; `by_bytes`
    is what the bytes of bursts say, where they were asked, `agreed` whether silences say the same."""

    def __init__(
        self, transfers: TransferTable, pipes: Pipelines, features: PairFeatures, clock: StepClock, rules: LayoutRules
    ) -> None:
        self.transfers, self.pipes, self.features, self.clock, self.rules = transfers, pipes, features, clock, rules
        self.stages = len(pipes.members[0])
        self.tried: list[int] = []
        self.by_bytes: ScheduleFit | None = None
        self.agreed = False

    def best(self) -> ScheduleFit | None:
        """The number that is explained best; where silences tell none, or moments are no better than chance, the bytes
        of bursts are asked, too."""
        found = None
        for rested in (False, True):
            steps = _rested(self.transfers, self.pipes.forward, self.clock, self.rules) if rested else self.clock
            for count in message_counts(self.transfers, self.pipes.forward, steps, self.rules):
                if found is not None and self._settled(found):
                    return found
                found = self._better(found, count)
            found = self._without_collective(found)
            if found is not None and found.misfit < _chance(found, self.rules) and self._usual(found):
                return found
        self.by_bytes = self._by_bytes()
        if found is None or self.by_bytes is None:
            return found or self.by_bytes
        self.agreed = found == replace(self.by_bytes, by_bytes=False)
        if not found.played and self.by_bytes.micro_batches is not None:
            return self.by_bytes  # what it takes to say a number is all that moments would add
        return self.by_bytes if _explains(self.by_bytes, found, self.stages, self.rules) else found

    def _without_collective(self, found: ScheduleFit | None) -> ScheduleFit | None:
        """One message less, where somebody sets that and it is explained better: two stages share their link with a
        collective, which passes for one more message if it is about as large."""
        if found is None or self.stages != 2 or self._settled(found):
            return found
        fewer = self._better(found, found.messages - 1)
        return fewer if fewer is not None and self._usual(fewer) else found

    def _settled(self, found: ScheduleFit) -> bool:
        """Can no other number do better? One that nobody sets has to be explained."""
        return _cannot_lose(found, self.stages, self.rules) and (found.played or self._usual(found))

    def _usual(self, found: ScheduleFit) -> bool:
        """Is this a number of micro-batches that somebody sets? None is, where no chunks make up so many messages."""
        batches = found.micro_batches
        return batches is not None and number_price(batches, self.stages, 1) <= self.rules.stages.schedule_margin

    def _by_bytes(self) -> ScheduleFit | None:
        """The number of messages that the bytes of all bursts and the moments together say."""
        rule, best, most = self.rules.stages, None, -math.inf
        pairs = np.array([pair for link in self.pipes.forward[: rule.links_sampled] for pair in link], dtype=np.int64)
        closed = bool(self.pipes.closing)
        likely = likely_messages(self.transfers, pairs, self.clock, self.stages, self.rules, ring=closed)
        for count, nats in (*likely, *_of_pieces(likely, self.rules)):
            fit = fit_of_messages(self.transfers, self.pipes, self.features, self.clock, count, self.rules)
            self.tried += [count] if count not in self.tried else []
            misfit = fit.misfit if fit.played else rule.schedule_chance
            nats += rule.moments_that_tell * (math.log(count) - misfit)  # moments are missed in units of messages
            if fit.micro_batches is not None and nats > most:
                alone = misfit >= rule.schedule_chance
                best, most = replace(fit, by_bytes=alone), nats
        return best

    def turned(self, found: ScheduleFit) -> ScheduleFit:
        """What explains the moments if the last stage is the first, where that is better by the margin."""
        if not found.played:
            return self._turned_ring(found)
        if _cannot_lose(found, self.stages, self.rules):
            return found
        pipes, best = self.pipes.turned(self.transfers), found
        for count in self.tried:
            fit = fit_of_messages(self.transfers, pipes, self.features, self.clock, count, self.rules)
            if _explains(fit, best, self.stages, self.rules) and self._leads(fit, found) > self.pipes.clear:
                best = replace(fit, turned=self._leads(fit, found))
        return best

    def _leads(self, turned: ScheduleFit, found: ScheduleFit) -> float:
        """By how much of all nats pipelines are explained better the other way round; nothing where that is not by
        twice the margin: rests have said that they are not."""
        nats = (found.misfit - turned.misfit) * 2 * (self.stages - 1) * (turned.micro_batches or 0)
        if nats <= 2.0 * self.rules.stages.schedule_margin:
            return 0.0
        return (found.misfit - turned.misfit) / (found.misfit + turned.misfit)

    def _turned_ring(self, found: ScheduleFit) -> ScheduleFit:
        """The same where the closing link alone said how many stages are interleaved: its only order is played, too."""
        for messages in self.tried if self.pipes.closing and found.micro_batches else ():
            chunks, rest = divmod(messages, found.micro_batches or 1)
            if rest or chunks < 2 or (found.micro_batches or 0) % self.stages:
                continue
            orders = [interleaved(self.stages, messages // chunks, chunks)]
            here, turned = (
                fitting_schedule(self.transfers, pipes.members, self.clock, messages, self.rules, orders)
                for pipes in (self.pipes, self.pipes.turned(self.transfers))
            )
            if here is not None and turned is not None and _explains(turned, here, self.stages, self.rules):
                leads = self._leads(turned, here)
                return replace(turned, turned=leads, messages=messages) if leads > self.pipes.clear else found
        return found

    def _better(self, found: ScheduleFit | None, count: int) -> ScheduleFit | None:
        """What is found, or this number of messages, which has not been tried before, where it is explained better."""
        if count in self.tried:
            return found
        self.tried.append(count)
        fit = fit_of_messages(self.transfers, self.pipes, self.features, self.clock, count, self.rules)
        return fit if found is None or _explains(fit, found, self.stages, self.rules) else found


def _rested(transfers: TransferTable, links: list[tuple[int, int]], clock: StepClock, rules: LayoutRules) -> StepClock:
    pairs = np.array([pair for link in links[: rules.stages.links_sampled] for pair in link], dtype=np.int64)
    return rested_clock(transfers, pairs, clock)


def _cannot_lose(found: ScheduleFit, stages: int, rules: LayoutRules) -> bool:
    """Is what is found explained so well that no other number can lead by the margin, or not to be compared at all?"""
    nats = found.misfit * 2 * (stages - 1) * (found.micro_batches or rules.stages.most_micro_batches)
    return not found.played or nats <= rules.stages.schedule_margin


def _explains(fit: ScheduleFit, found: ScheduleFit, stages: int, rules: LayoutRules) -> bool:
    """Does a schedule explain another number of messages, and better than the number found is explained: by a margin
    over all links of a pipeline, where that is better than chance?"""
    if fit.micro_batches is None or not fit.played or not found.played or fit.misfit >= _chance(fit, rules):
        return False
    messages = min(fit.micro_batches, found.micro_batches or fit.micro_batches)
    margin = rules.stages.schedule_margin if found.misfit < _chance(found, rules) else 0.0
    return (found.misfit - fit.misfit) * 2 * (stages - 1) * messages > margin


def _chance(fit: ScheduleFit, rules: LayoutRules) -> float:
    """Nats per message from which on its schedule explains nothing."""
    return min(rules.stages.schedule_chance, chance_of(fit.messages, rules))
