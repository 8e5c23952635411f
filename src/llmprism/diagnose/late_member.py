"""Slow GPU and stall: one member is late without having waited, and its messages are fast.

Members of a group are compared with each other at the gradient synchronisation. In a pipeline all stages of a replica
are late when one is; then the stage whose own work (`waiting`) exceeds that of the other replicas most is the one that
the others waited for. Jobs without replicas, and those that exchange many times per step, are judged by own work, by
what they hold, and by their own pauses.

Catches: a GPU that computes longer than its peers, step after step (`slow_gpu`); a GPU that stands still once for much
longer than a step (`stall`). Works with groups of two: the later one is the late one.
Must not shout at: ordinary jitter (its robust spread widens the cut), one odd step, members of a stage that all wait
for another stage (they are late together), members whose NIC is slow (distinguished by `slow_transfer`, which runs
first), pauses for checkpoints or evaluation (nobody is late then). Tested with the slow_gpu capture against all others.
"""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.blame import blame, runner_up, tensor_peers
from llmprism.diagnose.blamed_card import of_gpu_or_card
from llmprism.diagnose.bouts import Bout, bouts_of, in_steps, one_per_time
from llmprism.diagnose.chance import log_expected_members
from llmprism.diagnose.cost import long_enough_ns, lost_gpu_seconds, share_lost
from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.evidence import JobEvidence, usual_steps, with_a_past
from llmprism.diagnose.holding import held_ns
from llmprism.diagnose.own_gaps import own_gaps
from llmprism.diagnose.own_pauses import kept_by_own_hop_ns, paused_beyond_usual_ns
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.stalls import beyond_jitter, many_as_late, stalls
from llmprism.diagnose.throughout import stand_out
from llmprism.diagnose.transport import pauses_tell
from llmprism.diagnose.trust import HELD, WEIGHED
from llmprism.diagnose.waiting import beyond_others, beyond_peers, excess_share, stage_work_ns, to_second_message_ns
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.layout import PairKind
from llmprism.stats.robust import known_median
from llmprism.stats.stretches import stretches_of

__all__ = ["DETECTOR", "SYNCHRONISE", "excused_steps", "find_late_members", "sends_slowly"]

SYNCHRONISE: Final = "is ready to synchronise {late} after its peers"
COMPUTE: Final = "computes {late} longer than its peers for one micro-batch"
HOLD: Final = "holds the others up for {late} at exchanges of a step, longer than it used to,"
PAUSE: Final = "pauses {late} longer than it used to before it sends"


def find_late_members(
    evidence: JobEvidence, accused: dict[str, list[tuple[int, int]]], rules: FaultRules = RULES
) -> list[Finding]:
    """Findings for one job. `accused` lists when which addresses were already found guilty of slow transfers.

    Lateness at the gradient synchronisation is examined first; where nobody is late there although the steps are
    longer, the work of pipeline stages and the progress between the many exchanges of sharded and expert layers.
    """
    if evidence.steps < rules.members.late_steps or evidence.normal_ns <= 0:
        return []
    excused = np.broadcast_to(excused_steps(evidence, accused), evidence.lateness_ns.shape)
    late, cut = in_steps(evidence, evidence.lateness_ns, rules.members.late, rules)
    flagged = (np.nan_to_num(late, nan=-1.0) > cut) & ~excused
    stalled = flagged & (late > rules.members.stall_steps) & (evidence.lateness_ns > rules.members.stall_ns)
    stalled &= beyond_jitter(evidence, rules)[None, :] & ~_late_next_to(evidence, flagged, rules)
    findings = [finding for finding in stalls(evidence, stalled, rules) if _stood_still(evidence, finding, rules)]
    stalled &= np.isin(evidence.timeline.steps.start_ns, [finding.start_ns for finding in findings])[None, :]
    bouts = bouts_of(evidence, evidence.lateness_ns, flagged & ~stalled, SYNCHRONISE, rules)
    bouts += _always_late(evidence, late, excused, rules)
    bouts = [bout for bout in bouts if not _has_its_turn_later(evidence, bout, rules)]
    bouts = one_per_time([bout for bout in bouts if _delays_the_job(evidence, bout)])
    if bouts or findings:
        bouts = _traced(evidence, bouts, rules)
    elif _slower_for_a_while(evidence, rules):
        bouts = one_per_time(_long_workers(evidence, excused, rules))
        if pauses_tell(evidence, rules):
            bouts = bouts or _pausing(evidence, excused, rules)
        bouts = bouts or _holders(evidence, excused, rules)
        little = [bout for bout in _a_little_late(evidence, late, excused, rules) if _delays_the_job(evidence, bout)]
        bouts = bouts or one_per_time(little)
    else:
        always = [bout for bout in _long_workers(evidence, excused, rules) if _from_the_first(evidence, bout, rules)]
        bouts = one_per_time([bout for bout in always if _again_at_the_second(evidence, bout, rules)])
    bouts = bouts or ([] if findings else _comes_and_goes(evidence, late, excused, rules))
    return findings + [_slow(evidence, bout, rules) for bout in bouts if _plausible(evidence, bout, rules)]


