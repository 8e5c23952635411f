"""What a fault costs: the steps that it touches are played again without it.

The graph of a step, as the messages show it: every member computes, or waits for its pipeline, until it is *ready* to
synchronise; a group's synchronisation begins when its last member is ready and takes its time; the step is over, and
the next one begins, when the last group is through. Healing a fault changes what it touches and nothing else:

- members that it holds up (the slow GPU or those behind a slow place, who shares their server, their pipelines, their
  expert and context groups, and who waits for them in the ring) are ready when the untouched members of their group
  are, and no later than in healthy steps;
- groups that synchronise through a slow place, or that contain such members, take as long as in healthy steps; where
  there are none, as long as the untouched groups of the same step.

What the step then ends earlier, times the job's GPUs, is lost. A fault that hides behind somebody else's work costs
nothing. Faults that touch the same step are also healed together: the job has lost what they cost together, and they
share it, so that no second is counted twice. Where nothing healthy is there to compare with the cost is 0. Steps whose
graph is not seen cost what they take beyond a normal one.

Slow storage holds up what lies between the steps as well (data, checkpoints), so there the time from one step's end to
the next is healed to the usual one. Hangs, crashes and stalls lie outside the steps, imbalance in all of them: they
keep what their detectors measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.blame import tensor_peers
from llmprism.diagnose.evidence import JobEvidence, first_messages_ns, first_of_members
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.finding import Finding, Where, WhereType
from llmprism.model.kind_facts import KIND_FACTS, Replay
from llmprism.model.layout import PairKind, Sharding
from llmprism.stats.robust import known_max, known_median

__all__ = ["StepGraph", "Touched", "lost_in_job", "priced", "saved_ns"]

REPLAYED: Final = tuple(kind for kind, facts in KIND_FACTS.items() if facts.replay is not Replay.NONE)


@dataclass(frozen=True, slots=True)
class StepGraph:
    """All counted steps of a job. `ready_ns` (members x steps) and `sync_ns` (groups x steps) are NaN where not seen.

    `groups` holds the members (rows of `ready_ns`) of each group.
    """

    ready_ns: Float64
    sync_ns: Float64
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, evidence: JobEvidence, rules: FaultRules = RULES) -> StepGraph:
        """A job without gradient groups is one group that is ready at once: its steps are whole."""
        steps, members = evidence.timeline.steps, evidence.job.members
        row_of = {member: row for row, member in enumerate(members)}
        groups = tuple(
            tuple(row_of[m] for m in group.members) for group in evidence.layout.groups if group.kind == PairKind.DP
        )
        if not groups:
            ready = np.zeros((len(members), steps.count))
            return cls(ready, evidence.duration_ns[None, :].copy(), (tuple(range(len(members))),))
        first = first_messages_ns(evidence.job, evidence.layout, steps, rules)
        ready = first_of_members(evidence.job, first, evidence.job.transfers.pair_src)
        end = np.where(evidence.timeline.member_end_ns >= 0, evidence.timeline.member_end_ns - steps.start_ns, np.nan)
        begin = np.stack([known_max(ready[list(group)]) for group in groups])
        return cls(ready, np.stack([known_max(end[list(group)]) for group in groups]) - begin, groups)

    def ends(self, ready_ns: Float64, sync_ns: Float64) -> Float64:
        """When each step is over."""
        begin = np.stack([known_max(ready_ns[list(group)]) for group in self.groups])
        return known_max(begin + sync_ns)


@dataclass(frozen=True, slots=True)
class Touched:
    """What a fault holds up: members (rows), groups (numbers), during some steps."""

    steps: Bool
    members: frozenset[int]
    groups: frozenset[int]


def saved_ns(graph: StepGraph, faults: Sequence[Touched], counted: Bool, rules: FaultRules = RULES) -> Float64:
    """Per step, how much earlier it ends without these faults.

    What is healed is healed to what is usual, so the jitter of it goes too, which shortens healthy steps as well: what
    the same healing saves there on average is no fault's and is taken off.
    """
    held_up = np.zeros(graph.ready_ns.shape, dtype=np.bool_)
    slow = np.zeros(graph.sync_ns.shape, dtype=np.bool_)
    for fault in faults:
        held_up[sorted(fault.members)] |= fault.steps
        slow[sorted(fault.groups)] |= fault.steps
    slow |= np.stack([held_up[list(group)].any(axis=0) for group in graph.groups])
    touched = np.logical_or.reduce([fault.steps for fault in faults])
    healthy = counted & ~touched
    new_ready = graph.ready_ns.copy()
    for group in graph.groups:
        rows = list(group)
        if held_up[rows].any():
            new_ready[rows] = _heal(graph.ready_ns[rows], held_up[rows], healthy, rules)
    new_sync = _heal(graph.sync_ns, slow, healthy, rules, alone=True)
    saved = np.nan_to_num(graph.ends(graph.ready_ns, graph.sync_ns) - graph.ends(new_ready, new_sync))
    jitter = float(saved[healthy].mean()) if healthy.sum() >= rules.trust.healthy_to_replay else 0.0
    return np.where(touched, saved - jitter, 0.0)


def _heal(values: Float64, sick: Bool, healthy: Bool, rules: FaultRules, *, alone: bool = False) -> Float64:
    """What is usual in place of sick values: the others of the same step, or the same row in healthy steps.

    `alone`: rows do different work, so other rows are compared only where a row has no healthy steps. Rows that are
    ever sick are healed in healthy steps too.
    """
    ever: Bool = np.asarray(sick.any(axis=1))[:, None]
    well = np.where(sick, np.nan, values)
    others = np.broadcast_to(known_median(np.where(ever, np.nan, values), axis=0)[None, :], values.shape)
    enough = np.isfinite(well[:, healthy]).sum(axis=1) >= rules.trust.healthy_to_replay
    own = (
        np.where(enough, known_median(well[:, healthy], axis=1), np.nan)
        if healthy.any()
        else np.full(len(values), np.nan)
    )
    own = np.broadcast_to(own[:, None], values.shape)
    first, second = (own, others) if alone else (others, own)
    usual = np.where(np.isfinite(first), first, second)
    return np.where((sick | (ever & healthy[None, :])) & np.isfinite(usual), usual, values)


def priced(findings: Sequence[Finding], costs: Iterable[tuple[int, float]]) -> list[Finding]:
    """The same findings with what they cost: the sum of the (number, GPU-seconds) given; the others keep theirs."""
    total: dict[int, float] = {}
    for number, seconds in costs:
        total[number] = total.get(number, 0.0) + seconds
    return [
        replace(finding, lost_gpu_seconds=round(total[number], 3)) if number in total else finding
        for number, finding in enumerate(findings)
    ]


def lost_in_job(evidence: JobEvidence, findings: Sequence[Finding], rules: FaultRules = RULES) -> dict[int, float]:
    """GPU-seconds that one job lost, by number of the finding, of those findings that can be played again."""
    concerned = [
        (index, finding)
        for index, finding in enumerate(findings)
        if finding.kind in REPLAYED and finding.job in (None, evidence.job.id)
    ]
    if not concerned or not evidence.steps:
        return {}
    graph = StepGraph.of(evidence, rules)
    paced = {i: lost for i, finding in concerned if (lost := _pace_lost_ns(evidence, finding, rules)) is not None}
    others = [(i, finding) for i, finding in concerned if i not in paced]
    faults = {i: touched for i, finding in others if (touched := _touched(evidence, graph, finding, rules)) is not None}
    if not faults and not paced:
        return {}
    alone = [saved_ns(graph, [fault], evidence.counted, rules) * fault.steps for fault in faults.values()]
    together = (
        saved_ns(graph, list(faults.values()), evidence.counted, rules) if len(faults) > 1 else sum(alone, np.zeros(1))
    )
    touching = np.stack([*(fault.steps for fault in faults.values()), *(lost != 0.0 for lost in paced.values())])
    together = np.maximum(together, np.max([*paced.values(), np.zeros(evidence.steps)], axis=0))
    unseen = np.isnan(graph.ends(graph.ready_ns, graph.sync_ns)) & touching.any(axis=0)
    longer = np.where(unseen, np.maximum(evidence.duration_ns - evidence.normal_ns, 0.0), 0.0)
    each = np.stack(
        [
            *(np.where(unseen & fault.steps, longer, one) for one, fault in zip(alone, faults.values(), strict=True)),
            *paced.values(),
        ]
    )
    parts = _shared(each, np.where(unseen, np.maximum(longer, together), together), touching)
    return {
        i: max(float(part.sum()), 0.0) / 1e9 * evidence.gpus for i, part in zip((*faults, *paced), parts, strict=True)
    }


def _pace_lost_ns(evidence: JobEvidence, finding: Finding, rules: FaultRules) -> Float64 | None:
    """Per step, what it and the pause before it take beyond the mean of the job's other ones, while a fault lasts; None
    where the fault is of another sort, or there is nothing to compare with."""
    replay = KIND_FACTS[finding.kind].replay
    if replay is not Replay.PACE and not (replay is Replay.COMPUTATION and _exchanges_often(evidence)):
        return None
    steps = evidence.timeline.steps
    until = finding.end_ns if finding.end_ns is not None else np.iinfo(np.int64).max
    taken = np.append(float(steps.duration_ns[0]), np.diff(steps.end_ns).astype(np.float64))
    hit = ~steps.setup & (steps.end_ns > finding.start_ns) & (steps.end_ns - taken < until)
    usual = evidence.counted & ~hit
    if usual.sum() < rules.trust.healthy_to_replay:
        return None
    return np.where(hit, taken - float(taken[usual].mean()), 0.0)


def _exchanges_often(evidence: JobEvidence) -> bool:
    """Does everybody wait for everybody many times in a step, so that a slow member is not late at its end? The graph
    of the step (ready, synchronise, end) does not show it then."""
    experts = any(group.kind == PairKind.EP for group in evidence.layout.groups)
    return experts or evidence.layout.layout.sharding is Sharding.FSDP


def _shared(alone: Float64, together: Float64, touching: Bool) -> Float64:
    """Per fault and step its part of what all cost together: by what each costs alone, the rest equally."""
    total = alone.sum(axis=0)
    scale = np.where(total > together, together / np.maximum(total, 1.0), 1.0)
    rest = np.maximum(together - total, 0.0) / np.maximum(touching.sum(axis=0), 1)
    return np.asarray(alone * scale + rest * touching)


def _touched(evidence: JobEvidence, graph: StepGraph, finding: Finding, rules: FaultRules) -> Touched | None:
    steps = evidence.timeline.steps
    until = finding.end_ns if finding.end_ns is not None else np.iinfo(np.int64).max
    touched = evidence.counted & (steps.end_ns > finding.start_ns) & (steps.start_ns < until)
    pairs = np.zeros(evidence.job.transfers.pair_count, dtype=np.bool_)
    own: set[int] = set()
    if KIND_FACTS[finding.kind].replay is Replay.COMPUTATION:
        named = [row for row, m in enumerate(evidence.job.members) if _name(evidence, m) == finding.where.id]
        own = {int(peer) for row in named for peer in np.flatnonzero(tensor_peers(evidence, row))}
    else:
        pairs = _pairs_through(evidence, finding.where)
    groups = frozenset(int(g) for g in np.unique(evidence.group_of_pair[pairs]) if g >= 0)
    other = pairs & (evidence.group_of_pair < 0) & (evidence.pair_kind != PairKind.UNKNOWN)
    ends = np.concatenate([evidence.job.transfers.pair_src[other], evidence.job.transfers.pair_dst[other]])
    own |= set(np.searchsorted(np.array(evidence.job.members), np.unique(ends)).tolist())
    if not touched.any() or not (own or groups):
        return None
    own |= {row for group in groups for row in _rows(evidence, evidence.layout.groups[group].members)}
    own |= _on_their_servers(evidence, own)
    held_up = _held_up(evidence, own)
    held_up |= _blocked(evidence, graph, held_up, touched, rules)
    return Touched(touched, frozenset(held_up), frozenset(_numbers(evidence, groups)))


def _name(evidence: JobEvidence, member: int) -> str:
    return evidence.job.transfers.addresses[member]


def _rows(evidence: JobEvidence, members: tuple[int, ...]) -> list[int]:
    """Members → rows of the job's matrices."""
    return [int(row) for row in np.searchsorted(np.array(evidence.job.members), np.array(members))]


