"""Imbalance for a while: one stage of all replicas works longer than it did, and the job waits for it.

A slow GPU is one member of a stage; here all of them work longer at the same time, and those of the other stages do
not: a stage got more layers or longer sequences, or all of its servers have something in common. What each member works
is compared with its own usual steps (`waiting`), so stages need not be alike. Where passes of several micro-batches run
into each other, or schedules interleave, the first pass tells little; then the stage is named whose members' own
silences (`own_gaps`) alone grow. Of one slow GPU they grow in one replica, of a stage in nearly all.

Catches: a stage that takes a third longer for three steps, or for two that take twice as long. Must not shout at: a
single long step, late data (first stages in single steps), jitter, jobs whose steps are as long as ever, one replica.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.cost import long_enough_ns, lost_gpu_seconds, share_lost
from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.evidence import JobEvidence, usual_steps
from llmprism.diagnose.late_member import excused_steps
from llmprism.diagnose.own_gaps import OwnGaps, own_gaps
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.silent_stage import one_of_it, silent_stage
from llmprism.diagnose.unexplained import apart, unexplained_steps
from llmprism.diagnose.waiting import stage_work_ns
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.stats.robust import known_median
from llmprism.stats.stretches import stretches_of

__all__ = ["DETECTOR", "find_slow_stages"]


def find_slow_stages(evidence: JobEvidence, excused: Bool, rules: FaultRules = RULES) -> list[Finding]:
    """One finding for each time that one stage of all replicas works longer, outside of the steps that slow transfers
    explain (`excused`)."""
    rule = rules.members
    pipelines = evidence.layout.pipelines
    if len(pipelines) < 2 or len({len(pipeline) for pipeline in pipelines}) != 1 or evidence.normal_ns <= 0:
        return []
    slower = evidence.counted & ~excused & (evidence.duration_ns >= rule.slowdown * evidence.normal_ns)
    work = np.where(evidence.counted[None, :], stage_work_ns(evidence), np.nan)
    usual = known_median(work, axis=1)
    share = work / np.maximum(usual, 1.0)[:, None] - 1.0
    known = np.isfinite(share)
    if not known.any():
        return _silent_stages(evidence, excused, rules)
    longer = known & (
        np.nan_to_num(share) > max(rule.stage_longer, rule.spreads * 1.4826 * float(np.median(np.abs(share[known]))))
    )
    row_of = {member: row for row, member in enumerate(evidence.job.members)}
    findings = []
    for stage in range(len(pipelines[0])):
        own = np.zeros(len(evidence.job.members), dtype=np.bool_)
        own[[row_of[pipeline[stage]] for pipeline in pipelines]] = True
        sick = (
            slower
            & (_agree(longer, known, own) >= rule.stage_agreement)
            & ~(_agree(longer, known, ~own) > rule.stage_others)
        )
        lasting = [steps for steps in _lasting(evidence, sick, rules) if _works_longer(evidence, own, steps, rules)]
        findings += [_finding(evidence, share, own, steps, stage) for steps in lasting]
    if len(findings) > rules.places.queued_stretches:  # what comes again and again is the job's own rhythm
        return []
    return findings or _silent_stages(evidence, excused, rules)


def _works_longer(evidence: JobEvidence, own: Bool, steps: Bool, rules: FaultRules) -> bool:
    """Is nobody else silent by itself for much longer than these members are, nor one of them alone before it hands
    work on? Where a last stage answers when it has all micro-batches, or its members wait for each other's shards, its
    passes take as long as those of a slow GPU before it, or in it."""
    usual = usual_steps(evidence, rules) & ~steps
    if not usual.any():
        return True
    grown = own_gaps(evidence, rules).grown(own.size, steps, usual)
    silent = float(np.median(grown[own])) >= rules.members.alone * float(grown[~own].max(initial=0.0))
    return silent and not one_of_it(evidence, np.flatnonzero(own), steps, usual, rules)


def _silent_stages(evidence: JobEvidence, excused: Bool, rules: FaultRules) -> list[Finding]:
    """One finding for each time that the job's slower steps are news and the own silences of nearly all members of one
    stage grow, and those of nobody else by nearly as much, while there are no more of them: what a hop holds back makes
    many."""
    rule, usual = rules.members, usual_steps(evidence, rules)
    stretches = [
        steps & ~usual
        for steps in unexplained_steps(evidence, (), {}, rules)
        if (steps & ~usual).any() and (steps & excused).sum() < rules.trust.explained * steps.sum()
    ]
    if not stretches or usual.sum() < rule.late_steps:
        return []
    gaps = own_gaps(evidence, rules)
    stages = np.searchsorted(np.array(evidence.job.members), np.array(evidence.layout.pipelines).T)
    findings = []
    for slower in stretches:
        rows = silent_stage(evidence, stages, slower, usual, rules)
        if rows is not None and not _many_more(gaps, rows, slower, usual, rules):
            stage = next(number for number, row in enumerate(stages) if row[0] in rows)
            grown = gaps.grown(len(evidence.job.members), slower, usual)
            own = np.isin(np.arange(len(evidence.job.members)), rows)
            longer = np.broadcast_to((grown / evidence.normal_ns)[:, None], (own.size, evidence.steps))
            findings.append(_finding(evidence, longer, own, slower, stage))
    return findings


def _many_more(gaps: OwnGaps, rows: Int64, slower: Bool, usual: Bool, rules: FaultRules) -> bool:
    """Do these members, as a rule, have many times as many silences as in usual steps?"""
    rule, most = rules.members, rules.blame.most_steps
    some = rows[:: max(rows.size // rule.stage_counted, 1)].tolist()
    more = [gaps.times_as_many(row, slower, usual, rule.gap_most, most) for row in some]
    return float(np.median(more)) > rule.stage_silences


def _agree(longer: Bool, known: Bool, rows: Bool) -> Float64:
    """Share of these members that work longer, per step; 0 where fewer than two are known."""
    seen = known[rows].sum(axis=0)
    return np.where(seen >= 2, longer[rows].sum(axis=0) / np.maximum(seen, 1), 0.0)


def _lasting(evidence: JobEvidence, sick: Bool, rules: FaultRules) -> list[Bool]:
    rule = rules.members
    found, steps = [], evidence.timeline.steps
    for first, last in stretches_of(sick, bridge=1, shortest=2):
        affected = np.zeros(evidence.steps, dtype=np.bool_)
        affected[first:last] = sick[first:last]
        short = (
            affected.sum() < rule.late_steps
            and evidence.duration_ns[affected].min() < rule.long_step * evidence.normal_ns
        )
        elapsed = float(steps.end_ns[last - 1] - steps.start_ns[first])
        others = evidence.counted & ~affected
        usual = float(np.median(evidence.duration_ns[others])) if others.any() else np.inf
        jitter = elapsed < rule.slowdown * usual * (last - first)  # ends that come now early, now late
        long = elapsed >= long_enough_ns(rule.late_ns, steps, rules)
        if long and not short and not jitter and (not others.any() or apart(evidence, affected, rules)):
            found.append(affected)
    return found


def _finding(evidence: JobEvidence, share: Float64, own: Bool, steps: Bool, stage: int) -> Finding:
    bounds, job = evidence.timeline.steps, evidence.job
    first, last = np.flatnonzero(steps)[[0, -1]].tolist()
    times = 1.0 + float(np.nanmedian(share[own][:, steps]))
    names = tuple(job.transfers.addresses[member] for member, one in zip(job.members, own, strict=True) if one)
    return Finding(
        kind=FindingKind.IMBALANCE,
        job=job.id,
        where=Where(WhereType.STAGE, names),
        start_ns=int(bounds.start_ns[first]),
        end_ns=None if last == evidence.steps - 1 else int(bounds.end_ns[last]),
        severity=round(share_lost(evidence, steps), 3),
        confidence=round(1.0 - 0.5 / (int(steps.sum()) * int(own.sum())) ** 0.5, 3),
        lost_gpu_seconds=round(lost_gpu_seconds(evidence, steps), 3),
        summary=(
            f"Stage {stage} of {job.id} works {times:.1f} times as long as usual in all {int(own.sum())} members, "
            "the other stages do not, and all pipelines wait for it: ask the tenant what changed in it then."
        ),
        evidence=(
            Evidence("work of the stage's members, in their usual", round(times, 3), 1.0),
            Evidence("steps", int(steps.sum())),
        ),
    )


def _look(given: DetectorInput) -> list[Finding]:
    return find_slow_stages(given.evidence, excused_steps(given.evidence, given.accused), given.rules)


DETECTOR: Final = Detector("slow_stage", (FindingKind.IMBALANCE,), _look)
