"""Who is to blame: the rank with a cause of its own, the peer that others name, the one that is silent, or nobody.

The order of belief:

1. A *root* line of an actor that did not complain of others before it. If most actors have it, it hits everyone and
   accuses nobody; if a minority has it, they are the suspects, the earliest first.
2. Some root lines are echoes: ranks print them when a peer dies inside a collective. When most ranks echo and a few
   are silent, the silent ones are the suspects.
3. With nothing but complaints (time-outs, closed connections): a peer that is named, the actors that are silent while
   the others complain, or the one whose last work number lies behind the others'.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.logs.cast import Cast
from llmprism.logs.incidents import Incident
from llmprism.logs.joblog import JobLog
from llmprism.logs.library import FaultRole
from llmprism.model.log import CauseClass, Stage, Suspect

__all__ = ["Blame", "find_blame"]

Accused = int | str
"""An actor's number, or an address that belongs to nobody known."""

WIDESPREAD_SHARE: Final = 0.5
"""Share of the actors above which a fault hits everyone."""

_MIN_ACCUSER_SHARE: Final = 0.5
"""Share of all accusations that must name the same actor for it to be a suspect by hearsay alone."""

_MAX_SUSPECTS: Final = 8
CHAIN_LINES: Final = 80
"""Lines of one writer within which exceptions are one chain, and from its end within which one ended it: a launcher's
report after the exception has some 40 lines, a long stack some 60."""


@dataclass(frozen=True, slots=True)
class Blame:
    """`root`: the incident that started it, None where nobody spoke of a cause. `silent`: the suspects said nothing."""

    root: Incident | None
    suspects: tuple[Suspect, ...]
    silent: bool = False
    widespread: bool = False


def find_blame(log: JobLog, cast: Cast, terminal: list[Incident]) -> Blame:
    """The root and the suspects among terminal incidents (in order of time)."""
    roots = _own_roots(terminal)
    complaining = {i.actor for i in terminal if i.actor >= 0 and i.proves_failure}
    silent = [actor for actor in range(len(cast.actors)) if actor not in complaining]
    if roots:
        chosen, hit = _choose_root(roots, log)
        echoes = chosen.fault is not None and chosen.fault.echo and len(_all_hit(chosen, terminal)) > 1
        if echoes and silent and _complaints(terminal):
            return _blame_by_others(log, cast, terminal, silent, _accused(log, cast, terminal))
        if chosen.fault is not None and chosen.fault.accuses:
            named = _accused(log, cast, terminal)
            if named.total():
                return Blame(chosen, _named_suspects(named, cast))
        wide = _is_widespread(hit, log, cast, chosen)
        if not wide and hit:
            return Blame(chosen, _root_suspects(chosen, hit, roots, cast))
        return Blame(chosen, () if wide else _unattributed(chosen, log, cast), widespread=wide)
    hearsay = _accused(log, cast, terminal)
    return _blame_by_others(log, cast, terminal, silent, hearsay)


def _own_roots(terminal: list[Incident]) -> list[Incident]:
    """Root incidents that are not preceded, in the words of the same actor, by a complaint about others."""
    complained: dict[int, Incident] = {}
    roots: list[Incident] = []
    for incident in sorted(terminal, key=lambda i: (i.actor, i.file, i.line)):
        key = incident.actor if incident.actor >= 0 else -1 - incident.writer
        if incident.role is FaultRole.CASCADE and incident.proves_failure and not _is_report(incident):
            complained.setdefault(key, incident)
        if not incident.is_root or (incident.fault and not incident.proves_failure):
            continue
        earlier = complained.get(key)
        hardware = (
            incident.fault is not None and incident.fault.cause.value.startswith("hardware") and not incident.fault.echo
        )
        if earlier is None or hardware or earlier.file != incident.file:
            roots.append(incident)
    return roots


def _all_hit(root: Incident, terminal: list[Incident]) -> set[int]:
    """Every actor that says the same, also those that complained of others before."""
    return {i.actor for i in terminal if i.actor >= 0 and _signature(i) == _signature(root)}