def _on_their_servers(evidence: JobEvidence, rows: set[int]) -> set[int]:
    """Members on the servers of these, where servers are known."""
    places = evidence.job.places
    servers = {places[row] for row in rows if places[row]} if places else set()
    return {row for row, place in enumerate(places) if place in servers}


def _held_up(evidence: JobEvidence, own: set[int]) -> set[int]:
    """Members that cannot go on without these: their pipelines, their expert and context groups."""
    row_of = {member: row for row, member in enumerate(evidence.job.members)}
    units = [{row_of[m] for m in pipeline} for pipeline in evidence.layout.pipelines]
    units += [{row_of[m] for m in g.members} for g in evidence.layout.groups if g.kind in (PairKind.EP, PairKind.CP)]
    return own.union(*(unit for unit in units if unit & own))


def _blocked(evidence: JobEvidence, graph: StepGraph, held_up: set[int], touched: Bool, rules: FaultRules) -> set[int]:
    """Members of the same groups that are late too: a message cannot leave before its receiver is there.

    Late is a member against its own healthy steps, where there are any, else against its group.
    """
    healthy = evidence.counted & ~touched
    late = known_median(evidence.lateness_ns[:, touched], axis=1)
    if healthy.sum() >= rules.trust.healthy_to_replay:
        late = known_median(graph.ready_ns[:, touched], axis=1) - known_median(graph.ready_ns[:, healthy], axis=1)
    blocked: set[int] = set()
    for group in graph.groups:
        latest = max((late[row] for row in group if row in held_up), default=0.0)
        blocked |= {row for row in group if latest > 0.0 and late[row] > rules.trust.blocked * latest}
    return blocked