def _late_next_to(evidence: JobEvidence, flagged: Bool, rules: FaultRules) -> Bool:
    """Members x steps: is the member late in the step before or after it, too, and is that a long one? Who stands still
    does so once and is on time again; who computes slowly is late again and again."""
    long = evidence.counted & (evidence.duration_ns >= rules.members.long_step * evidence.normal_ns)
    late, near = flagged & long[None, :], np.zeros_like(flagged)
    near[:, 1:] |= late[:, :-1]
    near[:, :-1] |= late[:, 1:]
    return near


def _stood_still(evidence: JobEvidence, stall: Finding, rules: FaultRules) -> bool:
    """Is one own silence of the member most of what it was late by? One that computes slowly sends in between, and one
    that waits is answered."""
    step = int(np.searchsorted(evidence.timeline.steps.start_ns, stall.start_ns))
    names = [evidence.job.transfers.addresses[member] for member in evidence.job.members]
    own, every = own_gaps(evidence, rules).of_one(names.index(str(stall.where.id)), step)
    late = float(np.nanmax(evidence.lateness_ns[:, step]))
    return not every.size or float(own.max(initial=0.0)) >= rules.members.stood_still * late


def _always_late(evidence: JobEvidence, late: Float64, excused: Bool, rules: FaultRules) -> list[Bout]:
    """Members that are late in nearly all steps, by less than would do in a few: they were slow from the first on."""
    return [bout for bout in _a_little_late(evidence, late, excused, rules) if _from_the_first(evidence, bout, rules)]


def _has_its_turn_later(evidence: JobEvidence, bout: Bout, rules: FaultRules) -> bool:
    """Is it late from the first step on, as many others are? Then that is the job's order: of rings of contexts the
    last members send to the next ring nothing but gradients, and so begin later."""
    usually = known_median(evidence.lateness_ns[:, bout.affected], axis=1)
    return _from_the_first(evidence, bout, rules) and many_as_late(evidence, bout.row, usually, rules)


def _a_little_late(evidence: JobEvidence, late: Float64, excused: Bool, rules: FaultRules) -> list[Bout]:
    """Members that are late by what would not do alone."""
    _, cut = in_steps(evidence, evidence.lateness_ns, rules.members.always_late, rules)
    flagged = (np.nan_to_num(late, nan=-1.0) > cut) & ~excused
    return bouts_of(evidence, evidence.lateness_ns, flagged, SYNCHRONISE, rules)


def _from_the_first(evidence: JobEvidence, bout: Bout, rules: FaultRules) -> bool:
    """Does it last for nearly all of the steps that were seen, and are these enough to compare its peers with it?"""
    counted = int(evidence.counted.sum())
    return (
        counted >= rules.members.many_steps
        and bout.affected[evidence.counted].sum() >= rules.members.nearly_all * counted
    )


