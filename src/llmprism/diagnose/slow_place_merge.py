"""Suspected places by several signs, put together: one finding per cause.

What is slow makes others wait, and whatever waits may look slow, held back, broken up or late by some sign. So the
places by all signs compete for each job and time: the likeliest (`place_signs`) is named, and explains what else is
suspected at about that time. Only the same place by another sign adds to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from llmprism.diagnose.place_signs import CellSign, PlaceSigns, chance_of
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.slow_cells import SlowCells
from llmprism.model.finding import Finding, Where, WhereType

__all__ = [
    "SuspectedPlace",
    "are_lanes",
    "as_second",
    "comes_and_goes_with",
    "one_per_cause",
    "one_per_lanes",
    "without_rings_that_wait",
]


@dataclass(frozen=True, slots=True)
class SuspectedPlace:
    """A finding on a place, the `signs` that speak for it, and the `pairs` (job and number) that pass it. `healthy` are
    the cells elsewhere that are not sick then: without any, nobody shows that others could be."""

    finding: Finding
    signs: PlaceSigns
    pairs: frozenset[tuple[str, int]]
    healthy: int = 0

    @property
    def jobs(self) -> frozenset[str]:
        return frozenset(job for job, _ in self.pairs)


def one_per_cause(suspects: Sequence[SuspectedPlace], end_ns: int, rules: FaultRules = RULES) -> list[Finding]:
    """Of the places that are suspected at about one time in one job by different signs the likeliest; the first of
    several that are as likely. One that is likely by measured rates or bytes comes before those that are inferred.
    `end_ns` is when those that did not end were last seen."""

    def rank(suspect: SuspectedPlace) -> tuple[bool, float]:
        sure = suspect.finding.confidence
        measured = suspect.signs.sign in (CellSign.SLOW, CellSign.RESENT)
        return not (measured and sure > rules.trust.likely), -sure

    kept: list[SuspectedPlace] = []
    for one in sorted(suspects, key=rank):
        rivals = [other for other in kept if _compete(one, other) and _share_time(one, other, end_ns, rules)]
        if not rivals:
            others = [other for other in kept if other.signs.sign is not one.signs.sign]
            one = as_second(one, others, end_ns, rules)
            kept += [one] if one.finding.confidence >= rules.trust.worth_a_look else []
        elif _same_place(one.finding, rivals[0].finding):
            kept[kept.index(rivals[0])] = replace(rivals[0], finding=_longer(rivals[0].finding, one.finding))
    return [one.finding for one in kept]


def without_rings_that_wait(broken: Sequence[SuspectedPlace], rules: FaultRules = RULES) -> list[SuspectedPlace]:
    """The places that break messages up without groups, unless nearly all cells of a group are broken up, hardly any
    others are, and others could be: all hops of a ring that waits for one of its members, in the middle of a message,
    look alike."""
    rule = rules.places

    def is_one(place: SuspectedPlace) -> bool:
        group = place.finding.where.type is WhereType.GROUP
        return not group or (place.signs.fit >= rule.scale_group_fit and place.healthy >= rule.sick_cells)

    return [one for one in broken if is_one(one)]


def one_per_lanes(places: Sequence[SuspectedPlace], rules: FaultRules = RULES) -> list[SuspectedPlace]:
    """Groups of one job that are slow at the same time are the lanes of one tensor-parallel group: one place, which
    explains what they explain together."""
    kept: list[SuspectedPlace] = []
    for one in places:
        at = next((k for k, other in enumerate(kept) if are_lanes(other, one)), None)
        if at is None:
            kept.append(one)
            continue
        first = kept[at]
        members = tuple(dict.fromkeys((*first.finding.where.id, *one.finding.where.id)))
        signs = replace(first.signs, of_sick=min(first.signs.of_sick + one.signs.of_sick, 1.0))
        where, sure = Where(WhereType.GROUP, members), chance_of(signs, rules)
        whole = replace(first.finding, where=where, confidence=max(sure, first.finding.confidence))
        kept[at] = replace(first, finding=whole, signs=signs, healthy=min(first.healthy, one.healthy))
    return kept


def are_lanes(one: SuspectedPlace, other: SuspectedPlace) -> bool:
    """Are they groups of one job that are slow at the same time?"""
    first, second = one.finding, other.finding
    groups = first.where.type is second.where.type is WhereType.GROUP and first.job == second.job
    return groups and (first.start_ns, first.end_ns) == (second.start_ns, second.end_ns)


def comes_and_goes_with(earlier: Sequence[Finding], finding: Finding, about: Sequence[SlowCells]) -> bool:
    """Does it begin and end, within two steps of the jobs that it is `about`, with a finding that explains more? Then
    it is the same cause: pairs of which records show but one of their paths, those that wait for the slow ones, or
    something in common that no record shows. What is slow in all that was seen has no such moments, and groups of one
    job may be lanes of one group."""
    reach = 2.0 * max(cell.normal_ns for cell in about)
    seen = min(int(cell.steps.start_ns[cell.counted][0]) for cell in about)
    if finding.end_ns is None and finding.start_ns <= seen + reach:
        return False

    def near(one: int | None, other: int | None) -> bool:
        return one == other if one is None or other is None else abs(one - other) <= reach

    return any(
        near(finding.start_ns, other.start_ns) and near(finding.end_ns, other.end_ns)
        for other in earlier
        if not (finding.where.type is other.where.type is WhereType.GROUP and finding.job == other.job)
    )


def _compete(one: SuspectedPlace, other: SuspectedPlace) -> bool:
    """Are they about a job in common, by different signs? Two by one sign explain different cells. That bytes are sent
    again is no waiting: such a place competes with one that some pair passes, too."""
    signs = {one.signs.sign, other.signs.sign}
    if CellSign.RESENT in signs:
        return len(signs) > 1 and bool(one.pairs & other.pairs)
    return len(signs) > 1 and bool(one.jobs & other.jobs)


def as_second(
    one: SuspectedPlace, likelier: Sequence[SuspectedPlace], end_ns: int, rules: FaultRules = RULES
) -> SuspectedPlace:
    """The suspected place, less likely where one of those that are `likelier` is about a job of its and its time."""

    def is_near(other: SuspectedPlace) -> bool:
        return bool(one.jobs & other.jobs) and _share_time(one, other, end_ns, rules) and not are_lanes(one, other)

    if not any(map(is_near, likelier)):
        return one
    signs = replace(one.signs, second=True)
    return replace(one, signs=signs, finding=replace(one.finding, confidence=chance_of(signs, rules)))


def _share_time(one: SuspectedPlace, other: SuspectedPlace, end_ns: int, rules: FaultRules) -> bool:
    """Are two findings about the same time, for a good part of the shorter one?"""
    (start, end), (begin, until) = (
        (place.finding.start_ns, end_ns if place.finding.end_ns is None else place.finding.end_ns)
        for place in (one, other)
    )
    shared = min(end, until) - max(start, begin)
    return shared > 0 and shared >= rules.named_place.shared_time * min(end - start, until - begin)


def _longer(one: Finding, other: Finding) -> Finding:
    """The first finding for the time of both."""
    ends = (one.end_ns, other.end_ns)
    end = None if None in ends else max(end for end in ends if end is not None)
    return replace(one, start_ns=min(one.start_ns, other.start_ns), end_ns=end)


def _same_place(one: Finding, other: Finding) -> bool:
    names = {(place.type, place.id) for place in (other.where, *(a.where for a in other.alternatives if a.same_place))}
    return (one.where.type, one.where.id) in names
