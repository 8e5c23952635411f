"""Which reported job is which true job, and how well the members were distinguished.

Jobs are matched one to one by the Jaccard similarity of their member sets; jobs whose steps are known and do not
overlap in time are never matched, so that two jobs that used the same servers one after the other stay apart.
A job is exact when the matched report job has the same members. The adjusted Rand index (Hubert and Arabie 1985)
compares the two partitions of the addresses: 0 is chance, 1 is equal; an address in no reported job is alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from math import comb

from llmprism.score.document import ScoredJob
from llmprism.score.measures import SetScore

__all__ = ["JobMatch", "JobsScore", "adjusted_rand_index", "match_jobs", "score_jobs", "time_overlap_ns"]


@dataclass(frozen=True, slots=True)
class JobMatch:
    """`reported_of[t]` is the report job matched with true job `t`, or None."""

    reported_of: tuple[ScoredJob | None, ...]

    def true_id_of(self, truth: tuple[ScoredJob, ...]) -> dict[str, str]:
        """Report job id → true job id."""
        return {found.id: job.id for job, found in zip(truth, self.reported_of, strict=True) if found is not None}


@dataclass(frozen=True, slots=True)
class JobsScore:
    exact: SetScore
    adjusted_rand_index: float | None


def time_overlap_ns(a: ScoredJob, b: ScoredJob) -> int | None:
    """Common time of two jobs' steps (negative: the pause between them); None where one has no steps."""
    if a.span_ns is None or b.span_ns is None:
        return None
    return min(a.span_ns[1], b.span_ns[1]) - max(a.span_ns[0], b.span_ns[0])


def match_jobs(truth: tuple[ScoredJob, ...], reported: tuple[ScoredJob, ...]) -> JobMatch:
    """Greedy one-to-one matching, most similar first; ties go to the longer common time."""
    true_jobs_of: dict[str, list[int]] = {}
    for t, job in enumerate(truth):
        for address in job.members:
            true_jobs_of.setdefault(address, []).append(t)
    candidates: list[tuple[float, int, int, int]] = []
    for r, found in enumerate(reported):
        common = Counter(t for address in found.members for t in true_jobs_of.get(address, ()))
        for t, shared in common.items():
            overlap = time_overlap_ns(truth[t], found)
            if overlap is not None and overlap < 0:
                continue
            jaccard = shared / (len(found.members) + len(truth[t].members) - shared)
            candidates.append((jaccard, overlap or 0, t, r))
    candidates.sort(key=lambda c: (-c[0], -c[1], c[2], c[3]))
    matched: dict[int, int] = {}
    taken: set[int] = set()
    for _, _, t, r in candidates:
        if t not in matched and r not in taken:
            matched[t] = r
            taken.add(r)
    return JobMatch(tuple(reported[matched[t]] if t in matched else None for t in range(len(truth))))


def score_jobs(truth: tuple[ScoredJob, ...], reported: tuple[ScoredJob, ...], match: JobMatch) -> JobsScore:
    right = sum(
        found is not None and found.members == job.members for job, found in zip(truth, match.reported_of, strict=True)
    )
    labels = _labels(truth, reported)
    index = adjusted_rand_index(labels) if labels else None
    return JobsScore(SetScore(right, len(reported), len(truth)), index)


def adjusted_rand_index(labels: list[tuple[Hashable, Hashable]]) -> float:
    """Agreement of two partitions given as (label in one, label in the other) per item."""
    together = sum(comb(n, 2) for n in Counter(labels).values())
    in_first = sum(comb(n, 2) for n in Counter(first for first, _ in labels).values())
    in_second = sum(comb(n, 2) for n in Counter(second for _, second in labels).values())
    if in_first == in_second == together:
        return 1.0
    chance = in_first * in_second / comb(len(labels), 2)
    return (together - chance) / ((in_first + in_second) / 2 - chance)


def _labels(truth: tuple[ScoredJob, ...], reported: tuple[ScoredJob, ...]) -> list[tuple[Hashable, Hashable]]:
    """One item per (address, true job): an address that serves two jobs in turn is two items."""
    reported_with: dict[str, list[int]] = {}
    for r, found in enumerate(reported):
        for address in found.members:
            reported_with.setdefault(address, []).append(r)
    labels: list[tuple[Hashable, Hashable]] = []
    for t, job in enumerate(truth):
        overlap = {r: time_overlap_ns(job, found) or 0 for r, found in enumerate(reported)}
        for address in sorted(job.members):
            options = [r for r in reported_with.get(address, ()) if overlap[r] >= 0]
            best: Hashable = max(options, key=lambda r: (overlap[r], -r)) if options else ("alone", t, address)
            labels.append((t, best))
    known = {address for job in truth for address in job.members}
    extra = sorted(reported_with.keys() - known)
    return labels + [(("nobody", address), reported_with[address][0]) for address in extra]
