"""Does what the service says after `service_chaos` agree with what was planned? Every sentence is a fault of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from chaos_jobs import SECOND, Fault, FaultKind, ScheduledJob
from chaos_plan import Plan, Role, Tenant

__all__ = ["memory_grows", "wrong_counts", "wrong_findings"]

KINDS: Final = {
    FaultKind.HANG: ("hang", "stall"),
    FaultKind.CRASH: ("crash", "hang"),
    FaultKind.SLOW: ("slow_nic",),
}
"""What a fault may be called."""

START_S: Final = 4.0
"""How far a finding's start may lie from the fault's: a stop is laid at the next exchange, a slow NIC at the next step.
"""

END_S: Final = 10.0
TURNED_AWAY: Final = ("overload", "no_disk")
"""Reasons for which a push is refused; its sender sends it again."""

CLOSES_S: Final = 60.0
"""A finding closes so long after the end of its fault, at the latest; files of a minute are another 75 s late."""

GROWTH: Final = 1.25
GROWTH_MB: Final = 60


def wrong_counts(plan: Plan, sources: list[dict[str, Any]], in_topic: int) -> Iterator[str]:
    """For every source: received = stored + dropped by reason, and nothing that was sent is missing. `in_topic` is how
    many records Kafka took."""
    by_name = {one["name"]: one for one in sources}
    for name, one in by_name.items():
        if one.get("received", 0) != one.get("stored", 0) + sum(one["dropped"].values()):
            yield f"{name}: received {one.get('received', 0)} is not stored + dropped ({one})"
    sent: dict[str, int] = {}
    for tenant in plan.tenants:
        prefix = {Role.KAFKA: "kafka:", Role.FILES: "directory:"}.get(tenant.role, f"http:{tenant.name}")
        name = next((one for one in by_name if one.startswith(prefix)), prefix)
        sent[name] = sent.get(name, 0) + tenant.sent
        if tenant.role in (Role.STEADY, Role.AWAY, Role.FILES):
            lost = {why: count for why, count in _kept_out(by_name.get(name, {})).items() if count}
            if lost:
                yield f"{tenant.name}: its clock is right, and records of it were dropped: {lost}"
    for name, count in sent.items():
        one = by_name.get(name, {"dropped": {}})
        wanted = in_topic if name.startswith("kafka:") else count
        counted = one.get("stored", 0) + sum(_kept_out(one).values())
        if counted != wanted:
            yield f"{name}: {wanted} records were sent, {counted} are counted ({one})"


def _kept_out(source: dict[str, Any]) -> dict[str, int]:
    return {why: count for why, count in source.get("dropped", {}).items() if why not in TURNED_AWAY}


def wrong_findings(
    plan: Plan,
    runs: list[dict[str, Any]],
    findings: list[dict[str, Any]],
    begin_ns: int,
    job_of: Callable[[str], str] = lambda address: address.split("-gpu")[0],
    until_s: float = float("inf"),
) -> Iterator[str]:
    """Every planted fault was opened and closed once, at its time and place; nobody else has any finding. Jobs whose
    own clock moved are not judged: a jump is a gap in their own time. `job_of` gives the job of an address.
    A run that was ended at `until_s` is judged up to a minute before that."""
    jobs = {job.name: (tenant, job) for tenant in plan.tenants for job in tenant.jobs}
    name_of = {run["id"]: job_of(run["members"][0]) for run in runs}
    by_job: dict[str, list[dict[str, Any]]] = {name: [] for name in jobs}
    for finding in findings:
        name = name_of.get(finding["job"], "")
        if name not in jobs:
            yield f"a finding about no job that there is: {_line(finding, begin_ns)}"
        else:
            by_job[name].append(finding)
    for name, found in by_job.items():
        tenant, job = jobs[name]
        if tenant.role is not Role.CLOCK:
            yield from _wrong_in(
                tenant, job, found, begin_ns, until_s - (CLOSES_S if tenant.role is not Role.FILES else 2.5 * CLOSES_S)
            )
    seen = set(name_of.values())
    late = until_s - CLOSES_S
    yield from (f"{name} was never seen" for name, (_, job) in jobs.items() if name not in seen and job.comes_s < late)


def _wrong_in(
    tenant: Tenant, job: ScheduledJob, found: list[dict[str, Any]], begin_ns: int, until_s: float
) -> Iterator[str]:
    rest = [one for one in found if (one["start_ns"] - begin_ns) / SECOND < until_s]
    for fault in (one for one in job.faults if one.end_s < until_s):
        mine = [one for one in rest if _is(one, fault, job, begin_ns)]
        rest = [one for one in rest if one not in mine]
        reported = "; ".join(_line(one, begin_ns) for one in mine or found) or "nothing"
        if len(mine) != 1:
            yield f"{job.name} ({tenant.role}): {_planned(fault)} was opened {len(mine)} times ({reported})"
        elif mine[0]["phase"] != "closed" or abs((mine[0]["end_ns"] - begin_ns) / SECOND - fault.end_s) > END_S:
            yield f"{job.name} ({tenant.role}): {_planned(fault)} was not closed in time ({reported})"
    begun = [one for one in job.faults if one.end_s >= until_s]
    for one in rest:
        if any(_is(one, fault, job, begin_ns) for fault in begun):
            continue
        yield f"{job.name} ({tenant.role}) is healthy then and has a finding: {_line(one, begin_ns)}"


def _is(finding: dict[str, Any], fault: Fault, job: ScheduledJob, begin_ns: int) -> bool:
    late = (finding["start_ns"] - begin_ns) / SECOND - fault.at_s
    if finding["kind"] not in KINDS[fault.kind] or not -1.0 <= late <= START_S:
        return False
    return fault.kind is not FaultKind.SLOW or finding["where"]["id"] == job.address(fault.gpu)


def _planned(fault: Fault) -> str:
    return f"a {fault.kind} from {fault.at_s:.0f} to {fault.end_s:.0f} s"


def _line(finding: dict[str, Any], begin_ns: int) -> str:
    start = (finding["start_ns"] - begin_ns) / SECOND
    end = "" if finding["end_ns"] is None else f" to {(finding['end_ns'] - begin_ns) / SECOND:.1f}"
    return f"{finding['kind']} {finding['where']['id']} {finding['phase']} from {start:.1f}{end} s"


def memory_grows(samples: list[int]) -> bool:
    """Of one process that was not killed, in MB."""
    half = len(samples) // 2
    return bool(half) and max(samples[half:]) > GROWTH * max(samples[:half]) + GROWTH_MB
