"""The report's JSON document as typed facts.

A truth says the same things in the same words, so both sides are read into the same types and compared like with
like. A document is untrusted: every field is checked and a wrong one is named in the error; an absent optional field
is the same as one that says nothing.
"""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmprism.errors import FormatError, InputError, LimitError
from llmprism.limits import MAX_DOCUMENT_BYTES
from llmprism.model import FindingKind, PairKind, Where, WhereType

__all__ = ["Facts", "GroupFact", "IssueFact", "LayoutFacts", "ScoredJob", "parse_report", "read_document"]

REPORT_SCHEMA = "llmprism.report/1"
GZIP_MAGIC = b"\x1f\x8b"

MAX_TIME_NS = 1 << 62
"""The year 2116; the difference of two such times fits into 64 bits."""


@dataclass(frozen=True, slots=True)
class LayoutFacts:
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    cp: int | None = None
    micro_batches: int | None = None
    sharding: str = "unknown"
    schedule: str = "unknown"


@dataclass(frozen=True, slots=True)
class GroupFact:
    kind: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScoredJob:
    """`pairs` are (src, dst, kind); None where the source does not list them (a capture's truth).

    `partial_end_ns` are the ends of steps that began before the window: a report may list them or not. The same holds
    for `optional_pairs`, which carried their kind only while the job was set up.
    """

    id: str
    members: frozenset[str]
    layout: LayoutFacts
    groups: tuple[GroupFact, ...]
    pipelines: tuple[tuple[str, ...], ...]
    pairs: tuple[tuple[str, str, str], ...] | None
    step_start_ns: tuple[int, ...]
    step_end_ns: tuple[int, ...]
    state: str = "unknown"
    partial_end_ns: frozenset[int] = frozenset()
    optional_pairs: frozenset[tuple[str, str, str]] = frozenset()

    @property
    def span_ns(self) -> tuple[int, int] | None:
        """From the first step's start to the last step's end; None without steps."""
        if not self.step_end_ns:
            return None
        return min(self.step_start_ns), max(self.step_end_ns)


