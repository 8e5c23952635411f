"""What was really there: the truth of a real capture, or the truth file of the simulator.

A simulator's truth (`llmprism.truth/1`, docs/reference/truth.md) is written in the report's own terms with `faults` in
the place of `findings`. A capture's truth (`truth.json.gz`, no schema field) gives members, groups, pipelines, steps
and faults; it lists no pairs, so what a pair carries is derived from the groups and pipelines (see `pairs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmprism.errors import FormatError
from llmprism.model import FindingKind, Where, WhereType
from llmprism.score.document import (
    GroupFact,
    IssueFact,
    LayoutFacts,
    ScoredJob,
    as_int,
    as_list,
    as_object,
    as_optional_int,
    as_text,
    as_texts,
    issue_kind,
    parse_facts,
    parse_issues,
    read_document,
)

__all__ = ["Truth", "parse_truth", "read_truth"]

TRUTH_SCHEMA = "llmprism.truth/1"

PLACE_OF_KIND = {
    FindingKind.SLOW_GPU: WhereType.GPU,
    FindingKind.SLOW_NIC: WhereType.NIC,
    FindingKind.SLOW_LINK: WhereType.LINK,
    FindingKind.CONGESTION: WhereType.LINK,
    FindingKind.SLOW_SWITCH: WhereType.SWITCH,
    FindingKind.SLOW_GROUP: WhereType.GROUP,
    FindingKind.IMBALANCE: WhereType.STAGE,
    FindingKind.SLOW_STORAGE: WhereType.STORAGE,
    FindingKind.SLOW_STEP: WhereType.JOB,
    FindingKind.STALL: WhereType.JOB,
    FindingKind.HANG: WhereType.GPU,
    FindingKind.CRASH: WhereType.GPU,
}
"""The place that a capture's fault names: a capture gives the name only, not its type."""

OF_A_MEMBER = (FindingKind.STALL, FindingKind.SLOW_STEP)
"""Kinds whose place is the job, unless the capture names one of its members: a rank that was stopped for a while."""

SHARDING_OF_MODE = {"ddp": "none", "fsdp": "fsdp", "hsdp": "fsdp", "zero1": "zero", "zero2": "zero", "zero": "zero"}
"""A capture's `mode` in the report's words."""


@dataclass(frozen=True, slots=True)
class Truth:
    """`jobs` as a perfect report would say them; `faults` that a perfect report would find, and no others. `faint` are
    faults that did next to nothing to the steps: to name one is neither right nor wrong."""

    jobs: tuple[ScoredJob, ...]
    faults: tuple[IssueFact, ...]
    faint: tuple[IssueFact, ...] = ()


def read_truth(path: Path) -> Truth:
    """The truth in a file, plain or gzip-compressed, of a capture or of the simulator."""
    try:
        return parse_truth(read_document(path))
    except FormatError as error:
        text = str(error)
        raise error if text.startswith(str(path)) else FormatError(f"{path}: {text}") from error


def parse_truth(document: dict[str, Any]) -> Truth:
    """The truth in a parsed document; a document without `schema` is read as a capture's."""
    schema = document.get("schema")
    if schema == TRUTH_SCHEMA:
        facts = parse_facts(document, issues="faults")
        return Truth(facts.jobs, facts.issues, parse_issues(document, "faint"))
    if schema is not None:
        raise FormatError(f"schema: {schema!r} is not {TRUTH_SCHEMA!r}")
    jobs = tuple(_capture_job(item, f"jobs[{i}]") for i, item in enumerate(as_list(document.get("jobs"), "jobs")))
    faults = as_list(document.get("faults"), "faults")
    members = frozenset().union(*(job.members for job in jobs))
    return Truth(jobs, tuple(_capture_fault(item, f"faults[{i}]", members) for i, item in enumerate(faults)))


def _capture_job(value: object, field: str) -> ScoredJob:
    job = as_object(value, field)
    steps = [as_object(step, f"{field}.steps") for step in as_list(job.get("steps"), f"{field}.steps")]
    groups = [
        GroupFact(kind, as_texts(group, f"{field}.{name}"))
        for name, kind in (("dp_groups", "dp"), ("ep_groups", "ep"))
        for group in as_list(job.get(name), f"{field}.{name}")
    ]
    listed = as_list(job.get("pipelines"), f"{field}.pipelines")
    pipelines = (as_texts(pipeline, f"{field}.pipelines") for pipeline in listed)
    return ScoredJob(
        id=_capture_job_id(job.get("job"), f"{field}.job"),
        members=frozenset(as_texts(job.get("members"), f"{field}.members")),
        layout=LayoutFacts(
            tp=as_optional_int(job.get("tp"), f"{field}.tp"),
            pp=as_optional_int(job.get("pp"), f"{field}.pp"),
            dp=as_optional_int(job.get("dp"), f"{field}.dp"),
            ep=as_optional_int(job.get("ep"), f"{field}.ep"),
            cp=as_optional_int(job.get("cp"), f"{field}.cp"),
            micro_batches=as_optional_int(job.get("micro_batches"), f"{field}.micro_batches"),
            sharding=SHARDING_OF_MODE.get(as_text(job.get("mode", ""), f"{field}.mode"), "unknown"),
            schedule=as_text(job.get("schedule") or "unknown", f"{field}.schedule"),
        ),
        groups=tuple(group for group in groups if len(group.members) > 1),
        pipelines=tuple(pipeline for pipeline in pipelines if len(pipeline) > 1),
        pairs=None,
        step_start_ns=tuple(as_int(step.get("start_ns"), f"{field}.steps.start_ns") for step in steps),
        step_end_ns=tuple(as_int(step.get("end_ns"), f"{field}.steps.end_ns") for step in steps),
    )


def _capture_job_id(value: object, field: str) -> str:
    return value if isinstance(value, str) else f"job{as_int(value, field)}"


def _capture_fault(value: object, field: str, members: frozenset[str]) -> IssueFact:
    """A fault of a GPU or NIC that names several addresses is at one of them, and the capture does not know which."""
    fault = as_object(value, field)
    kind = issue_kind(fault.get("kind"), f"{field}.kind")
    job = fault.get("job")
    job_id = None if job is None else _capture_job_id(job, f"{field}.job")
    place = fault.get("where")
    equivalents: tuple[str, ...] = ()
    if place is None and job_id is not None:
        where = Where(WhereType.JOB, job_id)
    elif isinstance(place, list):
        names = as_texts(place, f"{field}.where")
        where = Where(PLACE_OF_KIND[kind], names)
        if where.type in (WhereType.GPU, WhereType.NIC) and names:
            where, equivalents = Where(where.type, names[0]), names[1:]
    else:
        name = as_text(place, f"{field}.where")
        where = Where(WhereType.GPU if kind in OF_A_MEMBER and name in members else PLACE_OF_KIND[kind], name)
    return IssueFact(
        kind=kind,
        job=job_id,
        where=where,
        start_ns=as_int(fault.get("t_start"), f"{field}.t_start"),
        end_ns=as_optional_int(fault.get("t_end"), f"{field}.t_end"),
        equivalents=equivalents,
    )
