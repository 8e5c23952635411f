"""Lines of logs that can be about the cause of a flow finding: by their kind of trouble, their time and their place.

A line counts if its kind of trouble can do that to that kind of place, if it is from that place (the rank, or its
host), and if it was written from a little before the finding began until it ended. Consequences (`cascade`) never
count.
"""

from __future__ import annotations

from typing import Final

from llmprism.logs.notable import NotableLine
from llmprism.model.finding import Finding, FindingKind
from llmprism.verdict.case import Case
from llmprism.verdict.seats import short_host

__all__ = ["addresses_of", "lines_about"]

_CAN_CAUSE: Final = {
    FindingKind.SLOW_GPU: ("hardware.gpu", "hardware.nvlink", "hardware.node", "storage", "platform"),
    FindingKind.SLOW_NIC: ("hardware.nic", "network"),
    FindingKind.SLOW_LINK: ("hardware.nic", "network"),
    FindingKind.SLOW_SWITCH: ("network",),
    FindingKind.SLOW_GROUP: ("hardware", "network"),
    FindingKind.CONGESTION: ("network",),
    FindingKind.SLOW_STORAGE: ("storage",),
    FindingKind.STALL: ("hardware", "network", "storage", "platform"),
    FindingKind.SLOW_STEP: ("hardware", "network", "storage", "platform"),
    FindingKind.HANG: ("hardware", "network", "storage", "platform"),
    FindingKind.CRASH: ("hardware", "network", "storage", "platform"),
}
"""Classes of causes, whole or by family, that can be behind each kind of finding."""


def lines_about(case: Case, finding: Finding) -> list[int]:
    """Indices of the lines of a case that can be about the cause of a finding."""
    return [at for at, line in enumerate(case.view.lines) if _bears(case, line, finding)]


def _bears(case: Case, line: NotableLine, finding: Finding) -> bool:
    """Whether a line can be about the cause of a finding: its kind of trouble, its time, its place."""
    if line.late or line.cause is None or line.role == "cascade":
        return False
    family = line.cause.split(".", 1)[0]
    if not {line.cause, family} & set(_CAN_CAUSE.get(finding.kind, ())):
        return False
    when, rules = case.line_time(line), case.rules.slowness
    end = finding.end_ns if finding.end_ns is not None else case.report.window.end_ns
    if when is not None and not finding.start_ns - rules.before_ns <= when <= end + rules.after_ns:
        return False
    wanted = case.address_of(finding)
    if wanted is None:
        return when is not None
    return wanted in addresses_of(case, line) and (when is not None or line.cause.startswith("hardware"))


def addresses_of(case: Case, line: NotableLine) -> set[str]:
    """Addresses that a line can be about: its rank's, or all of its host's."""
    address, _ = case.line_address(line)
    found = {address} if address is not None else set()
    servers = case.report.topology.server_of() if case.report.topology else {}
    hosts = {short_host(line.node)} if line.node else set()
    if address is not None and line.cause is not None and line.cause.startswith(("hardware.node", "storage")):
        hosts.add(short_host(servers.get(address, "")))
    found |= {one for one, server in servers.items() if short_host(server) in hosts}
    return found