@dataclass(frozen=True, slots=True)
class IssueFact:
    """A finding of a report or a fault of a truth. `end_ns` None: it does not end inside the window.

    `equivalents` are other addresses that count as the place: no flow record can tell them from it, or the fault was
    planted there and its label names the whole job (a rank that was stopped for a while). `other_names` are kinds and
    places of a finding's alternatives that are its own place by another name: a switch and its only cable, two cables
    that all transfers pass one after the other.
    """

    kind: FindingKind
    job: str | None
    where: Where
    start_ns: int
    end_ns: int | None
    equivalents: tuple[str, ...] = ()
    other_names: tuple[tuple[FindingKind, Where], ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    jobs: tuple[ScoredJob, ...]
    issues: tuple[IssueFact, ...]


def read_document(path: Path) -> dict[str, Any]:
    """The JSON object in a file, plain or gzip-compressed, at most MAX_DOCUMENT_BYTES long."""
    try:
        with path.open("rb") as file:
            compressed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            if compressed:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    data = unpacked.read(MAX_DOCUMENT_BYTES + 1)
            else:
                data = file.read(MAX_DOCUMENT_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FormatError(f"{path}: damaged gzip data ({error})") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    if len(data) > MAX_DOCUMENT_BYTES:
        raise LimitError(f"{path}: more than {MAX_DOCUMENT_BYTES} bytes of JSON")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not JSON ({error})") from error
    if not isinstance(document, dict):
        raise FormatError(f"{path}: a JSON object is expected")
    return document


def parse_report(document: dict[str, Any]) -> Facts:
    """The facts of a `llmprism.report/1` document; FormatError names the field that is not as the contract says."""
    schema = document.get("schema")
    if schema != REPORT_SCHEMA:
        raise FormatError(f"schema: {schema!r} is not {REPORT_SCHEMA!r}")
    return parse_facts(document, issues="findings")


def parse_facts(document: dict[str, Any], issues: str) -> Facts:
    """Jobs and issues of a document in the report's own terms; `issues` names the list that holds the issues."""
    jobs = tuple(_job(item, f"jobs[{i}]") for i, item in enumerate(as_list(document.get("jobs"), "jobs")))
    return Facts(jobs, parse_issues(document, issues))


def parse_issues(document: dict[str, Any], issues: str) -> tuple[IssueFact, ...]:
    """The issues in the list of this name; none where there is no such list."""
    listed = as_list(document.get(issues), issues)
    return tuple(_issue(item, f"{issues}[{i}]") for i, item in enumerate(listed))


def as_list(value: object, field: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise FormatError(f"{field}: a list is expected")
    return value


def as_object(value: object, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{field}: an object is expected")
    return value


def as_text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{field}: text is expected")
    return value


def as_int(value: object, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise FormatError(f"{field}: an integer is expected")
    if abs(value) > MAX_TIME_NS:
        raise FormatError(f"{field}: {value} is out of range")
    return value


def as_texts(value: object, field: str) -> tuple[str, ...]:
    return tuple(as_text(item, field) for item in as_list(value, field))


def as_optional_int(value: object, field: str) -> int | None:
    return None if value is None else as_int(value, field)


def _job(value: object, field: str) -> ScoredJob:
    job = as_object(value, field)
    steps = [as_object(step, f"{field}.steps") for step in as_list(job.get("steps"), f"{field}.steps")]
    pairs, optional = None, frozenset[tuple[str, str, str]]()
    if "pairs" in job:
        listed = [as_object(item, f"{field}.pairs") for item in as_list(job["pairs"], f"{field}.pairs")]
        pairs = tuple(_pair(item, f"{field}.pairs") for item in listed if item.get("setup") is not True)
        optional = frozenset(_pair(item, f"{field}.pairs") for item in listed if item.get("setup") is True)
    pipelines = as_list(job.get("pipelines"), f"{field}.pipelines")
    return ScoredJob(
        id=as_text(job.get("id"), f"{field}.id"),
        members=frozenset(as_texts(job.get("members"), f"{field}.members")),
        layout=_layout(as_object(job.get("layout", {}), f"{field}.layout"), f"{field}.layout"),
        groups=tuple(_group(item, f"{field}.groups") for item in as_list(job.get("groups"), f"{field}.groups")),
        pipelines=tuple(as_texts(pipeline, f"{field}.pipelines") for pipeline in pipelines),
        pairs=pairs,
        step_start_ns=tuple(as_int(step.get("start_ns"), f"{field}.steps.start_ns") for step in steps),
        step_end_ns=tuple(as_int(step.get("end_ns"), f"{field}.steps.end_ns") for step in steps),
        state=as_text(job.get("state", "unknown"), f"{field}.state"),
        partial_end_ns=frozenset(as_int(s.get("end_ns"), f"{field}.steps") for s in steps if s.get("partial") is True),
        optional_pairs=optional,
    )


def _layout(layout: dict[str, Any], field: str) -> LayoutFacts:
    def degree(name: str) -> int | None:
        return as_optional_int(layout.get(name), f"{field}.{name}")

    return LayoutFacts(
        tp=degree("tp"),
        pp=degree("pp"),
        dp=degree("dp"),
        ep=degree("ep"),
        cp=degree("cp"),
        micro_batches=degree("micro_batches"),
        sharding=as_text(layout.get("sharding", "unknown"), f"{field}.sharding"),
        schedule=as_text(layout.get("schedule", "unknown"), f"{field}.schedule"),
    )


def _pair(value: object, field: str) -> tuple[str, str, str]:
    pair = as_object(value, field)
    kind = as_text(pair.get("kind"), f"{field}.kind")
    if kind not in {known.label for known in PairKind}:
        raise FormatError(f"{field}.kind: {kind!r} is not a kind of pair")
    return as_text(pair.get("src"), f"{field}.src"), as_text(pair.get("dst"), f"{field}.dst"), kind


def _group(value: object, field: str) -> GroupFact:
    group = as_object(value, field)
    return GroupFact(as_text(group.get("kind"), f"{field}.kind"), as_texts(group.get("members"), f"{field}.members"))


def _issue(value: object, field: str) -> IssueFact:
    issue = as_object(value, field)
    job = issue.get("job")
    where = _where(as_object(issue.get("where"), f"{field}.where"), f"{field}.where")
    equivalents = as_texts(issue.get("equivalents"), f"{field}.equivalents")
    if where.type is WhereType.JOB and isinstance(issue.get("address"), str):
        equivalents = (*equivalents, issue["address"])
    return IssueFact(
        kind=issue_kind(issue.get("kind"), f"{field}.kind"),
        job=None if job is None else as_text(job, f"{field}.job"),
        where=where,
        start_ns=as_int(issue.get("start_ns"), f"{field}.start_ns"),
        end_ns=as_optional_int(issue.get("end_ns"), f"{field}.end_ns"),
        equivalents=equivalents,
        other_names=_other_names(issue.get("alternatives"), f"{field}.alternatives"),
    )


def _other_names(value: object, field: str) -> tuple[tuple[FindingKind, Where], ...]:
    """Only links and switches can be names of one place; other alternatives are rivals."""
    names = []
    for i, item in enumerate(as_list(value, field)):
        one = as_object(item, f"{field}[{i}]")
        where = _where(as_object(one.get("where"), f"{field}[{i}].where"), f"{field}[{i}].where")
        if one.get("same_place") is True and where.type in (WhereType.LINK, WhereType.SWITCH):
            names.append((issue_kind(one.get("kind"), f"{field}[{i}].kind"), where))
    return tuple(names)


def issue_kind(value: object, field: str) -> FindingKind:
    try:
        return FindingKind(as_text(value, field))
    except ValueError as error:
        raise FormatError(f"{field}: {value!r} is not a kind of finding") from error


def _where(where: dict[str, Any], field: str) -> Where:
    try:
        kind = WhereType(as_text(where.get("type"), f"{field}.type"))
    except ValueError as error:
        raise FormatError(f"{field}.type: {where.get('type')!r} is not a type of place") from error
    place = where.get("id")
    if isinstance(place, list):
        return Where(kind, as_texts(place, f"{field}.id"))
    return Where(kind, as_text(place, f"{field}.id"))