def _is_report(incident: Incident) -> bool:
    return incident.fault is not None and incident.fault.id.startswith(("launch.", "sched.", "k8s."))


def _complaints(terminal: list[Incident]) -> bool:
    return any(i.role is FaultRole.CASCADE and i.proves_failure and not _is_report(i) for i in terminal)


def _signature(incident: Incident) -> str:
    return incident.fault.id if incident.fault else f"exception {incident.exception}"


def _choose_root(roots: list[Incident], log: JobLog) -> tuple[Incident, set[int]]:
    """The root signature nearest to the cause, and the actors it hit.

    Nearer: no echo; not a launcher's report of an exit when something better is known; near the end of what its writer
    wrote (what a process survives it writes on after); the first of a chain; heavier; the earliest.
    """
    groups: dict[str, list[Incident]] = defaultdict(list)
    for incident in roots:
        groups[_signature(incident)].append(incident)

    def rank(incidents: list[Incident]) -> tuple[bool, bool, bool, bool, bool, float, int]:
        first = min(incidents, key=_when)
        fault = first.fault
        return (
            fault is not None and fault.echo,
            "exitcode" in _signature(first) or _signature(first) in _EXIT_ONLY,
            fault is None and not any(i.actor >= 0 for i in incidents),
            min(_lines_to_end(i, log) for i in incidents) > CHAIN_LINES,
            _follows_in_chain(first, roots, log),
            -(fault.weight if fault else 0.9),
            _when(first)[1],
        )

    best = min(groups.values(), key=rank)
    hit = {i.actor for i in best if i.actor >= 0}
    return min(best, key=_when), hit


_EXIT_ONLY: Final = frozenset(
    {"node.sigkill", "node.segfault", "node.bus_error", "node.fpe", "node.illegal_instruction"}
)
"""Entries that may come from a launcher's report of an exit code: true, but a better word on the cause wins."""


def _share(incident: Incident, log: JobLog) -> float:
    """The writer's share of its file's lines, to turn distances in the file into lines of the writer."""
    return float(log.writer_lines[incident.writer]) / max(float(log.file_lines[incident.file]), 1.0)


def _lines_to_end(incident: Incident, log: JobLog) -> float:
    """How many lines, about, the writer still wrote after this one."""
    return float(log.writer_last_line[incident.writer] - incident.line) * _share(incident, log)


def _follows_in_chain(first: Incident, roots: list[Incident], log: JobLog) -> bool:
    """Whether another root of the same writer came shortly before (chained exceptions print the innermost first)."""
    reach = CHAIN_LINES / max(_share(first, log), 1e-9)
    return any(r.writer == first.writer and 0 < first.line - r.line <= reach for r in roots)


def _when(incident: Incident) -> tuple[bool, int, int, int]:
    return (incident.time_ns == 0, incident.time_ns, incident.file, incident.line)


def _is_widespread(hit: set[int], log: JobLog, cast: Cast, root: Incident) -> bool:
    actors = len(cast.actors)
    if hit:
        if len(hit) < 2 or len(hit) <= WIDESPREAD_SHARE * actors:
            return _deterministic_start(root, hit, cast)
        nodes = {cast.actors[a].node for a in hit}
        all_nodes = cast.nodes
        return not (len(nodes) == 1 and len(all_nodes) > 2)
    if root.fault is not None and root.fault.node_wide and _node_of(log, root):
        return False
    return int(log.count[root.shape]) > 1


def _deterministic_start(root: Incident, hit: set[int], cast: Cast) -> bool:
    """A configuration error before training that a launcher cut short on the other ranks is still everyone's."""
    early = root.stage in (Stage.LAUNCH, Stage.INIT, Stage.DATA, Stage.UNKNOWN)
    cause = root.fault.cause if root.fault else None
    settings = cause in (CauseClass.USER_CONFIG, CauseClass.USER_CODE)
    return early and settings and len(hit) > 0.25 * len(cast.actors) and len(cast.actors) > 1


