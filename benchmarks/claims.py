"""Confidence against truth: is a claim of 0.9 right nine times in ten?

A report is taken apart into claims, each with the confidence that it was stated with and whether the truth agrees:

- `job`: the members of a job are exactly those of a true job;
- `layout`: every degree and the micro-batches that the layout states are true, and the job's groups and pipelines are
  exactly the true ones (a degree that is left open is not a claim);
- `group`, `pipeline`: one of them is a true one (its own confidence where the report gives one, else the layout's);
- `pair`: the pair truly carries the stated kind (`other` and `unknown` claim nothing);
- `finding`: a fault of that kind, place and time exists.

Large jobs would drown small ones, so the claims of one kind in one job share one unit of weight. Expected calibration
error is the mean distance between stated confidence and share right over ten equal bins (Naeini et al. 2015).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from llmprism.score.document import LayoutFacts, ScoredJob, parse_report
from llmprism.score.faults import explained_findings
from llmprism.score.jobs import JobMatch, match_jobs
from llmprism.score.pairs import TRAINING_KINDS, true_kinds
from llmprism.score.truth import Truth

__all__ = ["BINS", "CLAIM_KINDS", "SURE", "Bin", "Claim", "Reliability", "claims_of", "reliability"]

BINS = 10
"""Bins of equal width between 0 and 1, the usual number."""

SURE = 0.9
"""From here on a report is sure: what is wrong above it misleads an operator."""

CLAIM_KINDS = ("job", "layout", "group", "pipeline", "pair", "finding")


@dataclass(frozen=True, slots=True)
class Claim:
    """`weight`: the claims of one kind about one job weigh 1 together."""

    kind: str
    confidence: float
    right: bool
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Bin:
    """One bin of confidence: `confidence` and `right` are weighted means, `weight` their sum of weights."""

    low: float
    high: float
    confidence: float
    right: float
    weight: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """`sure_and_wrong`: weight of the wrong claims above `SURE`, out of all claims."""

    claims: int
    weight: float
    bins: tuple[Bin, ...]
    error: float | None
    right: float | None
    sure_and_wrong: float | None


def reliability(claims: Iterable[Claim]) -> Reliability:
    """How well confidence and truth agree over these claims; None where there are none."""
    listed = list(claims)
    total = sum(claim.weight for claim in listed)
    binned: dict[int, list[Claim]] = defaultdict(list)
    for claim in listed:
        binned[min(int(claim.confidence * BINS), BINS - 1)].append(claim)
    bins = []
    for index in sorted(binned):
        inside = binned[index]
        weight = sum(claim.weight for claim in inside)
        mean = sum(claim.confidence * claim.weight for claim in inside) / weight
        share = sum(claim.weight for claim in inside if claim.right) / weight
        bins.append(Bin(index / BINS, (index + 1) / BINS, mean, share, weight))
    if not total:
        return Reliability(0, 0.0, (), None, None, None)
    return Reliability(
        claims=len(listed),
        weight=total,
        bins=tuple(bins),
        error=sum(abs(b.confidence - b.right) * b.weight for b in bins) / total,
        right=sum(claim.weight for claim in listed if claim.right) / total,
        sure_and_wrong=sum(c.weight for c in listed if not c.right and c.confidence > SURE) / total,
    )


def claims_of(report: dict[str, Any], truth: Truth) -> list[Claim]:
    """Every claim of a report document with a confidence; FormatError where it is not a report."""
    said = parse_report(report)
    match = match_jobs(truth.jobs, said.jobs)
    true_of = {id(found): job for job, found in zip(truth.jobs, match.reported_of, strict=True) if found is not None}
    claims: list[Claim] = []
    for facts, document in zip(said.jobs, report.get("jobs", []), strict=True):
        claims += _job_claims(facts, document, true_of.get(id(facts)), truth.jobs)
    return claims + _finding_claims(report, truth, match)


def _confidence(document: dict[str, Any]) -> float | None:
    value = document.get("confidence")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return min(max(float(value), 0.0), 1.0)


def _job_claims(
    facts: ScoredJob, document: dict[str, Any], true: ScoredJob | None, truth: tuple[ScoredJob, ...]
) -> list[Claim]:
    claims: list[Claim] = []
    confidence = _confidence(document)
    if confidence is not None:
        claims.append(Claim("job", confidence, true is not None and true.members == facts.members))
    stated = _confidence(document.get("layout") or {})
    if stated is not None:
        claims.append(Claim("layout", stated, true is not None and _layout_right(true, facts)))
    groups = {(group.kind, frozenset(group.members)) for job in truth for group in job.groups}
    pipelines = {pipeline for job in truth for pipeline in job.pipelines}
    listed = document.get("groups") or []
    rows = [
        (_confidence(item), (group.kind, frozenset(group.members)) in groups)
        for group, item in zip(facts.groups, listed, strict=True)
        if len(group.members) > 1 and _scored(group.kind, true)
    ]
    claims += _shared("group", [(stated if own is None else own, right) for own, right in rows])
    claims += _shared("pipeline", [(stated, pipe in pipelines) for pipe in facts.pipelines if len(pipe) > 1])
    return claims + _pair_claims(document, true)


def _shared(kind: str, rows: list[tuple[float | None, bool]]) -> list[Claim]:
    """Claims that share one unit of weight; those without a confidence claim nothing."""
    stated = [(confidence, right) for confidence, right in rows if confidence is not None]
    return [Claim(kind, confidence, right, 1.0 / len(stated)) for confidence, right in stated]


def _pair_claims(document: dict[str, Any], true: ScoredJob | None) -> list[Claim]:
    known = true_kinds(true) if true is not None else None
    rows: list[tuple[float | None, bool]] = []
    for pair in document.get("pairs") or []:
        if pair["kind"] in TRAINING_KINDS:
            right = known is not None and pair["kind"] in known(pair["src"], pair["dst"])
            rows.append((_confidence(pair), right))
    return _shared("pair", rows)


def _layout_right(true: ScoredJob, said: ScoredJob) -> bool:
    def visible(job: ScoredJob) -> Counter[tuple[str, frozenset[str]]]:
        shown = (group for group in job.groups if len(group.members) > 1 and _scored(group.kind, true))
        return Counter((group.kind, frozenset(group.members)) for group in shown)

    return (
        _degrees_right(true.layout, said.layout)
        and visible(true) == visible(said)
        and Counter(p for p in true.pipelines if len(p) > 1) == Counter(p for p in said.pipelines if len(p) > 1)
    )


def _degrees_right(true: LayoutFacts, said: LayoutFacts) -> bool:
    """No stated degree is wrong; ep and cp of 1 are the same as none. Micro-batches show in pipelines only."""
    for name in ("ep", "cp"):
        if (getattr(true, name) or 1) != (getattr(said, name) or 1):
            return False
    for name in ("tp", "pp", "dp"):
        expected, stated = getattr(true, name), getattr(said, name)
        if None not in (expected, stated) and expected != stated:
            return False
    if (true.pp or 1) > 1 and None not in (true.micro_batches, said.micro_batches):
        return true.micro_batches == said.micro_batches
    return True


def _scored(kind: str, true: ScoredJob | None) -> bool:
    """A capture's truth lists gradient groups only; groups of other kinds cannot be judged by it."""
    return true is None or true.pairs is not None or kind == "dp"


def _finding_claims(report: dict[str, Any], truth: Truth, match: JobMatch) -> list[Claim]:
    findings = parse_report(report).issues
    explained = explained_findings(truth.jobs, truth.faults, findings, match)
    claims = []
    for index, document in enumerate(report.get("findings") or []):
        confidence = _confidence(document)
        if confidence is not None:
            claims.append(Claim("finding", confidence, index in explained))
    return claims
