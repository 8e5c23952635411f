"""A finding as one look shows it, and when two of them are the same finding.

They are where job, kind and place agree (a hang that turns out to be a crash or a stall keeps its identity, and so does
a slowdown whose cause shows only a few steps later) and their times meet. So a look that shows a slow place in two
parts shows one finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from llmprism.model.finding import Finding, FindingKind, Where, WhereType
from llmprism.model.flows import Window
from llmprism.model.live import Explanation
from llmprism.service.joblogs.explanations import explanation_of
from llmprism.service.looks import Look
from llmprism.service.rules import RULES, LiveRules
from llmprism.units import SECOND

__all__ = ["STOPPED_KINDS", "Sighting", "fits", "joined_bouts", "sightings_of"]

STOPPED_KINDS: Final = (FindingKind.HANG, FindingKind.CRASH)

STANDING_KINDS: Final = (*STOPPED_KINDS, FindingKind.STALL)
"""A job that stands still: which of them it is shows only when it goes on, or does not."""

SLOW_PLACES: Final = (
    FindingKind.SLOW_GPU,
    FindingKind.SLOW_NIC,
    FindingKind.SLOW_LINK,
    FindingKind.SLOW_SWITCH,
    FindingKind.SLOW_GROUP,
)
"""What a job that is slower for no visible cause may turn out to suffer from."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A finding as one look shows it, under its run's id; `why`: what logs say of it."""

    finding: Finding
    window: Window
    why: Explanation | None = None


def sightings_of(look: Look, followed: dict[str, str]) -> list[Sighting]:
    """The findings of a look about runs that it judged, and from the base look those about no job."""
    found = []
    for number, finding in enumerate(look.report.findings):
        run = followed.get(finding.job or "")
        if run is not None:
            where = Where(WhereType.JOB, run) if finding.where.type is WhereType.JOB else finding.where
            why = explanation_of(look.report, number)
            found.append(Sighting(replace(finding, job=run, where=where), look.window, why))
        elif finding.job is None and look.runs is None:
            found.append(Sighting(finding, look.window))
    return found


def joined_bouts(sightings: Sequence[Sighting], rules: LiveRules) -> list[Sighting]:
    """The sightings by their start, with bouts of one fault as one: a window that shows a slow place in two parts
    (records of the time between came late, or the fault paused) shows one finding, as those before and after it do."""
    joined: list[Sighting] = []
    for sighting in sorted(sightings, key=lambda one: one.finding.start_ns):
        at = next((at for at, one in enumerate(joined) if _is_next_bout(one, sighting, rules)), None)
        if at is None:
            joined.append(sighting)
        else:
            joined[at] = _both(joined[at], sighting)
    return joined


def _is_next_bout(one: Sighting, then: Sighting, rules: LiveRules) -> bool:
    kind = one.finding.kind
    return (
        kind not in STANDING_KINDS
        and kind is then.finding.kind
        and one.window == then.window
        and fits(one.finding, then.finding, rules)
    )


def _both(one: Sighting, then: Sighting) -> Sighting:
    """One finding from the first start to the last end, with the words of the bout that ends last."""
    first, last = sorted((one.finding, then.finding), key=lambda bout: (bout.end_ns is None, bout.end_ns or 0))
    lost = first.lost_gpu_seconds + last.lost_gpu_seconds
    finding = replace(last, start_ns=min(first.start_ns, last.start_ns), lost_gpu_seconds=lost)
    return Sighting(finding, then.window, then.why or one.why)


def fits(old: Finding, new: Finding, rules: LiveRules = RULES) -> bool:
    """Whether a new view of a job can be one of the same finding."""
    standing = old.kind in STANDING_KINDS and new.kind in STANDING_KINDS
    if old.job != new.job:
        return False
    if old.kind is FindingKind.SLOW_STEP and new.kind in SLOW_PLACES:
        return abs(new.start_ns - old.start_ns) <= rules.findings.close_after_ns
    if not (standing or old.kind is new.kind):
        return False
    if old.end_ns is not None and new.start_ns > old.end_ns + rules.findings.close_after_ns:
        return False
    if new.end_ns is not None and old.start_ns > new.end_ns + SECOND:
        return False
    return standing or _same_place(old.where, new.where, rules)


def _same_place(old: Where, new: Where, rules: LiveRules) -> bool:
    if old.type is not new.type:
        return False
    if isinstance(old.id, str) or isinstance(new.id, str) or old.type is WhereType.LINK:
        return old.id == new.id
    here, there = set(old.id), set(new.id)
    return len(here & there) >= rules.findings.same_place * len(here | there)
