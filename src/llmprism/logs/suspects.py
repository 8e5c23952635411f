"""Who is to blame: the rank with a cause of its own, the one whose end a launcher saw, the silent one, or nobody.

The order of belief:

1. A *root* line of an actor that did not complain of others before it. If most actors have it, it hits everyone and
   accuses nobody; if a minority has it, they are the suspects, the earliest first.
2. Some root lines are echoes: ranks print them when a peer dies inside a collective. When most ranks echo and a few
   are silent, the silent ones are the suspects.
3. With nothing but complaints (time-outs, closed connections): a process that a launcher saw die by itself, the actors
   that are silent while the others complain, those behind in their collectives, or a peer that is named.

How a complaint is worded accuses nobody: ranks of one job meet the same loss at different places of their code. What
is said once the job is being ended is no evidence either.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.logs.accusations import Accused, count_accusations
from llmprism.logs.incidents import Incident
from llmprism.logs.joblog import JobLog
from llmprism.logs.launcher_reports import ExitReport, Launcher, first_deaths
from llmprism.logs.members import LogMembers
from llmprism.logs.progress import NOT_YET_TRAINING
from llmprism.logs.roots import (
    actors_with,
    began_with_waiting,
    choose_root,
    has_complaints,
    is_launcher_line,
    is_widespread,
    node_of,
    own_roots,
    when,
)
from llmprism.logs.rules import RULES, LogRules
from llmprism.logs.sequences import Lag
from llmprism.logs.suspect_list import MAX_SUSPECTS, in_turn, suspect_actor
from llmprism.model.log import CauseClass, Suspect

__all__ = ["Blame", "Death", "find_blame", "without_teardown"]

FIRST_SIGNAL_CODE: Final = 128
"""Exit codes from here on are signals (a shell's convention)."""

_STORE_LOST: Final = "nccl.store_lost"


@dataclass(frozen=True, slots=True)
class Death:
    """A process whose end a launcher reports as the first. `actor` None: no lines of it are known."""

    report: ExitReport
    actor: int | None


@dataclass(frozen=True, slots=True)
class Blame:
    """`root`: the incident that started it, None where nobody spoke of a cause. `silent`: the suspects said nothing."""

    root: Incident | None
    suspects: tuple[Suspect, ...]
    silent: bool = False
    widespread: bool = False
    death: Death | None = None
    lagging: bool = False


def find_blame(
    log: JobLog,
    members: LogMembers,
    terminal: list[Incident],
    lags: list[Lag],
    step_ns: int | None = None,
    rules: LogRules = RULES,
) -> Blame:
    """The root and the suspects among terminal incidents (in order of time)."""
    terminal = without_teardown(terminal, step_ns, rules)
    deaths = find_deaths(members)
    roots = own_roots(terminal, {(death.report.file, death.report.line) for death in deaths}, log, rules)
    complaining = {i.actor for i in terminal if i.actor >= 0 and i.proves_failure and not is_launcher_line(i)}
    silent = [actor for actor in range(len(members.actors)) if actor not in complaining]
    heard = terminal
    if began_with_waiting(terminal, members):  # peers whose connections were closed had given up by then
        heard = [i for i in terminal if i.fault is not None and not i.fault.closed]
    accused = count_accusations(log, members, heard)
    if not roots:
        return _blame_without_root(log, members, terminal, silent, accused, lags, deaths, rules)
    chosen, hit = choose_root(roots, log, rules)
    if _outweighs(deaths, chosen, members, rules):
        return _blame_of_death(deaths, members, chosen, rules)
    echoes = chosen.fault is not None and chosen.fault.echo and len(actors_with(chosen, terminal)) > 1
    if echoes and (silent or lags) and has_complaints(terminal):
        found = _blame_without_root(log, members, terminal, silent, accused, lags, deaths, rules)
        if found.suspects or silent:
            return found
    if chosen.fault is not None and chosen.fault.accuses and accused.total():
        return Blame(chosen, _named_suspects(accused, members, rules.confidence.named))
    wide = is_widespread(hit, log, members, chosen, complaining, rules)
    if not wide and hit:
        return Blame(chosen, _root_suspects(chosen, hit, roots, members, rules))
    return Blame(chosen, () if wide else _unattributed(chosen, log, members, deaths, rules), widespread=wide)


def without_teardown(terminal: list[Incident], step_ns: int | None, rules: LogRules = RULES) -> list[Incident]:
    """The incidents without complaints that came when the job was already being ended.

    A line without a time of its own has that of the line before it: it came at that time or later.
    """
    times = [i.time_ns for i in terminal if i.proves_failure and i.timed]
    if not times:
        return terminal
    limit = min(times) + max(rules.teardown_ns, rules.teardown_steps * (step_ns or 0))
    return [i for i in terminal if i.time_ns <= limit or _names_a_cause(i)]


def _names_a_cause(incident: Incident) -> bool:
    """Whether a line counts whenever it comes: a root that the library knows and that is no echo, or a time-out.

    Time-outs of one loss come minutes apart: a neighbour sees the connection close at once, the others wait.
    """
    fault = incident.fault
    return fault is not None and ((incident.is_root and not fault.echo) or fault.hang)


def find_deaths(members: LogMembers) -> list[Death]:
    """The first ends that launchers report, with the actor each belongs to."""
    return [Death(report, actor_of_report(report, members)) for report in first_deaths(members.exits)]


def actor_of_report(report: ExitReport, members: LogMembers) -> int | None:
    if report.rank is not None and report.rank in members.by_rank:
        return members.by_rank[report.rank]
    if report.node is None:
        return None
    short = report.node.split(".")[0]
    if report.node in members.address_actor:
        return members.address_actor[report.node]
    on_node = [n for n, actor in enumerate(members.actors) if actor.node and actor.node.split(".")[0] == short]
    return on_node[0] if len(on_node) == 1 else None


def _outweighs(deaths: list[Death], root: Incident, members: LogMembers, rules: LogRules) -> bool:
    """Whether a death that a launcher saw is nearer to the cause than a root line of somebody else."""
    strong = [death for death in deaths if death.report.own_death]
    if not strong or len(strong) > max(rules.widespread_share * len(members.actors), 1):
        return False
    if root.actor < 0 or any(death.actor in (None, root.actor) for death in strong):
        return False
    return root.fault is None or root.fault.echo or root.fault.cause is CauseClass.NETWORK


def _root_suspects(
    root: Incident, hit: set[int], roots: list[Incident], members: LogMembers, rules: LogRules
) -> tuple[Suspect, ...]:
    firsts = {actor: min((i for i in roots if i.actor == actor), key=when) for actor in hit}
    ordered = sorted(hit, key=lambda actor: when(firsts[actor]))
    what = root.fault.summary if root.fault else f"{root.exception}"
    why = f"{what}; the others only complain of it"
    return in_turn(members, ordered[:MAX_SUSPECTS], rules.confidence.own_line, why, rules)


def _unattributed(
    root: Incident, log: JobLog, members: LogMembers, deaths: list[Death], rules: LogRules
) -> tuple[Suspect, ...]:
    """A root line of nobody known: a kernel log names its node; a launcher's report may name the only failed rank."""
    node = node_of(log, root)
    if root.fault and root.fault.node_wide and node:
        why = f"{root.fault.summary} (in the log of the node)"
        return (Suspect(None, node, rules.confidence.log_of_node, why),)
    if int(log.count[root.shape]) != 1:
        return ()
    named = _named_in_line(log.shapes[root.shape].text, rules)
    if len(deaths) == 1 and not named:
        return (_death_suspect(deaths[0], members, _score_of_first(deaths[0].report, rules)),)
    return named


def _score_of_first(report: ExitReport, rules: LogRules) -> float:
    """How far the first process that a launcher saw end is the one whose error nobody's line is.

    An error that every rank meets ends one of them a moment before the others, with an ordinary exit code.
    """
    ordinary = report.exit_code is not None and 0 < report.exit_code < FIRST_SIGNAL_CODE and report.rank is None
    return rules.confidence.ordinary_exit if ordinary else rules.confidence.first_exit


_LINE_RANK: Final = re.compile(r"\b[Rr]ank(?:ID)?[: ]+(\d{1,9})\b")
_LINE_NODE: Final = re.compile(r"\bnode[: ]+([A-Za-z][\w.-]*\d[\w.-]*)")


def _named_in_line(text: str, rules: LogRules) -> tuple[Suspect, ...]:
    """The one rank that the root line itself names (`Rank 3: found NaN in local grad norm ... node: node07`)."""
    ranks = {int(number) for number in _LINE_RANK.findall(text)}
    if len(ranks) != 1:
        return ()
    node = _LINE_NODE.search(text)
    return (Suspect(ranks.pop(), node[1] if node else None, rules.confidence.first_exit, "the line names it"),)


def _death_suspect(death: Death, members: LogMembers, score: float) -> Suspect:
    report = death.report
    why = f"{report.launcher.value} reports it as the first to end ({report.manner})"
    if report.launcher in (Launcher.JAX, Launcher.RAY):
        why = f"{report.launcher.value} reports its end ({report.manner})"
    if death.actor is not None:
        return suspect_actor(members, death.actor, score, why)
    rank = report.rank
    if rank is None and report.local_rank is not None:
        why = f"{why}; its local rank is {report.local_rank}"
        rank = report.local_rank if len(members.nodes) <= 1 and report.node is None else None
    return Suspect(rank, report.node, round(score, 3), why)


def _blame_of_death(deaths: list[Death], members: LogMembers, root: Incident | None, rules: LogRules) -> Blame:
    sure = rules.confidence
    strong = [death for death in deaths if death.report.own_death] or deaths
    found = (
        _death_suspect(death, members, sure.seen_dying * sure.next_suspect**n)
        for n, death in enumerate(strong[:MAX_SUSPECTS])
    )
    suspects = tuple(suspect for suspect in found if suspect.rank is not None or suspect.node is not None)
    return Blame(None if root is None or root.actor >= 0 else root, suspects, silent=True, death=strong[0])


def _named_suspects(votes: Counter[Accused], members: LogMembers, score: float) -> tuple[Suspect, ...]:
    """Those that are named, the most often named first; only the leaders when they stand out."""
    most = max(votes.values())
    leaders = [who for who, count in votes.items() if count == most][:MAX_SUSPECTS]
    suspects = []
    for who in leaders:
        rank, node = (members.actors[who].rank, members.actors[who].node) if isinstance(who, int) else (None, who)
        why = f"named as the peer that does not answer by {most} of those that complain"
        suspects.append(Suspect(rank, node, round(score / len(leaders), 3), why))
    return tuple(suspects)


def _blame_without_root(
    log: JobLog,
    members: LogMembers,
    terminal: list[Incident],
    silent: list[int],
    accused: Counter[Accused],
    lags: list[Lag],
    deaths: list[Death],
    rules: LogRules,
) -> Blame:
    actors = len(members.actors)
    complaints = [i for i in terminal if i.proves_failure and i.actor >= 0 and not is_launcher_line(i)]
    own = [death for death in deaths if death.report.own_death]
    if own and len(own) <= max(rules.widespread_share * actors, 1):
        return _blame_of_death(own, members, None, rules)
    if actors < 2 or not complaints:
        if len(deaths) == 1:
            return _blame_of_death(deaths, members, None, rules)
        return Blame(None, _named_suspects(accused, members, rules.hearsay) if accused.total() else ())
    quiet = _truly_silent(log, members, silent, complaints, rules)
    if quiet and len(quiet) < rules.widespread_share * actors:
        ordered = sorted(quiet, key=lambda a: (-accused[a], _last_word(log, members, a)))
        return Blame(None, _silent_suspects(members, ordered, accused, rules), silent=True)
    if lags and len(lags) <= rules.widespread_share * actors:
        return Blame(None, _lag_suspects(lags, members, rules), silent=True, lagging=True)
    cut_off = _cut_off(members, complaints, rules)
    if cut_off:
        why = "it lost the connection to the store before anyone complained: its node or network was gone first"
        return Blame(None, in_turn(members, cut_off, rules.confidence.cut_off, why, rules))
    if accused.total() and max(accused.values()) >= rules.accuser_share * accused.total():
        return Blame(None, _named_suspects(accused, members, rules.confidence.named))
    return Blame(None, ())


def _cut_off(members: LogMembers, complaints: list[Incident], rules: LogRules) -> list[int]:
    """The few that lost the store while the others still had it: those that were cut off, in order of time."""
    lost: dict[int, int] = {}
    for incident in complaints:
        if incident.fault is not None and incident.fault.id == _STORE_LOST and incident.timed:
            lost[incident.actor] = min(lost.get(incident.actor, incident.time_ns), incident.time_ns)
    others = [i.time_ns for i in complaints if i.actor not in lost and i.timed]
    early = sorted(
        (since, actor) for actor, since in lost.items() if others and since < min(others) - rules.store_lead_ns
    )
    return [actor for _, actor in early] if len(early) <= rules.few_share * len(members.actors) else []


def _lag_suspects(lags: list[Lag], members: LogMembers, rules: LogRules) -> tuple[Suspect, ...]:
    sure = rules.confidence
    suspects: dict[int, Suspect] = {}
    for place, lag in enumerate(lags[:MAX_SUSPECTS]):
        why = (
            f"its last collective was {lag.own} while the others had enqueued {lag.others} "
            f"({lag.source}): it did not enter the collective"
        )
        suspects.setdefault(lag.actor, suspect_actor(members, lag.actor, sure.lagging * sure.next_suspect**place, why))
    return tuple(suspects.values())


def _silent_suspects(
    members: LogMembers, ordered: list[int], accused: Counter[Accused], rules: LogRules
) -> tuple[Suspect, ...]:
    sure = rules.confidence
    suspects = []
    for place, actor in enumerate(ordered[:MAX_SUSPECTS]):
        named = f", and {accused[actor]} ranks name it" if accused[actor] else ""
        why = f"it fell silent without a word of error while the others complain{named}"
        suspects.append(suspect_actor(members, actor, sure.fell_silent * sure.next_suspect**place, why))
    return tuple(suspects)


def _truly_silent(
    log: JobLog, members: LogMembers, silent: list[int], complaints: list[Incident], rules: LogRules
) -> list[int]:
    """Silent actors that had been writing as much as the others before, so that their silence means something.

    Before training one that never wrote much is just as telling: it did not come up.
    """
    if all(i.stage in NOT_YET_TRAINING for i in complaints):
        return silent
    lines = np.zeros(len(members.actors), dtype=np.int64)
    for writer, actor in enumerate(members.actor_of_writer.tolist()):
        if actor >= 0:
            lines[actor] += int(log.writer_lines[writer])
    before: dict[int, int] = {}  # what those that complain had written until then: their stacks do not count
    for i in complaints:
        before[i.actor] = min(before.get(i.actor, int(lines[i.actor])), i.line)
    typical = float(np.median(list(before.values()))) if before else 0.0
    return [actor for actor in silent if lines[actor] >= rules.wrote_before * typical]


def _last_word(log: JobLog, members: LogMembers, actor: int) -> int:
    writers = np.flatnonzero(members.actor_of_writer == actor)
    return int(log.writer_last_ns[writers].max()) if writers.size else 0