def _plausible(evidence: JobEvidence, bout: Bout, rules: FaultRules) -> bool:
    """Is one that is late in most of the steps seen no later than a GPU can be? See MAX_EXCESS."""
    taken = float(np.median(evidence.duration_ns[bout.affected]))
    often = bout.affected[evidence.counted].mean() >= rules.members.often
    return not often or bout.late_ns <= rules.members.most_excess / (1.0 + rules.members.most_excess) * taken


def _slower_for_a_while(evidence: JobEvidence, rules: FaultRules) -> bool:
    slow = evidence.counted & (evidence.duration_ns >= rules.members.slowdown * evidence.normal_ns)
    slow &= with_a_past(usual_steps(evidence, rules), rules)
    steps = evidence.timeline.steps
    least = long_enough_ns(rules.members.late_ns, steps, rules)
    stretches = [
        (first, last)
        for bridge in (0, 2)  # a stretch that single slower steps prolong is still one without them
        for first, last in stretches_of(slow, bridge=bridge, shortest=rules.members.late_steps)
        if slow[first:last].mean() >= rules.members.consistent
    ]
    stretches = stretches or stretches_of(stand_out(evidence, slow, rules), bridge=0, shortest=2)
    return any(steps.end_ns[last - 1] - steps.start_ns[first] >= least for first, last in stretches)


def _long_workers(evidence: JobEvidence, excused: Bool, rules: FaultRules) -> list[Bout]:
    """Members of pipelines that compute longer than those of other replicas, or than they used to."""
    work = stage_work_ns(evidence)
    excess = beyond_others(evidence, work)
    share = excess / np.maximum(work - excess, 1.0)
    known = np.isfinite(share) & evidence.counted[None, :]
    if not known.any():
        return []
    spread = 1.4826 * float(np.median(np.abs(share[known])))
    flagged = known & (np.nan_to_num(share) > max(rules.members.excess, rules.members.spreads * spread)) & ~excused
    bouts = bouts_of(evidence, excess, flagged, COMPUTE, rules, rules.members.consistent_work)
    bouts = [replace(bout, weight=float(np.median(share[bout.row, bout.affected]))) for bout in bouts]
    return [bout for bout in bouts if bout.weight <= rules.members.most_excess]


def _again_at_the_second(evidence: JobEvidence, bout: Bout, rules: FaultRules) -> bool:
    """Does a first stage take longer than its peers for its second micro-batch, too, where that is seen? Its first one
    is timed from the start of the step, and what comes before it is no computation of this pass."""
    member = evidence.job.members[bout.row]
    after = {pipeline[0]: pipeline[1] for pipeline in evidence.layout.pipelines if len(pipeline) > 1}
    group = next((g.members for g in evidence.layout.groups if g.kind == PairKind.DP and member in g.members), ())
    peers = [peer for peer in group if peer in after and peer != member]
    if member not in after or not peers:
        return True
    own, *others = (to_second_message_ns(evidence, one, after[one])[bout.affected] for one in (member, *peers))
    usual = known_median(np.stack(others), axis=0)
    share = known_median((own / np.maximum(usual, 1.0) - 1.0)[None, :], axis=1)[0]
    return bool(np.isnan(share) or share >= rules.members.traced)


