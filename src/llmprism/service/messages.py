"""What is sent when a finding opens, gains its cause or closes: one message per target, built once, in the window's
transaction.

The identity of an alert is the finding's id: it never changes, so Alertmanager and receivers recognise repeats, and
the message that closes a finding resolves the alert that its opening fired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from llmprism.model.finding import Finding
from llmprism.model.flows import Window
from llmprism.model.live import Explanation, FindingPhase, TrackedFinding
from llmprism.model.log import CauseClass
from llmprism.model.topology import Topology
from llmprism.report.kinds import CHECKS, TITLES
from llmprism.report.text import clean
from llmprism.service.config import AlertSettings
from llmprism.service.joblogs.documents import why_document
from llmprism.service.joblogs.explanations import knowledge
from llmprism.service.tracker import Changes

__all__ = [
    "ALERTMANAGER",
    "CLOSED",
    "EXPLAINED",
    "OPENED",
    "SEVERITIES",
    "WEBHOOK",
    "alert_document",
    "messages_of",
    "shown_target",
    "targets_of",
]

OPENED: Final = "opened"
CLOSED: Final = "closed"
EXPLAINED: Final = "explained"
"""A finding that was open gained its cause: lines of its job's logs have come."""

ALERTMANAGER: Final = "alertmanager"
WEBHOOK: Final = "webhook"

SEVERITIES: Final = ("warning", "critical")
"""Of findings that take less than half of their job's speed, and of the others."""

LABEL_CHARS: Final = 200
"""Labels are short; a group of a thousand members is named by its first ones."""


def targets_of(settings: AlertSettings) -> list[str]:
    """Everybody who is to hear of findings: `kind:address`."""
    return [
        *(f"{ALERTMANAGER}:{url}" for url in settings.alertmanager),
        *(f"{WEBHOOK}:{url}" for url in settings.webhook),
    ]


def shown_target(target: str) -> str:
    """A target as it may be shown: webhook addresses carry secrets in their paths, queries and user names."""
    kind, _, url = target.partition(":")
    parts = urlsplit(url)
    rest = "/…" if parts.path.strip("/") or parts.query else ""
    return f"{kind}:{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{rest}"


def messages_of(
    changes: Changes,
    settings: AlertSettings,
    window: Window,
    topology: Topology | None = None,
    before: Sequence[TrackedFinding] = (),
) -> tuple[tuple[str, str, str, Mapping[str, Any]], ...]:
    """(target, finding id, event, document) for every finding that this window opened, explained or closed; `before`
    are the findings as they were."""
    targets = targets_of(settings)
    explained = _explained(changes, before)
    messages = []
    for tracked in changes.findings:
        for event, names in ((OPENED, changes.opened), (EXPLAINED, explained), (CLOSED, changes.closed)):
            if tracked.id in names:
                document = alert_document(tracked, event, settings, window.end_ns, topology)
                messages += [(target, tracked.id, event, document) for target in targets]
    return tuple(messages)


def _explained(changes: Changes, before: Sequence[TrackedFinding]) -> tuple[str, ...]:
    """Findings that were open and of which the logs say more now (lines, or lines and what kind of cause), or name
    another cause."""
    known = {tracked.id: tracked.why for tracked in before if tracked.phase is FindingPhase.OPEN}
    return tuple(
        tracked.id
        for tracked in changes.findings
        if tracked.phase is FindingPhase.OPEN
        and tracked.id in known
        and (
            knowledge(tracked.why) > knowledge(known[tracked.id])
            or (knowledge(tracked.why) > 0 and _class_and_rank(tracked.why) != _class_and_rank(known[tracked.id]))
        )
    )


def _class_and_rank(why: Explanation | None) -> tuple[CauseClass, int | None] | None:
    """What kind of cause an explanation names, and the rank it blames."""
    return None if why is None else (why.verdict.cause.cause_class, why.verdict.rank)


def alert_document(
    tracked: TrackedFinding,
    event: str,
    settings: AlertSettings,
    now_ns: int,
    topology: Topology | None = None,
    why: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One finding as the webhook's body; Alertmanager's alert is made of the same parts. `why`: its explanation as a
    document, where the finding was read back from the store without it."""
    finding = tracked.finding
    link = f"{settings.url.rstrip('/')}/#/findings/{tracked.id}" if settings.url else ""
    return {
        "schema": "llmprism.alert/1",
        "event": event,
        "id": tracked.id,
        "at_ns": now_ns,
        "labels": {
            "alertname": "LLMPrism" + "".join(part.capitalize() for part in finding.kind.value.split("_")),
            "finding": tracked.id,
            "kind": finding.kind.value,
            "job_id": clean(finding.job or "", LABEL_CHARS),
            "place": clean(_place(finding), LABEL_CHARS),
            "severity": SEVERITIES[finding.severity >= 0.5],
        },
        "annotations": {
            "summary": clean(finding.summary),
            "title": TITLES[finding.kind],
            "advice": CHECKS[finding.kind],
            "seat": clean(_seat(finding, topology), LABEL_CHARS),
            "lost_gpu_seconds": f"{finding.lost_gpu_seconds:.0f}",
            **_cause(why if why is not None else why_document(tracked.why)),
        },
        "url": link,
        "start_ns": finding.start_ns,
        "end_ns": finding.end_ns,
        "starts_at": _iso(finding.start_ns),
        "ends_at": _iso(finding.end_ns or now_ns) if event == CLOSED else None,
        "reason": tracked.reason,
    }


def _cause(why: Mapping[str, Any] | None) -> dict[str, str]:
    """What the logs say, where they do: class, whose it is to mend, advice, and the line that says most."""
    if why is None:
        return {}
    said = {"cause": str(why["cause"]["class"]), "owner": str(why["owner"])}
    if why["cause"]["advice"]:
        said["cause_advice"] = clean(str(why["cause"]["advice"]))
    if why["lines"]:
        said["log_line"] = clean(str(why["lines"][0]["text"]), LABEL_CHARS)
    return said


def _place(finding: Finding) -> str:
    place = finding.where.id
    return place if isinstance(place, str) else ", ".join(place)


def _seat(finding: Finding, topology: Topology | None) -> str:
    """Server, GPU and switch of the place, where the topology knows it: what whoever walks to the rack looks for."""
    for server in topology.servers if topology else ():
        for nic in server.nics:
            if nic.address == finding.where.id:
                gpu = "" if nic.gpu is None else f" GPU {nic.gpu}"
                return f"{server.name}{gpu}" + (f", {nic.switch}" if nic.switch else "")
    return ""


def _iso(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
