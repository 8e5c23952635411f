"""One job or two? Clusters are joined where one job explains what is seen better than two do.

Evidence is counted in bits and adds up: what is known beforehand (`candidates`), what the step clocks say (`lockstep`),
and where those do not settle it what the messages say (`rhythm`). Two sets of clusters become one job if what was
measured between them speaks for it on average (rails see the same steps, so their answers do not add up): one chance
likeness does not outweigh several differences.

A cluster whose steps do not show is compared with itself too (`coherence`): what serves requests is no job.

The comparison of messages needs transfers, which may lie elsewhere: `join_clusters` asks, `job_groups` hears.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmprism.recognize.candidates import Candidate, PairCluster
from llmprism.recognize.lockstep import lockstep_bits
from llmprism.recognize.rules import RULES, RecognitionRules
from llmprism.stats.disjoint_sets import root_of

__all__ = ["JobGroup", "Joined", "RailQuestion", "job_groups", "joined_by_clocks"]


@dataclass(frozen=True, slots=True)
class RailQuestion:
    """Are these two clusters (indices) of one job? Their transfers must answer, `bits` speak for it already.

    `step_ns` is about one step, 0 where none is known. A cluster and itself: does it train at all?
    """

    left: int
    right: int
    step_ns: float
    bits: float = 0.0


@dataclass(frozen=True, slots=True)
class Joined:
    """The clusters, which of them (indices) are one job by their clocks, two and two, and what clocks leave open."""

    clusters: tuple[PairCluster, ...]
    sure: tuple[tuple[int, int], ...]
    questions: tuple[RailQuestion, ...]


@dataclass(frozen=True, slots=True)
class JobGroup:
    """Clusters (indices) of one job; `held_by` are the fewest bits that hold two parts of it together, `kept_apart` the
    fewest that keep anything else out, `trains` those for the surest of them training (infinite where nothing was in
    question)."""

    clusters: tuple[int, ...]
    held_by: float
    kept_apart: float
    trains: float = np.inf


def joined_by_clocks(
    clusters: list[PairCluster], found: Sequence[Candidate], rules: RecognitionRules = RULES
) -> Joined:
    """What clocks settle, and the questions that they leave open."""
    job = np.arange(len(clusters))
    sure: list[tuple[int, int]] = []
    questions: list[RailQuestion] = []
    for candidate in found:
        i, j = candidate.left, candidate.right
        one, two = root_of.python(job, i), root_of.python(job, j)
        a, b = clusters[i], clusters[j]
        if one == two or min(a.last_ns, b.last_ns) <= max(a.first_ns, b.first_ns):
            continue  # others have joined them already, or they never met
        bits = candidate.bits
        if a.steady is not None and b.steady is not None:
            bits += lockstep_bits(a.steady, b.steady, rules)
        if bits >= rules.sure_bits:
            sure.append((i, j))
            job[one] = two
        else:
            step_ns = max(one.clock.period_ns if one.clock is not None else 0.0 for one in (a, b))
            questions.append(RailQuestion(i, j, step_ns, bits))
    still_open = [q for q in questions if root_of.python(job, q.left) != root_of.python(job, q.right)]
    listed = any(one.placed and any(it.clock.steps >= rules.few_steps for it in one.clocks) for one in clusters)
    unclear = [
        RailQuestion(i, i, 0.0, rules.unlisted_bits if listed and not one.servers else rules.trains_bits)
        for i, one in enumerate(clusters)
        if _unclear(one, rules)
    ]
    questions = [*_affordable(still_open, rules), *unclear]
    return Joined(tuple(clusters), (*sure, *_set_ups(clusters)), tuple(questions))


def _unclear(cluster: PairCluster, rules: RecognitionRules) -> bool:
    """May it be training, though no clock shows steps enough that they cannot be chance?"""
    return cluster.training and all(one.clock.steps < rules.chance_steps for one in cluster.clocks)


def _affordable(questions: list[RailQuestion], rules: RecognitionRules) -> list[RailQuestion]:
    """All questions, or where there are very many the first few of each cluster."""
    if len(questions) <= rules.many_questions:
        return questions
    partners: dict[int, int] = {}
    kept = []
    for question in sorted(questions, key=lambda q: (-q.bits, q.left, q.right)):
        if min(partners.get(question.left, 0), partners.get(question.right, 0)) < rules.few_partners:
            kept.append(question)
            for side in (question.left, question.right):
                partners[side] = partners.get(side, 0) + 1
    return sorted(kept, key=lambda q: (q.left, q.right))


def _set_ups(clusters: list[PairCluster]) -> list[tuple[int, int]]:
    """Clusters without steps, each with the next one of the same members that has some.

    A job begins by handing out its parameters; loading and compiling may then take so long that the steps look like
    another job's.
    """
    stepping: dict[int, list[int]] = {}
    for index in sorted(range(len(clusters)), key=lambda i: clusters[i].first_ns):
        if clusters[index].clock is not None:
            for member in clusters[index].members.tolist():
                stepping.setdefault(member, []).append(index)
    joined = []
    for index, cluster in enumerate(clusters):
        if cluster.clock is None:
            later = (i for i in stepping.get(int(cluster.members[0]), ()) if clusters[i].first_ns >= cluster.last_ns)
            following = next(later, None)
            if following is not None and np.isin(cluster.members, clusters[following].members).all():
                joined.append((index, following))
    return joined


def job_groups(joined: Joined, answers: Sequence[float], rules: RecognitionRules = RULES) -> list[JobGroup]:
    """The clusters of each job, in the order of their first; `answers` has the bits of the messages per question.

    Sets of clusters are joined the surest two first, as long as what was measured between them speaks for it.
    """
    parent = np.arange(len(joined.clusters))
    for i, j in joined.sure:
        parent[root_of.python(parent, i)] = root_of.python(parent, j)
    between: dict[int, dict[int, tuple[float, int]]] = {}
    trains = [np.inf if cluster.training else -np.inf for cluster in joined.clusters]
    for question, bits in zip(joined.questions, answers, strict=True):
        if question.left == question.right:
            trains[question.left] = question.bits + bits
            continue
        one, two = root_of.python(parent, question.left), root_of.python(parent, question.right)
        total = float(np.clip(question.bits + bits, -rules.one_answer_bits, rules.one_answer_bits))
        if one != two:
            _add(between, one, two, (total, 1))
    held = dict.fromkeys((root_of.python(parent, i) for i in range(len(joined.clusters))), np.inf)
    surest = {one: best for one in between if (best := _surest(between, one))[0] > 0.0}
    while surest:
        mean, one, two = max(surest.values())
        one, two = -one, -two
        parent[two] = one
        held[one] = min(held[one], held.pop(two), mean)
        others = between.pop(two)
        for other, more in others.items():
            del between[other][two]
            if other != one:
                _add(between, one, other, more)
        for changed in (two, *others):
            surest[changed] = _surest(between, changed)
            if surest[changed][0] <= 0.0:
                del surest[changed]
    groups: dict[int, list[int]] = {}
    for index in range(len(joined.clusters)):
        groups.setdefault(root_of.python(parent, index), []).append(index)
    found = [
        JobGroup(
            tuple(clusters),
            held[root],
            -max((b / count for b, count in between.get(root, {}).values()), default=-np.inf),
            max(trains[index] for index in clusters),
        )
        for root, clusters in groups.items()
    ]
    return _with_phases(joined.clusters, found)


def _surest(between: dict[int, dict[int, tuple[float, int]]], one: int) -> tuple[float, int, int]:
    """Mean bits between a set and the surest of those after it, and both with their signs turned: of equals the first
    is the largest. No bits where there is none."""
    found = ((bits / count, -one, -other) for other, (bits, count) in between.get(one, {}).items() if one < other)
    return max(found, default=(0.0, 0, 0))


def _with_phases(clusters: Sequence[PairCluster], groups: list[JobGroup]) -> list[JobGroup]:
    """The groups, those that are phases of another one joined with it: all of their members are among its members, and
    they lie within its time or are shorter than one of its steps. Training does not go on without some of its members,
    so these have not left it; in the first seconds of a window or of a job, or in the last ones (after an evaluation),
    not all links of a member are seen."""
    members = [frozenset(m for i in group.clusters for m in clusters[i].members.tolist()) for group in groups]
    first = [min(clusters[i].first_ns for i in group.clusters) for group in groups]
    last = [max(clusters[i].last_ns for i in group.clusters) for group in groups]
    step = [max((one.period_ns for i in group.clusters if (one := clusters[i].clock)), default=0.0) for group in groups]
    of_member: dict[int, list[int]] = {}
    for number, own in enumerate(members):
        for member in own:
            of_member.setdefault(member, []).append(number)
    parts: dict[int, list[int]] = {}
    for number, own in enumerate(members):
        for whole in of_member[min(own)]:
            within = first[whole] <= first[number] and last[number] <= last[whole]
            if own < members[whole] and (within or last[number] - first[number] < step[whole]):
                parts.setdefault(whole, []).append(number)
                break
    gone = {number for numbers in parts.values() for number in numbers}
    return [
        replace(group, clusters=tuple(sorted([*group.clusters, *_clusters_within(groups, parts, number)])))
        for number, group in enumerate(groups)
        if number not in gone
    ]


def _clusters_within(groups: list[JobGroup], parts: dict[int, list[int]], number: int) -> list[int]:
    """The clusters of the groups that are parts of this one, and of their parts."""
    inner = parts.get(number, [])
    return [i for part in inner for i in (*groups[part].clusters, *_clusters_within(groups, parts, part))]


def _add(between: dict[int, dict[int, tuple[float, int]]], one: int, two: int, more: tuple[float, int]) -> None:
    for a, b in ((one, two), (two, one)):
        row = between.setdefault(a, {})
        bits, count = row.get(b, (0.0, 0))
        row[b] = bits + more[0], count + more[1]
