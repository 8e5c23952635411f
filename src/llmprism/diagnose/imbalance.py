"""Stage imbalance: one stage of every pipeline computes longer than the others, all the time.

The first micro-batch of a step runs through an empty pipeline, so nothing but computation lies between its arrival at a
stage and its departure. The last stage answers with a gradient after a forward and a backward pass, which takes about
three times a forward pass. A stage that takes much longer than the median of the others, in most steps of most
pipelines, holds all of them up.

Catches: layers unevenly split over the stages. Must not shout at: two stages (nobody to compare with), heads and
embeddings (the first stage is not measured, others must differ by half), one slow GPU (its stage's other replicas
disagree), a single replica (a slow GPU looks the same), jitter, stages that wait for their parameters (what else they
are sent meanwhile), schedules other than 1F1B, a stage that would take longer than the step (exporters' clocks differ).
Tested with the imbalance scenario against all healthy pipelines.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, ranges
from llmprism.model.layout import PairKind, Schedule
from llmprism.stats.integer_order import grouped_order
from llmprism.stats.stretches import stretch_starts

__all__ = ["DETECTOR", "find_imbalance"]


def find_imbalance(evidence: JobEvidence, rules: FaultRules = RULES) -> list[Finding]:
    """At most one finding: the stage that is too long."""
    rule = rules.members
    layout = evidence.layout.layout
    if layout.schedule is not Schedule.ONE_F_ONE_B or layout.dp == 1:
        return []
    pipelines = [pipeline for pipeline in evidence.layout.pipelines if len(pipeline) >= 4][: rule.imbalance_pipelines]
    if not pipelines or len({len(pipeline) for pipeline in pipelines}) != 1:
        return []
    times = _stage_times(evidence, np.array(pipelines, dtype=np.int64), rules)
    times = times[:, np.isfinite(times).all(axis=0)]
    if times.shape[1] < rule.imbalance_cells:
        return []
    ratio = times / np.stack([np.median(np.delete(times, s, axis=0), axis=0) for s in range(times.shape[0])])
    judged = ratio.copy()
    judged[-1] *= rule.recomputed_share
    agreement = (judged >= rule.imbalance_ratio).mean(axis=1)
    stage = int(np.argmax(agreement))
    if agreement[stage] < rule.stage_agreement or not _fits_into_steps(evidence, times[stage], rules):
        return []
    return [_finding(evidence, stage + 1, times[stage], float(np.median(ratio[stage])), float(agreement[stage]), rules)]


def _fits_into_steps(evidence: JobEvidence, times: Float64, rules: FaultRules) -> bool:
    """Does a stage with these forward times get through all micro-batches in a step? Else it is no computation."""
    passes = rules.members.least_passes * (evidence.layout.layout.micro_batches or 0)
    return passes * float(np.median(times)) <= float(np.median(evidence.duration_ns[evidence.counted]))


def _stage_times(evidence: JobEvidence, pipelines: Int64, rules: FaultRules) -> Float64:
    """Forward computation of the first micro-batch on stages 1 and up, per pipeline and counted step; NaN: not seen, or
    the stage was sent something else meanwhile, such as its parameters, and may have waited for that."""
    depart, arrive = _first_messages(evidence, pipelines[:, :-1], pipelines[:, 1:])
    answer, _ = _first_messages(evidence, pipelines[:, -1:], pipelines[:, -2:-1])
    depart = np.concatenate([depart[:, 1:], answer], axis=1)
    times = np.where(_was_sent(evidence, pipelines[:, 1:], arrive, depart), np.nan, depart - arrive)
    times[:, -1] /= rules.members.last_stage_passes
    return np.where(times > 0, times, np.nan).swapaxes(0, 1).reshape(times.shape[1], -1)


def _was_sent(evidence: JobEvidence, members: Int64, since: Float64, until: Float64) -> Bool:
    """Whether a message of another kind than the pipeline's to each of these members ends in each of these times."""
    transfers = evidence.job.transfers
    pairs = np.flatnonzero(np.isin(transfers.pair_dst, members))
    rows = ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1])
    other = evidence.layout.transfer_kind[rows] != PairKind.PP
    rows = rows[other & (transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES)]
    to = transfers.pair_dst[transfers.pair_of_row[rows]].astype(np.int64)
    order = grouped_order(to, transfers.end_ns[rows])
    to, end = to[order], transfers.end_ns[rows][order].astype(np.float64)
    sent: Bool = np.zeros(since.shape, dtype=np.bool_)
    for place in np.ndindex(members.shape):
        low, high = np.searchsorted(to, [members[place], members[place] + 1])
        ends = end[low:high]
        sent[place] = np.searchsorted(ends, since[place], side="right") < np.searchsorted(ends, until[place])
    return sent


