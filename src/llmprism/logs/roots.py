"""Which line started it: the root incidents of a failure, and the one nearest to the cause."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from llmprism.logs.incidents import Incident
from llmprism.logs.joblog import JobLog
from llmprism.logs.library import FaultRole
from llmprism.logs.members import LogMembers
from llmprism.logs.progress import NOT_YET_TRAINING
from llmprism.logs.rules import RULES, LogRules
from llmprism.logs.shapes import ShapeFlag
from llmprism.model.log import CauseClass

__all__ = [
    "actors_with",
    "began_with_waiting",
    "choose_root",
    "has_complaints",
    "is_launcher_line",
    "is_widespread",
    "node_of",
    "own_roots",
    "when",
]

_EXIT_ONLY: Final = frozenset(
    {"node.sigkill", "node.segfault", "node.bus_error", "node.fpe", "node.illegal_instruction"}
)
"""Entries that may come from a launcher's report of an exit code: true, but a better word on the cause wins."""

_REPORT_TAIL: Final = 3
"""Lines of a launcher's report after the one with the exit code: torchrun's `error_file` and `traceback`."""


def own_roots(
    terminal: list[Incident], first_ends: set[tuple[int, int]], log: JobLog, rules: LogRules = RULES
) -> list[Incident]:
    """Root incidents that are not preceded, in the words of the same actor, by a complaint about others.

    What an exception goes on to say in its next lines (NCCL's `Last error:`) is its reason, not a second word.
    A launcher's report of a signal counts only for the processes that ended first: it kills the others itself.
    """
    complained: dict[int, Incident] = {}
    roots: list[Incident] = []
    for incident in sorted(terminal, key=lambda i: (i.actor, i.file, i.line)):
        key = incident.actor if incident.actor >= 0 else -1 - incident.writer
        if incident.role is FaultRole.CASCADE and incident.proves_failure and not is_launcher_line(incident):
            complained.setdefault(key, incident)
        if not incident.is_root or (incident.fault and not incident.proves_failure):
            continue
        if first_ends and _signature(incident) in _EXIT_ONLY and not _near_first_end(incident, first_ends):
            continue
        earlier = complained.get(key)
        hardware = (
            incident.fault is not None and incident.fault.cause.value.startswith("hardware") and not incident.fault.echo
        )
        if earlier is None or hardware or earlier.file != incident.file or _goes_on(earlier, incident, log, rules):
            roots.append(incident)
    return roots


def _goes_on(complaint: Incident, incident: Incident, log: JobLog, rules: LogRules) -> bool:
    """Whether a root line belongs to the message of the exception that complained right before it."""
    said = log.shapes[complaint.shape].flags & ShapeFlag.EXCEPTION
    again = log.shapes[incident.shape].flags & ShapeFlag.EXCEPTION
    near = (incident.line - complaint.line) * _share(incident, log) <= rules.message_lines
    return bool(said) and not again and near and incident.fault is not None and not incident.fault.echo


def _near_first_end(incident: Incident, first_ends: set[tuple[int, int]]) -> bool:
    return any(file == incident.file and 0 <= incident.line - line <= _REPORT_TAIL for file, line in first_ends)


def actors_with(root: Incident, terminal: list[Incident]) -> set[int]:
    """Every actor that says the same, also those that complained of others before."""
    return {i.actor for i in terminal if i.actor >= 0 and _signature(i) == _signature(root)}


def is_launcher_line(incident: Incident) -> bool:
    return incident.fault is not None and incident.fault.id.startswith(("launch.", "sched.", "k8s.", "ray.actor_died"))


def has_complaints(terminal: list[Incident]) -> bool:
    return any(i.role is FaultRole.CASCADE and i.proves_failure and not is_launcher_line(i) for i in terminal)


def began_with_waiting(terminal: list[Incident], members: LogMembers) -> bool:
    """Whether everybody complains, and the first of them that he waited in vain.

    A process that ends closes its connections, so a closed connection needs a process that ended before. Where all
    ranks say nothing but that they waited or that a connection was closed, the first to end was one that gave up
    waiting, unless the times of the lines say that a connection was closed before that.
    """
    first: dict[int, Incident] = {}
    for incident in terminal:
        if incident.proves_failure and incident.actor >= 0 and not is_launcher_line(incident):
            first.setdefault(incident.actor, incident)
    ranks = max((actor.rank for actor in members.actors if actor.rank is not None), default=-1) + 1
    if len(first) < max(len(members.actors), ranks, 1):
        return False
    faults = [incident.fault for incident in first.values()]
    if not all(fault is not None and (fault.hang or fault.closed) for fault in faults):
        return False
    timed = min((one for one in first.values() if one.timed), key=when, default=None)
    earliest = faults if timed is None else [timed.fault]
    return any(fault is not None and fault.hang for fault in earliest)