def _comes_and_goes(evidence: JobEvidence, late: Float64, excused: Bool, rules: FaultRules) -> list[Bout]:
    """The member that works longer than its peers in nearly all of the job's slower steps and in hardly any other: too
    short each time to show alone, and too often for chance. Steps that another fault explains are left aside."""
    steps = evidence.timeline.steps
    slow = evidence.counted & ~excused[0] & (evidence.duration_ns >= rules.members.slowdown * evidence.normal_ns)
    others = evidence.counted & ~excused[0] & ~slow
    if slow.sum() < rules.members.few_slow or others.sum() < slow.sum():
        return []
    taken = float(evidence.duration_ns[slow | (excused[0] & evidence.counted)].sum())
    if taken < long_enough_ns(rules.members.late_ns, steps, rules):
        return []
    work = stage_work_ns(evidence)
    excess = beyond_others(evidence, work)
    share = excess / np.maximum(work - excess, 1.0)
    values, cut, by, how = (share, rules.members.excess, excess, COMPUTE)
    if not np.isfinite(share).any():
        values, cut, by, how = (late, rules.members.late, evidence.lateness_ns, SYNCHRONISE)
    compared = [m for group in evidence.layout.groups if group.kind == PairKind.DP for m in group.members]
    known = np.isfinite(values) & np.isin(evidence.job.members, compared)[:, None]
    flagged = (np.nan_to_num(values, nan=-1.0) > cut) & known
    with_it, without = flagged[:, slow].mean(axis=1), flagged[:, others].mean(axis=1)
    found = []
    for row in np.flatnonzero((with_it >= rules.members.consistent) & (without <= rules.members.by_chance)).tolist():
        if log_expected_members(flagged, known, tensor_peers(evidence, row), slow) > log(rules.members.by_chance_runs):
            continue
        affected = slow & flagged[row]
        weight = float(np.median(values[row, affected])) if how == COMPUTE else 0.0
        if weight <= rules.members.most_excess:
            first, last = np.flatnonzero(affected)[[0, -1]].tolist()
            found.append(Bout(row, first, last + 1, affected, float(np.median(by[row, affected])), how, weight))
    return one_per_time([bout for bout in found if how == COMPUTE or _delays_the_job(evidence, bout)])


def _holders(evidence: JobEvidence, excused: Bool, rules: FaultRules) -> list[Bout]:
    """The member of a job without pipelines that alone holds the others up while its steps are longer."""
    usual = usual_steps(evidence, rules)
    if evidence.layout.pipelines or usual.sum() < rules.members.late_steps:
        return []
    held = held_ns(evidence.job, evidence.timeline.steps, usual, rules)
    late = held / evidence.normal_ns
    late = late - known_median(late[:, usual], axis=1)[:, None]
    noise = 1.4826 * known_median(np.abs(late[:, usual]), axis=1)
    cut = np.maximum(rules.members.held, rules.members.spreads * np.maximum(noise, known_median(noise)))
    flagged = (np.nan_to_num(late, nan=-1.0) > cut[:, None]) & ~excused
    longer = evidence.counted & ~usual & with_a_past(usual, rules)
    bouts = bouts_of(evidence, held, flagged & longer[None, :], HOLD, rules, as_late=True)
    kept = kept_by_own_hop_ns(evidence, usual) if bouts else held
    longer_ns = evidence.duration_ns - evidence.normal_ns
    alone = [
        bout
        for bout in bouts
        if _holds_alone(held, bout, rules)
        and not sends_slowly(evidence, bout.row, bout.affected, usual)
        and kept[bout.row, bout.affected].sum() < rules.places.queued_most * longer_ns[bout.affected].sum()
    ]
    return one_per_time(alone)


def sends_slowly(evidence: JobEvidence, row: int, affected: Bool, usual: Bool) -> bool:
    """Has the rate of what the member sends fallen by more than the steps have grown? Then its network is not fast, and
    whether a card, a link or a switch is slow will show in more steps."""
    transfers = evidence.job.transfers
    own = evidence.timed & (transfers.pair_src == evidence.job.members[row])
    now, before = (known_median(evidence.rate[own][:, steps], axis=1) for steps in (affected, usual))
    longer = float(np.median(evidence.duration_ns[affected])) / evidence.normal_ns
    return bool((np.nan_to_num(now, nan=np.inf) * longer < before).any())


