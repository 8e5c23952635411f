"""A job that lost speed for a while although nothing that was found explains it.

Catches: a long stretch of steps that nearly all take longer than nearly all others, when no other finding lies in it:
the job's own code or data, a neighbour on the host, a power cap on all GPUs, a fault that the records cannot show.
Must not shout at: steps that vary anyway (both sides must hardly overlap), short bouts, pauses, a first part that is
slower because the job warms up. It names nothing but the job, since when and how much. Tested against all healthy runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.chance import log_expected_runs
from llmprism.diagnose.cost import long_enough_ns, lost_gpu_seconds, share_lost
from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.evidence import JobEvidence, usual_steps, with_a_past
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.throughout import beyond_jitter_times, stand_out
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.stats.segments import best_stretches
from llmprism.stats.stretches import stretches_of

__all__ = ["DETECTOR", "apart", "find_unexplained", "unexplained_steps"]


def find_unexplained(
    evidence: JobEvidence,
    known: Sequence[Finding],
    accused: dict[str, list[tuple[int, int]]],
    rules: FaultRules = RULES,
) -> list[Finding]:
    """One finding for each stretch of slower steps of one job that nothing explains."""
    return [_finding(evidence, steps, rules) for steps in unexplained_steps(evidence, known, accused, rules)]


def unexplained_steps(
    evidence: JobEvidence,
    known: Sequence[Finding],
    accused: dict[str, list[tuple[int, int]]],
    rules: FaultRules = RULES,
) -> list[Bool]:
    """Stretches of slower steps of one job that no finding of `known` explains, and no slow place or server that some
    of its members (`accused`) use then."""
    counted = np.flatnonzero(evidence.counted)
    if counted.size <= rules.trust.unexplained_steps or evidence.normal_ns <= 0:
        return []
    worth = _worth(evidence, rules)
    news = [steps for steps in _stretches(evidence, worth, rules) if _clearly_slower(evidence, steps, worth, rules)]
    apart_from_others = _one_per_time(evidence, news)
    return [steps for steps in apart_from_others if not _explained(evidence, steps, known, accused, rules)]


def _stretches(evidence: JobEvidence, worth: Float64, rules: FaultRules) -> list[Bool]:
    """Stretches of steps that are longer than a cut, for cuts from the least that is slower up to the job's longest
    step: which of the job's longer steps belong together is not known before, and a low cut joins two that are several
    times as long to others that are a little longer by chance. Beyond the lowest cut, chance must not do as much."""
    counted, rule = np.flatnonzero(evidence.counted), rules.trust
    times = evidence.duration_ns[counted] / evidence.normal_ns
    least = _slower_from(evidence, rules)
    cuts = least * rule.unexplained_finer ** np.arange(
        int(np.log(times.max() / least) / np.log(rule.unexplained_finer)) + 1
    )
    found: dict[bytes, Bool] = {}
    above = (times >= cuts[:, None]).sum(axis=1)
    for number in np.flatnonzero(np.diff(above, prepend=-1)).tolist():  # cuts with no step between them are one
        longer = times >= cuts[number]
        for first, after, _ in best_stretches(np.where(longer, worth[counted], -1.0), rule.unexplained_price):
            if number and _by_chance(longer, worth[counted], first, after, rules):
                continue
            steps = np.zeros(evidence.steps, dtype=np.bool_)
            steps[counted[first:after]] = True
            steps = _trimmed(evidence, steps, rules)
            found.setdefault(steps.tobytes(), steps)
    return list(found.values())


def _by_chance(longer: Bool, worth: Float64, first: int, after: int, rules: FaultRules) -> bool:
    """Would so many steps beyond a cut be next to each other by chance, given how many others are? The more steps were
    seen, the more often some are. Those that are slow all along count twice."""
    here, twice = longer[first:after], worth[first:after] > rules.trust.unexplained_weight
    hits, known = int(here.sum()), np.ones((1, longer.size), dtype=np.bool_)
    often = log_expected_runs(longer[None, :], known, first, after, hits, int((here & twice).sum()))
    return often > log(rules.members.by_chance_runs)


def _one_per_time(evidence: JobEvidence, stretches: list[Bool]) -> list[Bool]:
    """Of stretches that overlap the one that leaves the lengths of steps inside and outside of it most alike."""
    logs = np.log(evidence.duration_ns / evidence.normal_ns, where=evidence.counted, out=np.zeros(evidence.steps))

    def unlike(steps: Bool) -> float:
        parts = (logs[evidence.counted & steps], logs[evidence.counted & ~steps])
        return sum(float(np.abs(part - np.median(part)).sum()) for part in parts if part.size)

    kept: list[Bool] = []
    for steps in sorted(stretches, key=unlike):
        if not any((steps & other).any() for other in kept):
            kept.append(steps)
    return sorted(kept, key=lambda steps: int(np.argmax(steps)))


def _worth(evidence: JobEvidence, rules: FaultRules) -> Float64:
    """How many slower steps each one counts for: as many as it is long, twice as many where it is slow all along, and
    more than one where it is far beyond what the job's steps vary by."""
    rule, times = rules.trust, evidence.duration_ns / evidence.normal_ns
    clear, all_along = times - 1.0 > beyond_jitter_times(evidence, rules), stand_out(evidence, evidence.counted, rules)
    worth = np.clip(np.where(all_along, times, np.floor(times)), 1.0, rule.unexplained_weight)
    return np.where(all_along, 2.0 * worth, np.maximum(worth, np.where(clear, rule.unexplained_clear, 1.0)))