def _signature(incident: Incident) -> str:
    return incident.fault.id if incident.fault else f"exception {incident.exception}"


def choose_root(roots: list[Incident], log: JobLog, rules: LogRules = RULES) -> tuple[Incident, set[int]]:
    """The root signature nearest to the cause, and the actors it hit.

    Nearer: no echo; not a launcher's report of an exit when something better is known; near the end of what its writer
    wrote (what a process survives it writes on after); the first of a chain; heavier; the earliest.
    """
    groups: dict[str, list[Incident]] = defaultdict(list)
    for incident in roots:
        groups[_signature(incident)].append(incident)

    def order(incidents: list[Incident]) -> tuple[bool, bool, bool, bool, bool, float, int]:
        first = min(incidents, key=when)
        fault = first.fault
        return (
            fault is not None and fault.echo,
            "exitcode" in _signature(first) or _signature(first) in _EXIT_ONLY,
            fault is None and not any(i.actor >= 0 for i in incidents),
            min(_lines_to_end(i, log) for i in incidents) > rules.chain_lines,
            _follows_in_chain(first, roots, log, rules),
            -(fault.weight if fault else rules.unknown_weight),
            when(first)[1],
        )

    best = min(groups.values(), key=order)
    hit = {i.actor for i in best if i.actor >= 0}
    return min(best, key=when), hit


def _share(incident: Incident, log: JobLog) -> float:
    """The writer's share of its file's lines, to turn distances in the file into lines of the writer."""
    return float(log.writer_lines[incident.writer]) / max(float(log.file_lines[incident.file]), 1.0)


def _lines_to_end(incident: Incident, log: JobLog) -> float:
    """How many lines, about, the writer still wrote after this one."""
    return float(log.writer_last_line[incident.writer] - incident.line) * _share(incident, log)


def _follows_in_chain(first: Incident, roots: list[Incident], log: JobLog, rules: LogRules) -> bool:
    """Whether another root of the same writer came shortly before (chained exceptions print the innermost first).

    A known line that is no exception itself belongs to the message of the unknown exception right before it.
    """
    reach = rules.chain_lines / max(_share(first, log), 1e-9)
    before = [r for r in roots if r.writer == first.writer and 0 < first.line - r.line <= reach]
    if first.fault is not None and not log.shapes[first.shape].flags & ShapeFlag.EXCEPTION:
        near = rules.message_lines / max(_share(first, log), 1e-9)
        before = [r for r in before if r.fault is not None or first.line - r.line > near]
    return bool(before)


def when(incident: Incident) -> tuple[bool, int, int, int]:
    return (incident.time_ns == 0, incident.time_ns, incident.file, incident.line)


def is_widespread(
    hit: set[int], log: JobLog, members: LogMembers, root: Incident, complaining: set[int], rules: LogRules = RULES
) -> bool:
    """Whether a root hits everyone. `complaining`: the actors that speak of failure at all."""
    actors = len(members.actors)
    if hit:
        if len(hit) < 2 or len(hit) <= rules.widespread_share * actors:
            return not complaining - hit and _deterministic_start(root, hit, members, rules)
        nodes = {members.actors[a].node for a in hit}
        return not (len(nodes) == 1 and len(members.nodes) > 2)
    if root.fault is not None and root.fault.node_wide and node_of(log, root):
        return False
    return int(log.count[root.shape]) > 1


def _deterministic_start(root: Incident, hit: set[int], members: LogMembers, rules: LogRules) -> bool:
    """A configuration error before training that a launcher cut short on the other ranks is still everyone's.

    Ranks that waited for this one and complained of that had not met the error themselves.
    """
    early = root.stage in NOT_YET_TRAINING
    cause = root.fault.cause if root.fault else None
    settings = cause in (CauseClass.USER_CONFIG, CauseClass.USER_CODE)
    return early and settings and len(hit) > rules.few_share * len(members.actors) and len(members.actors) > 1


def node_of(log: JobLog, incident: Incident) -> str | None:
    return log.writers[incident.writer].identity.node or log.file_identity[incident.file].node