def _pausing(evidence: JobEvidence, excused: Bool, rules: FaultRules) -> list[Bout]:
    """The member whose own pauses alone grow while the job's steps are longer, by as much as a good part of that."""
    usual = usual_steps(evidence, rules)
    if usual.sum() < rules.members.late_steps:
        return []
    paused = paused_beyond_usual_ns(evidence, usual)
    longer = np.maximum(evidence.duration_ns, rules.members.slowdown * evidence.normal_ns) - evidence.normal_ns
    jitter = np.quantile(paused[:, usual], rules.members.jitter_quantile, axis=1)
    flagged = evidence.counted & (paused > np.maximum(rules.members.paused * longer[None, :], jitter[:, None]))
    slower = (evidence.duration_ns >= rules.members.slowdown * evidence.normal_ns) & with_a_past(usual, rules)
    bouts = bouts_of(evidence, paused, flagged & ~excused & slower, PAUSE, rules, as_late=True)
    return one_per_time([bout for bout in bouts if _pauses_alone(paused, bout, rules)])


def _pauses_alone(paused: Float64, bout: Bout, rules: FaultRules) -> bool:
    """Do nobody else's own pauses grow nearly as much, over all affected steps?"""
    grown = paused[:, bout.affected].sum(axis=1)
    return bool(np.delete(grown, bout.row).max(initial=0.0) <= rules.members.alone * grown[bout.row])


def _holds_alone(held: Float64, bout: Bout, rules: FaultRules) -> bool:
    """Does nobody else hold nearly as long? One neighbour may: messages to one that is not ready wait."""
    others = np.delete(known_median(held[:, bout.affected], axis=1), bout.row)
    return bool(np.nanmax(others, initial=0.0) <= rules.members.alone * bout.late_ns)


def _traced(evidence: JobEvidence, bouts: list[Bout], rules: FaultRules) -> list[Bout]:
    """The same bouts, each laid at the door of the stage that the late member's pipeline waited for."""
    if not bouts or not evidence.layout.pipelines:
        return bouts
    traced, shares = [], excess_share(evidence)
    for bout in bouts:
        rows, share = beyond_peers(evidence, shares, bout.row, bout.affected)
        known = bool(rows) and bool(np.isfinite(share).any()) and np.nanmax(share) >= rules.members.traced
        traced.append(replace(bout, row=rows[int(np.nanargmax(share))]) if known else bout)
    return traced


def excused_steps(evidence: JobEvidence, accused: dict[str, list[tuple[int, int]]]) -> Bool:
    """Steps during which a slow NIC of the job explains whoever is late."""
    steps = evidence.timeline.steps
    excused = np.zeros(evidence.steps, dtype=np.bool_)
    names = {evidence.job.transfers.addresses[member] for member in evidence.job.members}
    for address, times in accused.items():
        for start, end in times if address in names else ():
            excused |= (steps.end_ns > start) & (steps.start_ns < end)
    return excused


def _in_slower_steps(evidence: JobEvidence, bout: Bout, rules: FaultRules) -> tuple[Bool, Bool]:
    """The slower steps of a bout, and the usual ones outside of it."""
    usual = usual_steps(evidence, rules)
    usual &= ~bout.affected
    return bout.affected & (evidence.duration_ns >= rules.members.slowdown * evidence.normal_ns), usual


