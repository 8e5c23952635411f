"""Stall of one member: it stands still once for much longer than a step, and its peers wait.

Who is late by how much is `late_member`'s; here, of members that stand still together the latest is named, and nobody
where many that have neither server nor pipeline in common are as late, or where whoever sends to it is: then the whole
job stood still.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.cost import lost_gpu_seconds, share_lost
from llmprism.diagnose.evidence import JobEvidence, first_messages_ns, first_of_members, usual_steps
from llmprism.diagnose.own_pauses import paused_beyond_usual_ns
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.transport import agrees_on_messages
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.layout import PairKind
from llmprism.stats.robust import known_median

__all__ = ["beyond_jitter", "many_as_late", "stalls"]


def stalls(evidence: JobEvidence, stalled: Bool, rules: FaultRules = RULES) -> list[Finding]:
    """One finding per time: of members that stand still together, the latest."""
    kept: list[Finding] = []
    cells = [(int(row), int(step)) for row, step in zip(*np.nonzero(stalled), strict=True)]
    usual = usual_steps(evidence, rules)
    paused = paused_beyond_usual_ns(evidence, usual) if cells and usual.any() else None
    for row, step in sorted(cells, key=lambda cell: -evidence.lateness_ns[cell]):
        late_ns = evidence.lateness_ns[:, step]
        if many_as_late(evidence, row, late_ns, rules) or _sent_to_as_late(evidence, row, step, rules):
            continue
        member = row if paused is None else _who_paused(evidence, paused[:, step], row, step, rules)
        finding = _stall(evidence, member, step, float(evidence.lateness_ns[row, step]), rules)
        if not any(finding.start_ns < (k.end_ns or 0) and k.start_ns < (finding.end_ns or 0) for k in kept):
            kept.append(finding)
    return kept


def _who_paused(evidence: JobEvidence, paused: Float64, row: int, step: int, rules: FaultRules) -> int:
    """Of those as late as `row`, the latest, the member whose own pause alone is a good part of what this step takes
    longer; `row` without one. Stages before and after one that stands still are as late as it. Who is on time has not
    stood still: where messages are pushed, the one before it in a ring pauses until they are taken."""
    longest = int(np.argmax(paused))
    if evidence.lateness_ns[longest, step] < rules.members.as_late * evidence.lateness_ns[row, step]:
        return row
    others = float(np.delete(paused, longest).max(initial=0.0))
    enough = paused[longest] >= rules.members.paused * (evidence.duration_ns[step] - evidence.normal_ns)
    return longest if enough and others <= rules.members.alone * paused[longest] else row


def beyond_jitter(evidence: JobEvidence, rules: FaultRules = RULES) -> Bool:
    """Steps that are longer than the usual one by many times of what a tenth of the job's steps are anyway: where data
    or checkpoints make every tenth step wait, one that waits longer is no news."""
    counted = evidence.counted
    if not counted.any():
        return np.zeros(evidence.steps, dtype=np.bool_)
    excess = evidence.duration_ns - evidence.normal_ns
    usual = max(float(np.quantile(excess[counted], rules.members.jitter_quantile)), 0.0)
    return np.asarray(counted & (excess > rules.members.jitter_growth * usual))


def many_as_late(evidence: JobEvidence, row: int, late_ns: Float64, rules: FaultRules = RULES) -> bool:
    """Are many members that neither share its server nor its pipelines as late as this one? Then it is nobody's: all
    stood still, or those that are late do something else first."""
    members, places = evidence.job.members, evidence.job.places
    near = {m for pipeline in evidence.layout.pipelines if members[row] in pipeline for m in pipeline}
    alike = [
        other
        for other in np.flatnonzero(late_ns >= rules.members.as_late * late_ns[row])
        if members[other] not in near and not (places and places[row] and places[other] == places[row])
    ]
    return len(alike) > rules.members.many_late * len(members)


def _sent_to_as_late(evidence: JobEvidence, row: int, step: int, rules: FaultRules) -> bool:
    """Is the first message *to* this member as late as the first one from it, although messages are pushed? Whoever
    sends to one that stands still gets rid of the head of a message in time, unless it stands still itself."""
    member = evidence.job.members[row]
    group = next((g for g in evidence.layout.groups if g.kind == PairKind.DP and member in g.members), None)
    if group is None or agrees_on_messages(evidence.job, evidence.timeline.steps, rules):
        return False
    first = first_messages_ns(evidence.job, evidence.layout, evidence.timeline.steps, rules)
    got = first_of_members(evidence.job, first, evidence.job.transfers.pair_dst)[:, step]
    others = np.isin(evidence.job.members, group.members) & (np.arange(got.size) != row)
    behind = got[row] - known_median(got[None, others], axis=1)[0]
    return bool(behind >= rules.members.as_late * evidence.lateness_ns[row, step])


def _stall(evidence: JobEvidence, row: int, step: int, waited_ns: float, rules: FaultRules) -> Finding:
    name = evidence.job.transfers.addresses[evidence.job.members[row]]
    steps = evidence.timeline.steps
    affected = np.zeros(evidence.steps, dtype=np.bool_)
    affected[step] = True
    return Finding(
        kind=FindingKind.STALL,
        job=evidence.job.id,
        where=Where(WhereType.GPU, name),
        start_ns=int(steps.start_ns[step]),
        end_ns=int(steps.end_ns[step]),
        severity=round(share_lost(evidence, affected), 3),
        confidence=rules.members.sure_stall,
        lost_gpu_seconds=round(lost_gpu_seconds(evidence, affected), 3),
        summary=(
            f"GPU {name} stood still for {waited_ns / 1e9:.1f} s in step {step} while all of its peers waited: "
            "look for a paused process, a data-loader wait or a GPU reset on its server at that time."
        ),
        evidence=(
            Evidence("seconds behind its group", round(waited_ns / 1e9, 3), 0.0),
            Evidence("duration of the step, s", round(float(evidence.duration_ns[step]) / 1e9, 3),
                     round(evidence.normal_ns / 1e9, 3)),
        ),
    )  # fmt: skip
