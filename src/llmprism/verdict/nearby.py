"""Lines of logs that can be about the cause of a flow finding: by their kind of trouble, their time and their place.

A line counts if its kind of trouble can do that to that kind of place, if it is from that place (the rank, or its
host), and if it was written from a little before the finding began until it ended. Consequences (`cascade`) never
count. It must also stand out: logs are full of errors that mean nothing, and lines that other ranks write as well,
which are not slow, do not explain why this one is; where others write of other trouble, only lines of the class that
the kind of finding implies count. Where a finding has no place, lines count if they are of one place only, or all about
one shared thing (storage, network, platform).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from llmprism.logs.notable import NotableLine
from llmprism.model.finding import Finding, FindingKind
from llmprism.verdict.case import CLASS_OF_KIND, JobCase
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

_SHARED: Final = (FindingKind.SLOW_LINK, FindingKind.SLOW_SWITCH, FindingKind.CONGESTION, FindingKind.SLOW_STORAGE)
"""Findings about what many ranks use: their lines come from any of them."""

_KIND_CHARS: Final = 60
"""Beginning of a line that the library does not know, by which two are of one kind."""

_SHARED_FAMILIES: Final = frozenset({"storage", "network", "platform"})
"""Causes that everybody may write of."""


def lines_about(case: JobCase, finding: Finding) -> list[int]:
    """Indices of the lines of a case that can be about the cause of a finding and stand out there."""
    written = {at: line for at, line in enumerate(case.view.lines) if _in_time(case, line, finding)}
    able = {at: line for at, line in written.items() if _can_cause(line, finding.kind)}
    places = {at: addresses_of(case, line) for at, line in written.items()}
    wanted = case.address_of(finding)
    if wanted is not None:
        found, noisy = _standing_out(case, written, places, wanted)
        usual = CLASS_OF_KIND.get(finding.kind) if noisy else None
        return [
            at
            for at in found
            if at in able
            and (usual is None or able[at].cause == usual)
            and (case.line_time(able[at]) is not None or str(able[at].cause).startswith("hardware"))
        ]
    timed = {at: line for at, line in able.items() if case.line_time(line) is not None}
    if finding.kind in _SHARED:
        return sorted(timed)
    return _without_place(case, finding, timed, places)


def _without_place(
    case: JobCase, finding: Finding, lines: dict[int, NotableLine], places: dict[int, set[str]]
) -> list[int]:
    """Lines about a finding that has no place: of one place only, or about something shared that many write of."""
    writers, noise = _writers(lines, places), case.rules.slowness.noise
    many = {kind for kind, some in writers.items() if _chance(len(some), _seated(case)) > noise}
    single = [at for at, line in lines.items() if places[at] and _kind(line) not in many]
    if single:
        one_place = set.intersection(*(places[at] for at in single))
        return [at for at in single if at in _standing_out(case, lines, places, min(one_place))[0]] if one_place else []
    began = finding.start_ns - case.slack_ns - case.clock_error_ns
    recent = [at for at, line in lines.items() if not places[at] or (case.line_time(line) or 0) >= began]
    families = {str(lines[at].cause).split(".", 1)[0] for at in recent}
    return recent if len(families) == 1 and families <= _SHARED_FAMILIES else []


def _can_cause(line: NotableLine, kind: FindingKind) -> bool:
    """Whether that kind of trouble can do that to that kind of place."""
    if line.cause is None:
        return False
    family = line.cause.split(".", 1)[0]
    return bool({line.cause, family} & set(_CAN_CAUSE.get(kind, ())))


def _in_time(case: JobCase, line: NotableLine, finding: Finding) -> bool:
    """Whether a line that is no consequence was written while a finding lasted, or shortly before.

    Flows know to a step when something began, so that what was written many steps before did not cause it; unless it
    began before the flows did.
    """
    if line.late or line.role == "cascade":
        return False
    when, rules = case.line_time(line), case.rules.slowness
    if when is None:
        return True
    begin = finding.start_ns - rules.sign_steps * case.step_ns - case.clock_error_ns
    if finding.start_ns <= case.begin_ns + case.slack_ns:
        begin = finding.start_ns - rules.before_ns
    end = finding.end_ns if finding.end_ns is not None else case.report.window.end_ns
    return begin <= when <= end + rules.after_ns


def _kind(line: NotableLine) -> str:
    return line.signature or line.text[:_KIND_CHARS]


def _standing_out(
    case: JobCase, lines: dict[int, NotableLine], places: dict[int, set[str]], place: str
) -> tuple[list[int], bool]:
    """Those about a place of kinds that few others write, if it, or its host, writes of clearly more such kinds.

    Second, whether others write something of their own as well. Lines that stopped the others do not count against it:
    they may be consequences.
    """
    own = [at for at in lines if place in places[at]]
    near = set().union(*(places[at] for at in own))
    others = {seat.address for seat in case.seats if seat.address is not None} - near
    if not own or not others:
        return own, False  # nobody to compare it with
    counted = {at: line for at, line in lines.items() if line.survived or place in places[at]}
    rare: dict[str, set[str]] = {where: set() for where in others | near}
    for kind, writers in _writers(counted, {at: _written_at(case, line) for at, line in counted.items()}).items():
        for where in writers & rare.keys():
            beyond = writers - (near if where in near else {where})
            if _chance(len(beyond), len(others)) <= case.rules.slowness.noise:
                rare[where].add(kind)
    loudest = max(len(rare[where]) for where in near)
    alike = sum(2 * len(rare[other]) >= loudest for other in others)
    if _chance(alike, len(others)) > case.rules.slowness.noise:
        return [], True
    kinds = set().union(*(rare[where] for where in near))
    noisy = _chance(sum(bool(rare[other]) for other in others), len(others)) > case.rules.slowness.noise
    return [at for at in own if _kind(lines[at]) in kinds], noisy


def _written_at(case: JobCase, line: NotableLine) -> set[str]:
    """The address of the rank that wrote a line; all of its host's where that is not known."""
    address, _ = case.line_address(line)
    return {address} if address is not None else addresses_of(case, line)


def _writers(lines: dict[int, NotableLine], places: dict[int, set[str]]) -> dict[str, set[str]]:
    """The places that write each kind of line."""
    writers: dict[str, set[str]] = defaultdict(set)
    for at, line in lines.items():
        writers[_kind(line)] |= places[at]
    return writers


def _seated(case: JobCase) -> int:
    return len({seat.address for seat in case.seats if seat.address is not None})


def _chance(some: int, of: int) -> float:
    """How often a place has such a line without cause, by the rule of succession."""
    return (some + 1) / (of + 2)


def addresses_of(case: JobCase, line: NotableLine) -> set[str]:
    """Addresses that a line can be about: its rank's, or all of its host's."""
    address, _ = case.line_address(line)
    found = {address} if address is not None else set()
    servers = case.report.topology.server_of() if case.report.topology else {}
    hosts = {short_host(line.node)} if line.node else set()
    if address is not None and line.cause is not None and line.cause.startswith(("hardware.node", "storage")):
        hosts.add(short_host(servers.get(address, "")))
    found |= {one for one, server in servers.items() if short_host(server) in hosts}
    return found
