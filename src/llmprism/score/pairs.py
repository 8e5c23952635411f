"""What each directed pair carries: precision and recall per kind, and the confusion matrix.

The unit is a directed pair and one kind that it carries. Rows of the matrix are the truth, columns the report:

- A simulator's truth lists its pairs. A training pair that the report does not list is in the column `missing`. One
  that the truth marks `setup` carried the kind only while the job was set up: it may be listed or not.
- A capture's truth gives groups and pipelines only. A reported pair inside one group may truly carry that group's
  kind (of several groups either), one between neighbouring stages of one pipeline is truly `pp`, and so is one that
  closes an interleaved pipeline; everything else is `other`. What must exist: both directions
  between neighbouring stages, and for each member of a DP group one reported pair to another member of it (the order
  of the ring is not known; each member of a ring sends to one other), else one `dp` is `missing`.
- A reported pair that truly carries no training is in the row `other`; calling it `other` or `unknown`, or not
  listing it, is right and counts neither for nor against. `unknown` on a training pair counts as not right.

Pairs are compared wherever the report put them: a job that was split or glued loses in the job score, not here. Where
an address served two jobs in turn, a reported pair belongs to the true job that shares most time with its report job.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from llmprism.score.document import ScoredJob
from llmprism.score.jobs import time_overlap_ns
from llmprism.score.measures import SetScore

__all__ = ["MISSING", "TRAINING_KINDS", "PairsScore", "expected_pairs", "score_pairs", "true_kinds"]

TRAINING_KINDS = ("dp", "pp", "ep", "cp", "tp")
MISSING = "missing"
NO_CLAIM = frozenset({"other", "unknown"})

DirectedPair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PairsScore:
    """`confusion` holds (truth, report, count), sorted, zero cells left out."""

    confusion: tuple[tuple[str, str, int], ...]

    def kind(self, kind: str) -> SetScore:
        """Right, claimed and expected pairs of one kind."""
        right = sum(n for truth, report, n in self.confusion if truth == report == kind)
        claimed = sum(n for _, report, n in self.confusion if report == kind)
        expected = sum(n for truth, _, n in self.confusion if truth == kind)
        return SetScore(right, claimed, expected)

    @property
    def accuracy(self) -> float | None:
        """Right pairs of training kinds out of all that were expected or wrongly claimed; None where there are none."""
        right = sum(n for truth, report, n in self.confusion if truth == report and truth in TRAINING_KINDS)
        total = sum(n for truth, report, n in self.confusion if truth in TRAINING_KINDS or report in TRAINING_KINDS)
        return right / total if total else None


def expected_pairs(job: ScoredJob) -> set[tuple[str, str, str]]:
    """The training pairs of a true job; where it lists none, pipeline neighbours and each group's ring as listed."""
    if job.pairs is not None:
        return {pair for pair in job.pairs if pair[2] in TRAINING_KINDS}
    rings = {
        (src, dst, group.kind)
        for group in job.groups
        for src, dst in zip(group.members, group.members[1:] + group.members[:1], strict=True)
        if src != dst
    }
    return rings | {(src, dst, "pp") for src, dst in _neighbours(job)}


def true_kinds(job: ScoredJob) -> Callable[[str, str], frozenset[str]]:
    """What a directed pair of a true job carries, listed or derived from its groups and pipelines."""
    listed: dict[DirectedPair, set[str]] = defaultdict(set)
    for src, dst, kind in expected_pairs(job) if job.pairs is not None else ():
        listed[src, dst].add(kind)
    for src, dst in _neighbours(job) if job.pairs is None else ():
        listed[src, dst].add("pp")
    groups_of: dict[str, set[int]] = defaultdict(set)
    for i, group in enumerate(job.groups if job.pairs is None else ()):
        for member in group.members:
            groups_of[member].add(i)

    def kinds(src: str, dst: str) -> frozenset[str]:
        shared = groups_of.get(src, set()) & groups_of.get(dst, set())
        return frozenset(listed.get((src, dst), set()) | {job.groups[i].kind for i in shared})

    return kinds