def _first_messages(evidence: JobEvidence, src: Int64, dst: Int64) -> tuple[Float64, Float64]:
    """First start and first end of the messages of some pairs in each counted step; NaN where there are none."""
    transfers, steps = evidence.job.transfers, evidence.timeline.steps
    pair = transfers.pairs_between(src, dst)
    used = np.unique(pair[pair >= 0])
    rows = ranges(transfers.pair_offsets[used], transfers.pair_offsets[used + 1])
    rows = rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]
    step = steps.at(transfers.start_ns[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    index = np.searchsorted(used, transfers.pair_of_row[rows])
    first = stretch_starts(index, step)
    start, end = (np.full((used.size + 1, steps.count), np.nan) for _ in range(2))  # the last row: no such pair
    start[index[first], step[first]] = transfers.start_ns[rows[first]]
    end[index[first], step[first]] = np.minimum.reduceat(transfers.end_ns[rows], first)
    place = np.where(pair >= 0, np.searchsorted(used, pair), used.size)
    return start[place][..., evidence.counted], end[place][..., evidence.counted]


def _share_lost(evidence: JobEvidence, later_stages: int, excess_ns: float, at_most: float, rules: FaultRules) -> float:
    """Share of the steps that the stage's excess takes, with the 1F1B schedule played without it.

    Everybody waits for this stage for every micro-batch, once forward and twice backward; only while the first gradient
    comes back from the later stages was there a bubble, in which the excess of one micro-batch per stage hides. Without
    the number of micro-batches, the stage's own share.
    """
    micro_batches = evidence.layout.layout.micro_batches
    if micro_batches is None:
        return at_most
    typical = float(np.median(evidence.duration_ns[evidence.counted]))
    waited = max(micro_batches - later_stages, 1)
    return min(at_most, rules.members.last_stage_passes * waited * excess_ns / typical)


def _finding(
    evidence: JobEvidence, stage: int, times: Float64, ratio: float, agreement: float, rules: FaultRules
) -> Finding:
    steps, job = evidence.timeline.steps, evidence.job
    members = tuple(sorted(pipeline[stage] for pipeline in evidence.layout.pipelines if len(pipeline) > stage))
    names = tuple(job.transfers.addresses[member] for member in members)
    busy = float(evidence.duration_ns[evidence.counted].sum())
    typical = float(np.median(times)) / 1e6
    later = len(evidence.layout.pipelines[0]) - 1 - stage
    lost = _share_lost(evidence, later, float(np.median(times)) * (1.0 - 1.0 / ratio), 1.0 - 1.0 / ratio, rules)
    return Finding(
        kind=FindingKind.IMBALANCE,
        job=job.id,
        where=Where(WhereType.STAGE, names),
        start_ns=int(steps.start_ns[evidence.counted][0]),
        end_ns=None,
        severity=round(lost, 3),
        confidence=round(agreement * rules.members.sure_imbalance, 3),
        lost_gpu_seconds=round(lost * busy / 1e9 * evidence.gpus, 3),
        summary=(
            f"Stage {stage} of {job.id} computes {ratio:.1f} times as long as the others and all pipelines wait for "
            "it: tell the tenant to move layers from it to the other stages."
        ),
        evidence=(
            Evidence("median forward time of the stage, ms", round(typical, 3), round(typical / ratio, 3)),
            Evidence("share of pipelines and steps that agree", round(agreement, 3)),
        ),
    )


def _look(given: DetectorInput) -> list[Finding]:
    return find_imbalance(given.evidence, given.rules)


DETECTOR: Final = Detector("imbalance", (FindingKind.IMBALANCE,), _look)
