"""Findings on places by several signs, put together: one finding per cause.

Rates are measured; that pieces are held back is inferred from pauses, and that packets are lost from bytes. So what is
slow is believed first, and the other signs speak where nothing is slow, or decide between two that explain it alike.
Among the inferred signs none is right everywhere: the one whose sick cells a place fits best is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.slow_cells import SlowCells
from llmprism.model.finding import Finding, WhereType

__all__ = [
    "FittingPlace",
    "best_fitting",
    "comes_and_goes_with",
    "findings_of",
    "unless_doubtful",
    "with_broken_up",
    "with_held_back",
    "with_lagging",
    "with_resent",
    "without_rings_that_wait",
]


@dataclass(frozen=True, slots=True)
class FittingPlace:
    """A finding on a place, and how well the place fits the sick cells of its time: twice those through it, over those
    that are known through it, of bystanders too, and those that are sick anywhere (1 where they are the same cells).
    `healthy` are the cells elsewhere that are not sick then: without any, nobody shows that others could be."""

    finding: Finding
    fit: float
    healthy: int = 0


def findings_of(places: Sequence[FittingPlace]) -> list[Finding]:
    return [one.finding for one in places]


def without_rings_that_wait(broken: Sequence[FittingPlace], rules: FaultRules = RULES) -> list[FittingPlace]:
    """The places that break messages up without groups, unless nearly all cells of a group are broken up, hardly any
    others are, and others could be: all hops of a ring that waits for one of its members, in the middle of a message,
    look alike."""
    rule = rules.places

    def is_one(place: FittingPlace) -> bool:
        group = place.finding.where.type is WhereType.GROUP
        return not group or (place.fit >= rule.scale_group_fit and place.healthy >= rule.sick_cells)

    return [one for one in broken if is_one(one)]


def best_fitting(*signs: Sequence[FittingPlace]) -> list[list[FittingPlace]]:
    """Of the places by several inferred signs, those that no place by another sign fits better at that time. By some
    signs whatever waits for the slow place looks like it, by others it does not: which ones differs from job to job."""

    def outdone(one: FittingPlace, sign: Sequence[FittingPlace]) -> bool:
        rivals = (rival for other in signs if other is not sign for rival in other)
        return any(rival.fit > one.fit and _overlap(one.finding, rival.finding) for rival in rivals)

    return [[one for one in sign if not outdone(one, sign)] for sign in signs]


def unless_doubtful(
    slow: Sequence[FittingPlace], inferred: Sequence[FittingPlace], rules: FaultRules = RULES
) -> list[FittingPlace]:
    """The slow places without those that are less likely than not, where another place, no group, is likelier by
    another sign and fits that better."""

    def outdone(one: FittingPlace) -> bool:
        return one.finding.confidence < rules.trust.likely and any(
            rival.fit > one.fit
            and rival.finding.confidence > one.finding.confidence
            and rival.finding.where.type is not WhereType.GROUP
            and not _same_place(one.finding, rival.finding)
            and _overlap(one.finding, rival.finding)
            for rival in inferred
        )

    return [one for one in slow if not outdone(one)]


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


def with_held_back(
    findings: Sequence[Finding], held: Sequence[Finding], step_ns: float, rules: FaultRules = RULES
) -> list[Finding]:
    """And the places behind which pieces wait, the best one of each time.

    Where something is slow at that time they decide only between a place and its rival: of one slow hop it is chance
    which end is named. The same place shortly before or after is the same finding.
    """
    merged = list(findings)
    for finding in held:
        if finding.where.type is WhereType.GROUP:  # its members have no cable in common
            continue
        near = [other for other in merged if _overlap(finding, other, 2.0 * step_ns)]
        same = [other for other in near if _same_place(finding, other)]
        if same:
            merged[merged.index(same[0])] = _longer(same[0], finding)
        elif all(_is_rival(finding, other) and other.confidence < rules.trust.likely for other in near):
            merged = [*(other for other in merged if other not in near), finding]
    return merged


def with_resent(findings: Sequence[Finding], resent: Sequence[Finding], cells: Sequence[SlowCells]) -> list[Finding]:
    """And the places where packets are lost."""
    merged = list(findings)
    for finding in resent:
        if finding.where.type is WhereType.GROUP:
            continue
        same = [other for other in merged if _same_cause(finding, other, cells)]
        if all(other.confidence < finding.confidence and not _same_place(finding, other) for other in same):
            merged = [*(other for other in merged if other not in same), finding]
    return merged


def with_broken_up(findings: Sequence[Finding], broken: Sequence[Finding], step_ns: float) -> list[Finding]:
    """And the places that break messages up, where nothing else is found at that time."""
    return [*findings, *(one for one in broken if not any(_overlap(one, o, 2.0 * step_ns) for o in findings))]


def with_lagging(findings: Sequence[Finding], lagging: Sequence[Finding], step_ns: float) -> list[Finding]:
    """And the places that lag behind, where nothing else is found at that time, nor two of them. Next to a slow GPU all
    messages of one card come late and at once, too: a card is none of them."""
    merged = list(findings)
    for finding in lagging:
        alone = not any(
            _overlap(finding, other, 2.0 * step_ns) for other in (*merged, *lagging) if other is not finding
        )
        if alone and finding.where.type is not WhereType.NIC:
            merged.append(finding)
    return merged


def _longer(one: Finding, other: Finding) -> Finding:
    """The first finding for the time of both."""
    ends = (one.end_ns, other.end_ns)
    end = None if None in ends else max(end for end in ends if end is not None)
    return replace(one, start_ns=min(one.start_ns, other.start_ns), end_ns=end)


def _is_rival(one: Finding, other: Finding) -> bool:
    """Does the other finding allow for this place?"""
    return any((a.where.type, a.where.id) == (one.where.type, one.where.id) for a in other.alternatives)


def _same_cause(one: Finding, other: Finding, cells: Sequence[SlowCells]) -> bool:
    """Are they about the same time, and about the same place or two that some pair passes both? What is lost on the way
    of a pair slows it, too, and of one slow hop it is chance which end is named."""
    if not _overlap(one, other):
        return False
    places = [(finding.where.type, finding.where.id) for finding in (one, other)]
    return _same_place(one, other) or any(
        bool((cell.through(places[0]) & cell.through(places[1])).any()) for cell in cells
    )


def _overlap(one: Finding, other: Finding, apart_ns: float = 0.0) -> bool:
    ends = [np.inf if finding.end_ns is None else finding.end_ns + apart_ns for finding in (one, other)]
    return bool(one.start_ns < ends[1] and other.start_ns < ends[0])


def _same_place(one: Finding, other: Finding) -> bool:
    names = {(place.type, place.id) for place in (other.where, *(a.where for a in other.alternatives if a.same_place))}
    return (one.where.type, one.where.id) in names