def score_pairs(truth: tuple[ScoredJob, ...], reported: tuple[ScoredJob, ...]) -> PairsScore:
    claims = _claims_by_true_job(truth, reported)
    confusion: Counter[tuple[str, str]] = Counter()
    for t, job in enumerate(truth):
        claimed = claims.pop(t, {})
        if job.pairs is not None:
            _compare_listed(job, claimed, confusion)
        else:
            _compare_derived(job, claimed, confusion)
    for claimed in claims.values():
        for kinds in claimed.values():
            _count(frozenset(), kinds, confusion)
    return PairsScore(tuple((a, b, n) for (a, b), n in sorted(confusion.items())))


def _claims_by_true_job(
    truth: tuple[ScoredJob, ...], reported: tuple[ScoredJob, ...]
) -> dict[int, dict[DirectedPair, set[str]]]:
    """Reported kinds of each pair, by the true job that holds both ends; -1 where none does."""
    jobs_of: dict[str, list[int]] = defaultdict(list)
    for t, job in enumerate(truth):
        for address in job.members:
            jobs_of[address].append(t)
    claims: dict[int, dict[DirectedPair, set[str]]] = defaultdict(lambda: defaultdict(set))
    for found in reported:
        common_time = {t: time_overlap_ns(job, found) or 0 for t, job in enumerate(truth)}
        for src, dst, kind in found.pairs or ():
            both = [t for t in jobs_of.get(src, ()) if t in jobs_of.get(dst, ())]
            owner = max(both, key=lambda t: common_time[t]) if both else -1
            claims[owner][src, dst].add(kind)
    return claims


def _compare_listed(job: ScoredJob, claimed: dict[DirectedPair, set[str]], confusion: Counter[tuple[str, str]]) -> None:
    true_kinds: dict[DirectedPair, set[str]] = defaultdict(set)
    for src, dst, kind in expected_pairs(job):
        true_kinds[src, dst].add(kind)
    for pair in true_kinds.keys() | claimed.keys():
        said = {kind for kind in claimed.get(pair, set()) if (*pair, kind) not in job.optional_pairs}
        _count(frozenset(true_kinds.get(pair, ())), said, confusion)


def _compare_derived(
    job: ScoredJob, claimed: dict[DirectedPair, set[str]], confusion: Counter[tuple[str, str]]
) -> None:
    neighbours = _neighbours(job)
    groups_of: dict[str, set[int]] = defaultdict(set)
    for i, group in enumerate(job.groups):
        for member in group.members:
            groups_of[member].add(i)
    senders: set[tuple[int, str]] = set()
    passing = neighbours | _closing(job)
    for (src, dst), said in claimed.items():
        shared = groups_of[src] & groups_of[dst]
        senders.update((i, src) for i in shared)
        true = {job.groups[i].kind for i in shared} | ({"pp"} if (src, dst) in passing else set())
        _count(frozenset(true & said) or frozenset(true), said, confusion)
    confusion["pp", MISSING] += len(neighbours - claimed.keys())
    for i, group in enumerate(job.groups):
        confusion[group.kind, MISSING] += sum((i, member) not in senders for member in group.members)
    for cell in [cell for cell, count in confusion.items() if not count]:
        del confusion[cell]


def _count(true: frozenset[str], said: set[str], confusion: Counter[tuple[str, str]]) -> None:
    """Puts one pair's kinds into the matrix: agreeing kinds first, the rest against each other in order."""
    claims = sorted(said - NO_CLAIM)
    for kind in true & set(claims):
        confusion[kind, kind] += 1
    unsaid = sorted(true - set(claims))
    wrong = [kind for kind in claims if kind not in true]
    nothing = "unknown" if said & {"unknown"} else "other" if said & {"other"} else MISSING
    for i, kind in enumerate(unsaid):
        confusion[kind, wrong[i] if i < len(wrong) else nothing] += 1
    for kind in wrong[len(unsaid) :]:
        confusion["other", kind] += 1


def _closing(job: ScoredJob) -> set[DirectedPair]:
    """Both directions between the last stage and the first, where interleaved stages hand on from one to the other."""
    if job.layout.schedule != "interleaved":
        return set()
    ends = {(pipeline[-1], pipeline[0]) for pipeline in job.pipelines if len(pipeline) > 2}
    return ends | {(first, last) for last, first in ends}


def _neighbours(job: ScoredJob) -> set[DirectedPair]:
    forward = {(a, b) for pipeline in job.pipelines for a, b in pairwise(pipeline)}
    return forward | {(b, a) for a, b in forward}