def _root_suspects(root: Incident, hit: set[int], roots: list[Incident], cast: Cast) -> tuple[Suspect, ...]:
    firsts = {actor: min((i for i in roots if i.actor == actor), key=_when) for actor in hit}
    ordered = sorted(hit, key=lambda actor: _when(firsts[actor]))
    what = root.fault.summary if root.fault else f"{root.exception}"
    suspects = []
    for place, actor in enumerate(ordered[:_MAX_SUSPECTS]):
        score = round(0.95 * 0.8**place, 3)
        suspects.append(
            Suspect(cast.actors[actor].rank, cast.actors[actor].node, score, f"{what}; the others only complain of it")
        )
    return tuple(suspects)


def _node_of(log: JobLog, incident: Incident) -> str | None:
    return log.writers[incident.writer].identity.node or log.file_identity[incident.file].node


def _unattributed(root: Incident, log: JobLog, cast: Cast) -> tuple[Suspect, ...]:
    """A root line of nobody known: a kernel log names its node; a launcher's report may name the only failed rank."""
    node = _node_of(log, root)
    if root.fault and root.fault.node_wide and node:
        return (Suspect(None, node, 0.8, f"{root.fault.summary} (in the log of the node)"),)
    named = {(report.rank, report.node) for report in cast.exits if report.exit_code not in (None, -15, -6)}
    if len(named) == 1 and int(log.count[root.shape]) == 1:
        rank, host = next(iter(named))
        return (Suspect(rank, host, 0.6, "the launcher names it as the first and only failure"),)
    return ()


_PEER_ADDRESS: Final = re.compile(r"(?:from|to|peer)\s+\[?(\d+\.\d+\.\d+\.\d+)")
_PEER_RANK: Final = re.compile(r"(?:remote rank:? ?\[?|peer rank |from peer |[Rr]anks? )(\d+(?:, ?\d+)*)")


def _accused(log: JobLog, cast: Cast, terminal: list[Incident]) -> Counter[Accused]:
    """How often each actor, or address of nobody known, is named by others; one vote per accuser."""
    votes: Counter[Accused] = Counter()
    seen: set[tuple[int, Accused]] = set()
    shapes = {i.shape for i in terminal if i.fault and i.fault.accuses}
    by_rank = cast.by_rank
    for row, text in log.texts.items():
        if int(log.rows.shape[row]) not in shapes:
            continue
        accuser = int(cast.actor_of_writer[log.rows.writer[row]])
        named: set[Accused] = set()
        if match := _PEER_ADDRESS.search(text):
            named.add(cast.address_actor.get(match[1], match[1]))
        elif match := _PEER_RANK.search(text):
            named |= {by_rank[int(r)] for r in re.split(r", ?", match[1]) if int(r) in by_rank}
        for actor in named - {accuser}:
            if (accuser, actor) not in seen:
                seen.add((accuser, actor))
                votes[actor] += 1
    return votes


def _named_suspects(votes: Counter[Accused], cast: Cast) -> tuple[Suspect, ...]:
    """Those that are named, the most often named first; only the leaders when they stand out."""
    most = max(votes.values())
    leaders = [who for who, count in votes.items() if count == most][:_MAX_SUSPECTS]
    suspects = []
    for who in leaders:
        rank, node = (cast.actors[who].rank, cast.actors[who].node) if isinstance(who, int) else (None, who)
        why = f"named as the peer that does not answer by {most} of those that complain"
        suspects.append(Suspect(rank, node, round(0.8 / len(leaders), 3), why))
    return tuple(suspects)