def _numbers(evidence: JobEvidence, groups: frozenset[int]) -> set[int]:
    """Groups of the layout → numbers among its gradient groups; a job without any is one group."""
    gradient = [index for index, group in enumerate(evidence.layout.groups) if group.kind == PairKind.DP]
    return {gradient.index(group) for group in groups} if gradient else {0}


def _pairs_through(evidence: JobEvidence, where: Where) -> Bool:
    """The pairs of a job that pass a place with a good part of their messages."""
    transfers = evidence.job.transfers
    names = {where.id} if isinstance(where.id, str) else set(where.id)
    if where.type in (WhereType.NIC, WhereType.GROUP):
        named = [member for member in evidence.job.members if transfers.addresses[member] in names]
        src, dst = np.isin(transfers.pair_src, named), np.isin(transfers.pair_dst, named)
        return src | dst if where.type is WhereType.NIC else src & dst & (evidence.pair_kind == PairKind.DP)
    passes = np.zeros(len(transfers.paths) + 1, dtype=np.bool_)  # the last: paths that are not known
    for path in transfers.paths_taken().tolist():
        hops = pairwise(transfers.paths[path])
        passes[path] = (
            any({a, b} == names for a, b in hops)
            if where.type is WhereType.LINK
            else bool(names.intersection(transfers.paths[path]))
        )
    rows = passes[transfers.path]
    return np.asarray(np.logical_or.reduceat(rows, transfers.pair_offsets[:-1]), dtype=np.bool_)