def _slow(evidence: JobEvidence, bout: Bout, rules: FaultRules) -> Finding:
    affected, steps = bout.affected, evidence.timeline.steps
    slower, usual = _in_slower_steps(evidence, bout, rules)
    weighed = blame(evidence, slower, usual, rules, found=bout.row)
    bout = bout if weighed is None else replace(bout, row=weighed.row)
    name = evidence.job.transfers.addresses[evidence.job.members[bout.row]]
    sure = min(rules.members.sure_late, 1.0 - 0.5 / (bout.last - bout.first))
    late, taken = bout.late_ns / 1e6, float(np.median(evidence.duration_ns[affected]))
    finding = Finding(
        kind=FindingKind.SLOW_GPU,
        job=evidence.job.id,
        where=Where(WhereType.GPU, name),
        start_ns=int(steps.start_ns[bout.first]),
        end_ns=None if bout.last == evidence.steps else int(steps.end_ns[bout.last - 1]),
        severity=round(min(1.0, max(share_lost(evidence, affected), _late_share(evidence, bout, rules))), 3),
        confidence=round(sure, 3) if weighed is None else weighed.confidence,
        lost_gpu_seconds=round(max(lost_gpu_seconds(evidence, affected), _late_cost(evidence, bout, rules)), 3),
        summary=(
            f"GPU {name} {bout.how.format(late=f'{late:.0f} ms')} in {int(affected.sum())} of {bout.last - bout.first} "
            "steps while its network is fast: check its clocks, temperature and ECC errors, or what else runs on it; "
            "replace it if it stays slow."
        ),
        evidence=(
            Evidence(HELD if bout.how == HOLD else "median lateness against its peers, ms", round(late, 3), 0.0),
            Evidence("median step while it is late, ms", round(taken / 1e6, 3), round(evidence.normal_ns / 1e6, 3)),
            *(() if weighed is None else (Evidence(WEIGHED, round(weighed.share, 3)),)),
        ),
        alternatives=() if weighed is None else runner_up(evidence, weighed),
    )
    return finding if weighed is None else of_gpu_or_card(evidence, finding, weighed, slower, usual, rules)


def _delays_the_job(evidence: JobEvidence, bout: Bout) -> bool:
    """Is the member later than its group could afford? Later stages end a step early and wait for the first one."""
    group = next(g for g in evidence.layout.groups if evidence.job.members[bout.row] in g.members)
    rows = np.flatnonzero(np.isin(evidence.job.members, group.members))
    ends = evidence.timeline.member_end_ns[rows].max(axis=0)
    slack = evidence.timeline.steps.end_ns - ends
    return bool(np.median((evidence.lateness_ns[bout.row] - slack)[bout.affected]) > 0)


def _late_share(evidence: JobEvidence, bout: Bout, rules: FaultRules) -> float:
    """Share of the speed that is lost: a pipeline goes as fast as its slowest stage, a group as its last member. How
    far pauses grow says nothing about it: a part of them would have passed in waiting."""
    if bout.how == PAUSE:
        return 0.0
    if bout.weight > 0.0 and _from_the_first(evidence, bout, rules):
        return bout.weight / (1.0 + bout.weight)
    return bout.late_ns / float(np.median(evidence.duration_ns[bout.affected]))


def _late_cost(evidence: JobEvidence, bout: Bout, rules: FaultRules) -> float:
    """What the lateness alone costs: the floor of the loss when the whole window is affected."""
    if bout.affected[evidence.counted].mean() < 0.5:
        return 0.0
    if bout.weight > 0.0:
        taken = float(evidence.duration_ns[bout.affected].sum())
        return _late_share(evidence, bout, rules) * taken / 1e9 * evidence.gpus
    most = float(evidence.duration_ns[bout.affected].sum())
    return min(bout.late_ns * int(bout.affected.sum()), most) / 1e9 * evidence.gpus


def _look(given: DetectorInput) -> list[Finding]:
    """Whoever is late while a whole stage is slow only waits for it."""
    job, end = given.evidence.job, given.window.end_ns
    stages = [(f.start_ns, end if f.end_ns is None else f.end_ns) for f in given.known if _is_stage_of(f, job.id)]
    first = job.transfers.addresses[job.members[0]]
    accused = {**given.accused, first: [*given.accused.get(first, []), *stages]} if stages else given.accused
    return find_late_members(given.evidence, accused, given.rules)


def _is_stage_of(finding: Finding, job: str) -> bool:
    return finding.kind is FindingKind.IMBALANCE and finding.job == job


DETECTOR: Final = Detector("late_member", (FindingKind.SLOW_GPU, FindingKind.SLOW_NIC, FindingKind.STALL), _look)