def _blame_by_others(
    log: JobLog, cast: Cast, terminal: list[Incident], silent: list[int], hearsay: Counter[Accused]
) -> Blame:
    actors = len(cast.actors)
    complaints = [i for i in terminal if i.proves_failure and i.actor >= 0]
    if actors < 2 or not complaints:
        return Blame(None, ())
    killed = [cast.by_rank[r.rank] for r in cast.killed_first() if r.rank is not None and r.rank in cast.by_rank]
    if killed and len(killed) <= WIDESPREAD_SHARE * actors:
        return Blame(None, _silent_suspects(cast, killed, hearsay), silent=True)
    quiet = _truly_silent(log, cast, silent, complaints)
    if quiet and len(quiet) < WIDESPREAD_SHARE * actors:
        ordered = sorted(quiet, key=lambda a: (-hearsay[a], _last_word(log, cast, a)))
        return Blame(None, _silent_suspects(cast, ordered, hearsay), silent=True)
    behind = _behind(cast)
    if behind is not None:
        actor, own, others = behind
        why = f"its last work was {own} while the others had enqueued {others}: it did not enter the collective"
        return Blame(None, (Suspect(cast.actors[actor].rank, cast.actors[actor].node, 0.7, why),), silent=True)
    if hearsay.total() and max(hearsay.values()) >= _MIN_ACCUSER_SHARE * hearsay.total():
        return Blame(None, _named_suspects(hearsay, cast))
    odd = _odd_one_out(cast, complaints)
    if odd is not None:
        why = "what it says at the end differs from what all the others say"
        return Blame(None, (Suspect(cast.actors[odd].rank, cast.actors[odd].node, 0.5, why),))
    return Blame(None, ())


def _odd_one_out(cast: Cast, complaints: list[Incident]) -> int | None:
    """The one actor whose set of complaints is far from the others', who agree: median distances, robust from 3 on."""
    said: dict[int, set[str]] = defaultdict(set)
    for incident in complaints:
        if not _is_report(incident):
            said[incident.actor].add(_signature(incident))
    if len(said) < 3 or len(said) < WIDESPREAD_SHARE * len(cast.actors):
        return None
    names = sorted({name for own in said.values() for name in own})
    actors = sorted(said)
    table = np.array([[name in said[actor] for name in names] for actor in actors], dtype=np.float64)
    common = np.median(table, axis=0)
    distance = np.abs(table - common).sum(axis=1)
    order = np.argsort(-distance, kind="stable")
    first, second = distance[order[0]], distance[order[1]]
    if first >= 1 and second == 0:
        return actors[int(order[0])]
    return None


def _silent_suspects(cast: Cast, ordered: list[int], hearsay: Counter[Accused]) -> tuple[Suspect, ...]:
    suspects = []
    for place, actor in enumerate(ordered[:_MAX_SUSPECTS]):
        named = f", and {hearsay[actor]} ranks name it" if hearsay[actor] else ""
        why = f"it fell silent without a word of error while the others complain{named}"
        suspects.append(Suspect(cast.actors[actor].rank, cast.actors[actor].node, round(0.85 * 0.8**place, 3), why))
    return tuple(suspects)


def _truly_silent(log: JobLog, cast: Cast, silent: list[int], complaints: list[Incident]) -> list[int]:
    """Silent actors that had been writing as much as the others before, so that their silence means something.

    Before training one that never wrote much is just as telling: it did not come up.
    """
    if all(i.stage in (Stage.LAUNCH, Stage.INIT, Stage.DATA, Stage.UNKNOWN) for i in complaints):
        return silent
    lines = np.zeros(len(cast.actors), dtype=np.int64)
    for writer, actor in enumerate(cast.actor_of_writer.tolist()):
        if actor >= 0:
            lines[actor] += int(log.writer_lines[writer])
    complaining = [i.actor for i in complaints]
    typical = float(np.median(lines[complaining])) if complaining else 0.0
    return [actor for actor in silent if lines[actor] >= 0.2 * typical]


def _last_word(log: JobLog, cast: Cast, actor: int) -> int:
    writers = np.flatnonzero(cast.actor_of_writer == actor)
    return int(log.writer_last_ns[writers].max()) if writers.size else 0


def _behind(cast: Cast) -> tuple[int, int, int] | None:
    """The one actor whose last enqueued work lies behind that of all the others."""
    if len(cast.last_enqueued) < 2:
        return None
    values = sorted(cast.last_enqueued.values())
    if values[0] < values[1] and values[1] >= values[-1] - 1:
        actor = min(cast.last_enqueued, key=lambda a: cast.last_enqueued[a])
        return actor, values[0], values[-1]
    return None