def _slower_from(evidence: JobEvidence, rules: FaultRules) -> float:
    """How many times the usual length a slower step has at least: what costs a tenth of the speed where steps hardly
    vary, a little more where they do."""
    rule = rules.trust
    return float(np.clip(1.0 + beyond_jitter_times(evidence, rules), rule.unexplained_least, rule.unexplained_slowdown))


def _trimmed(evidence: JobEvidence, steps: Bool, rules: FaultRules) -> Bool:
    """The same stretch without the steps at its ends that are no longer than steps outside of it are now and then."""
    usual = evidence.duration_ns[evidence.counted & ~steps]
    if not usual.size:
        return steps
    beyond = np.flatnonzero(steps & (evidence.duration_ns >= rules.trust.unexplained_apart * np.quantile(usual, 0.9)))
    if beyond.size:
        steps[: beyond[0]] = steps[beyond[-1] + 1 :] = False
    return steps


def _clearly_slower(evidence: JobEvidence, steps: Bool, worth: Float64, rules: FaultRules) -> bool:
    rule = rules.trust
    others = evidence.counted & ~steps
    alone = steps.sum() < rule.unexplained_few and worth[steps].max(initial=0.0) <= rule.unexplained_weight
    if (
        alone
        or worth[steps].sum() < rule.unexplained_steps
        or others.sum() < rule.unexplained_steps
        or not _was_faster(evidence, steps, rules)
    ):
        return False
    taken, usual = evidence.duration_ns[steps], evidence.duration_ns[others]
    (begin, end), least_times = _span(evidence, steps), _slower_from(evidence, rules)
    few = steps.sum() < rule.unexplained_steps
    least = long_enough_ns(np.inf if few else rule.unexplained_ns, evidence.timeline.steps, rules)
    return bool(
        end - begin >= least
        and np.median(taken) >= least_times * np.median(usual)
        and taken[taken >= least_times * evidence.normal_ns].sum() >= rules.members.consistent * taken.sum()
        and apart(evidence, steps, rules)
        and not (few and _as_long_elsewhere(evidence, steps, rules))
        and not _switches(evidence, steps, rules)
    )


