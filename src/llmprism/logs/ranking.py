"""All ranks and nodes in the order of suspicion, also where nobody is certain.

The suspects come first with their scores. The others follow by weaker evidence, each worth little by itself: a launcher
saw it end first, peers name it, its last iteration or last line lies before the others', it complained first, its lines
are unlike the others' (an Isolation Forest over counts of event kinds, as L4 does).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.logs.accusations import count_accusations
from llmprism.logs.incidents import Incident
from llmprism.logs.isolation import isolation_scores
from llmprism.logs.joblog import JobLog
from llmprism.logs.members import LogMembers
from llmprism.logs.progress import Progress
from llmprism.logs.rules import RULES, LogRules
from llmprism.logs.signs import actor_iterations
from llmprism.logs.suspects import find_deaths
from llmprism.model.log import Suspect

__all__ = ["RANKED", "rank_members", "rank_nodes"]

RANKED: Final = 8
"""How many are listed: L4's operators look at eight at most."""

_REASONS: Final = (
    "a launcher reports it as the first to end",
    "peers name it",
    "its last iteration lies behind the others'",
    "it fell silent before the others",
    "it complained first",
    "its lines are unlike the others'",
)
"""The kinds of weak evidence, in the order of `_weights`."""


def _weights(rules: LogRules) -> tuple[float, ...]:
    return (
        rules.weight_first_end,
        rules.weight_named,
        rules.weight_behind,
        rules.weight_silent,
        rules.weight_first_complaint,
        rules.weight_unlike,
    )


def rank_members(
    log: JobLog,
    members: LogMembers,
    progress: Progress,
    terminal: list[Incident],
    suspects: tuple[Suspect, ...],
    rules: LogRules = RULES,
) -> tuple[Suspect, ...]:
    """Suspects first, then the other actors that anything speaks against."""
    if len(members.actors) < 2:
        return suspects[:RANKED]
    scores = np.zeros(len(members.actors))
    reasons: list[list[str]] = [[] for _ in members.actors]
    evidence = _weak_evidence(log, members, progress, terminal)
    for reason, weight, values in zip(_REASONS, _weights(rules), evidence, strict=True):
        scores += weight * values
        for actor in np.flatnonzero(values > 0.5).tolist():
            reasons[actor].append(reason)
    named = {(suspect.rank, suspect.node) for suspect in suspects}
    lowest = min((suspect.score for suspect in suspects), default=1.0)
    ranked = list(suspects)
    for actor in np.argsort(-scores, kind="stable").tolist():
        who = members.actors[actor]
        if scores[actor] <= 0 or len(ranked) >= RANKED:
            break
        if (who.rank, who.node) not in named:
            score = round(min(float(scores[actor]), rules.confidence.weak_signs * lowest), 3)
            ranked.append(Suspect(who.rank, who.node, score, "; ".join(reasons[actor]) or "weak signs only"))
    return tuple(ranked[:RANKED])


def _weak_evidence(
    log: JobLog, members: LogMembers, progress: Progress, terminal: list[Incident]
) -> tuple[Float64, ...]:
    """Values 0..1 per actor by kind of evidence, in the order of `_REASONS`."""
    size = len(members.actors)
    deaths, named, behind, silent, first = (np.zeros(size) for _ in range(5))
    for death in find_deaths(members):
        if death.actor is not None:
            deaths[death.actor] = 1.0
    votes: Counter[int | str] = count_accusations(log, members, terminal)
    for who, count in votes.items():
        if isinstance(who, int):
            named[who] = count / max(votes.values())
    last, _ = actor_iterations(log, members, progress)
    if (last >= 0).sum() > 1:
        front = np.median(last[last >= 0])
        behind[(last >= 0) & (last < front)] = 1.0
    ends = _last_lines(log, members)
    if (ends > 0).sum() > 1 and np.ptp(ends[ends > 0]) > 1_000_000_000:
        order = np.argsort(np.argsort(np.where(ends > 0, ends, ends.max())))
        silent = 1.0 - order / max(size - 1, 1)
    proofs = [i for i in terminal if i.proves_failure and i.actor >= 0 and i.time_ns]
    if proofs:
        first[min(proofs, key=lambda i: i.time_ns).actor] = 1.0
    return deaths, named, behind, silent, first, _strangeness(size, terminal)


def _last_lines(log: JobLog, members: LogMembers) -> Int64:
    ends = np.zeros(len(members.actors), dtype=np.int64)
    known = members.actor_of_writer >= 0
    np.maximum.at(ends, members.actor_of_writer[known], log.writer_last_ns[known])
    return ends


def _strangeness(size: int, terminal: list[Incident]) -> Float64:
    kinds = {shape: column for column, shape in enumerate(sorted({i.shape for i in terminal}))}
    counts = np.zeros((size, len(kinds)))
    for incident in terminal:
        if incident.actor >= 0:
            counts[incident.actor, kinds[incident.shape]] += incident.count
    if not kinds or (counts == counts[0]).all():
        return np.zeros(size)
    scores = isolation_scores(counts)
    spread = float(np.ptp(scores))
    return (scores - scores.min()) / spread if spread > 0 else np.zeros(size)


def rank_nodes(ranking: tuple[Suspect, ...], rules: LogRules = RULES) -> tuple[Suspect, ...]:
    """Nodes by the most suspicious of their ranks; several suspicious ranks on one node speak for the node."""
    best: dict[str, Suspect] = {}
    more: Counter[str] = Counter()
    sure = rules.confidence
    for suspect in ranking:
        if suspect.node is None:
            continue
        if suspect.node in best:
            more[suspect.node] += 1
        best.setdefault(suspect.node, suspect)
    nodes = []
    for node, suspect in best.items():
        score = min(sure.surely, suspect.score * (1 + sure.more_on_node * more[node]))
        who = f"rank {suspect.rank}: " if suspect.rank is not None else ""
        nodes.append(Suspect(None, node, round(score, 3), f"{who}{suspect.why}"))
    return tuple(sorted(nodes, key=lambda item: -item.score))