def _was_faster(evidence: JobEvidence, steps: Bool, rules: FaultRules) -> bool:
    """Were enough steps before these as short as usual? A job that warms up only becomes faster. Where steps vary few
    are as short as the shortest: then more that are clearly shorter than these will do, if no other step, from the
    first on, is as long as any of these."""
    if with_a_past(usual_steps(evidence, rules), rules)[int(np.argmax(steps))]:
        return True
    others, apart_by = evidence.counted & ~steps, rules.trust.unexplained_apart
    shorter = apart_by * evidence.duration_ns <= np.quantile(evidence.duration_ns[steps], 0.25)
    longest = float(evidence.duration_ns[others].max(initial=0.0))
    before = int((others & shorter)[: int(np.argmax(steps))].sum())
    longer = bool(evidence.duration_ns[steps].min() >= apart_by * longest)
    return longer and before >= rules.trust.unexplained_before


def _switches(evidence: JobEvidence, steps: Bool, rules: FaultRules) -> bool:
    """Do these steps go back to the usual length again and again? Then the job has steps of two lengths."""
    return len(stretches_of(steps & ~usual_steps(evidence, rules), bridge=0)) > rules.trust.unexplained_runs


def _as_long_elsewhere(evidence: JobEvidence, steps: Bool, rules: FaultRules) -> bool:
    """Is another step as long as these few are, once the job has warmed up? Then long ones happen."""
    others = evidence.counted & ~steps & with_a_past(usual_steps(evidence, rules), rules)
    longest = float(evidence.duration_ns[others].max(initial=0.0))
    return bool(np.median(evidence.duration_ns[steps]) < rules.trust.unexplained_apart * longest)


def apart(evidence: JobEvidence, steps: Bool, rules: FaultRules = RULES) -> bool:
    """Do nearly all of these steps take longer than nearly all others? Else the job's steps vary by themselves."""
    taken, usual = evidence.duration_ns[steps], evidence.duration_ns[evidence.counted & ~steps]
    return bool(np.quantile(taken, 0.25) >= rules.trust.unexplained_apart * np.quantile(usual, 0.9))


def _span(evidence: JobEvidence, steps: Bool) -> tuple[int, int]:
    bounds = evidence.timeline.steps
    return int(bounds.start_ns[steps][0]), int(bounds.end_ns[steps][-1])


def _explained(
    evidence: JobEvidence,
    steps: Bool,
    known: Sequence[Finding],
    accused: dict[str, list[tuple[int, int]]],
    rules: FaultRules,
) -> bool:
    """Does another finding about this job lie in a good part of the stretch?"""
    start, end = _span(evidence, steps)
    names = {evidence.job.transfers.addresses[member] for member in evidence.job.members}
    times = [(f.start_ns, f.end_ns) for f in known if f.job in (None, evidence.job.id)]
    times += [time for name, used in accused.items() if name in names for time in used]
    overlaps = (min(end if until is None else until, end) - max(since, start) for since, until in times)
    return any(overlap >= rules.trust.explained * (end - start) for overlap in overlaps)


def _finding(evidence: JobEvidence, steps: Bool, rules: FaultRules) -> Finding:
    start, end = _span(evidence, steps)
    taken = float(np.median(evidence.duration_ns[steps]))
    usual = float(np.median(evidence.duration_ns[evidence.counted & ~steps]))
    last = bool(steps[evidence.counted][-1])
    return Finding(
        kind=FindingKind.SLOW_STEP,
        job=evidence.job.id,
        where=Where(WhereType.JOB, evidence.job.id),
        start_ns=start,
        end_ns=None if last else end,
        severity=round(share_lost(evidence, steps), 3),
        confidence=rules.trust.unexplained_sure,
        lost_gpu_seconds=round(lost_gpu_seconds(evidence, steps), 3),
        summary=(
            f"The steps of {evidence.job.id} take {taken / 1e6:.0f} ms where {usual / 1e6:.0f} are usual, and no GPU, "
            "NIC, link or server stands out: the cause is not visible in the network; ask its owner what changed then."
        ),
        evidence=(
            Evidence("median step while it is slower, ms", round(taken / 1e6, 3), round(usual / 1e6, 3)),
            Evidence("slower steps", int(steps.sum())),
        ),
    )


def _look(given: DetectorInput) -> list[Finding]:
    return find_unexplained(given.evidence, given.known, given.accused, given.rules)


DETECTOR: Final = Detector("unexplained", (FindingKind.SLOW_STEP,), _look)
