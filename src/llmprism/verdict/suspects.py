"""Ranked suspects of a job by both kinds of evidence, and which of the two is believed where they name different ones.

The flows see who fell silent first; a log sees what its rank says. So a rank that wrote down its own fatal error is
believed before the flows, if it is known where it sits, or surer than the flows are of their place: that it failed is
not in doubt then, only where it sits. A seat that is guessed from the order of ranks never moves a place of which the
flows are sure, as they are where one member alone is no longer heard. Else the rank that failed and the address that
fell silent are one and the same: each identifies the other. A rank that is blamed because others complain of it, or
because it said nothing, must be surer in both, that it is to blame and where it sits, than the silence that the flows
measured.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from llmprism.model.finding import Finding, FindingKind
from llmprism.model.log import EventRole, Suspect
from llmprism.model.verdict import Contradiction, NamedSuspect, Seat, Source
from llmprism.units import SECOND
from llmprism.verdict.case import JobCase
from llmprism.verdict.collectives import find_rank_apart

__all__ = ["SuspectPlace", "choose_place", "has_own_cause", "in_another_collective", "rank_suspects"]

WENT_ON: Final = "seconds that others went on after its message was due"
"""The evidence of the flows that measures it."""


@dataclass(frozen=True, slots=True)
class SuspectPlace:
    """Where it is: an address (None: not known), the rank there, how sure, and what had to be decided for it. `why` is
    said of it among the suspects where neither part has said it."""

    address: str | None
    rank: int | None
    node: str | None
    confidence: float
    source: Source
    contradictions: tuple[Contradiction, ...] = ()
    why: str = ""


def has_own_cause(case: JobCase, suspect: Suspect) -> bool:
    """Whether the suspect itself wrote the line that started it."""
    return any(
        event.role is EventRole.ROOT and suspect.rank in event.ranks and suspect.rank is not None
        for event in case.diagnosis.events
    )


def choose_place(case: JobCase, finding: Finding | None) -> SuspectPlace:
    """Who is to blame by the flow finding (None: there is none) and by the logs' first suspect."""
    named = case.diagnosis.suspects[0] if case.diagnosis.suspects else None
    address = case.address_of(finding) if finding is not None else None
    seat = case.seat_of_rank(named.rank) if named is not None else None
    if finding is not None and address is not None:
        if named is None:
            return _by_flows(case, finding, address)
        return _by_both(case, finding, address, named)
    if named is None:
        nobody = SuspectPlace(None, None, None, 0.0, Source.FLOWS if finding is not None else Source.LOGS)
        return nobody if finding is None else _among_listed(case, finding) or nobody
    where, seated = (seat.address, seat.confidence) if seat is not None and seat.address else (None, 1.0)
    if seat is None or seat.confidence <= case.rules.place.sure_seat:
        lost = _lost_by_peers(case)
        where, seated = (lost, case.rules.place.identified) if lost is not None else (where, seated)
    return SuspectPlace(where, named.rank, _node(seat, named), named.score * seated, Source.LOGS)


def _lost_by_peers(case: JobCase) -> str | None:
    """The member that more ranks name as the peer that they lost than any other; None: too few do, or as many."""
    members = {case.report.addresses[member] for member in case.job.job.members} if case.job is not None else set()
    votes = [(count, address) for address, count in _named_by_peers(case).most_common() if address in members][:2]
    enough = bool(votes) and votes[0][0] >= case.rules.place.votes
    return votes[0][1] if enough and (len(votes) < 2 or votes[0][0] > votes[1][0]) else None


def in_another_collective(case: JobCase, place: SuspectPlace) -> SuspectPlace:
    """The rank that alone entered a collective, where its seat is known; else the place as it was."""
    rank = find_rank_apart(case)
    seat = case.seat_of_rank(rank)
    if rank is None or seat is None or seat.address is None or place.address == seat.address:
        return place
    clashes = place.contradictions
    if place.address is not None:
        why = "every rank says in what it waits, and this one alone waits in a collective that no other has entered"
        said = f"rank {rank} at {seat.address} waits in another collective than the others"
        clashes = (*clashes, Contradiction("place", f"{place.address} fell silent first", said, Source.LOGS, why))
    sure = case.rules.ending.mismatch * seat.confidence
    why = "logs: it alone waits in a collective"
    return SuspectPlace(seat.address, rank, seat.node, sure, Source.BOTH, clashes, why)


def _node(seat: Seat | None, named: Suspect) -> str | None:
    return seat.node if seat is not None else named.node


def _by_flows(case: JobCase, finding: Finding, address: str) -> SuspectPlace:
    seat = case.seat_at(address)
    rank, node = (seat.rank, seat.node) if seat is not None else (None, None)
    return SuspectPlace(address, rank, node, finding.place_confidence, Source.FLOWS)


def _by_both(case: JobCase, finding: Finding, address: str, named: Suspect) -> SuspectPlace:
    seat = case.seat_of_rank(named.rank)
    own, rules = has_own_cause(case, named), case.rules.place
    by_flows = finding.place_confidence
    both = 1 - (1 - by_flows) * (1 - named.score)
    if seat is None or seat.address is None:
        return SuspectPlace(address, named.rank, _node(seat, named), both if own else by_flows, Source.BOTH)
    if seat.address == address:
        both = 1 - (1 - by_flows) * (1 - named.score * seat.confidence)
        return SuspectPlace(address, named.rank, _node(seat, named), both, Source.BOTH)
    flows = f"{address} fell silent first"
    logs = f"rank {named.rank} at {seat.address}: {named.why}"
    if own and seat.confidence > rules.sure_seat:
        why = "the rank wrote its own fatal error before anybody complained, and its address is known"
        clash = Contradiction("place", flows, logs, Source.LOGS, why)
        return SuspectPlace(
            seat.address, named.rank, _node(seat, named), named.score * seat.confidence, Source.LOGS, (clash,)
        )
    seated = 1 - (1 - seat.confidence) * rules.seat_doubt
    sure, silent = named.score * seated, _first_silent(case, finding, own)
    votes = _named_by_peers(case)
    if votes[seat.address] > votes[address] and (own or votes[seat.address] >= rules.votes):
        wrote = "the rank wrote its own fatal error" if own else "the rank died without a word"
        why = f"{wrote}, and {votes[seat.address]} of its peers name that address as lost"
        clash = Contradiction("place", flows, logs, Source.LOGS, why)
        return SuspectPlace(seat.address, named.rank, _node(seat, named), sure, Source.LOGS, (clash,))
    if not own and votes[address] > votes[seat.address] and votes[address] >= rules.votes:
        why = f"{votes[address]} peers name the address that fell silent first as lost; where the rank sits is a guess"
        clash = Contradiction("place", flows, logs, Source.FLOWS, why)
        return SuspectPlace(address, named.rank, named.node, both, Source.BOTH, (clash,))
    if own and seated > silent:
        why = f"the rank wrote its own fatal error, and where it sits ({seat.why}) is surer than who fell silent first"
        clash = Contradiction("place", flows, logs, Source.LOGS, why)
        return SuspectPlace(seat.address, named.rank, _node(seat, named), sure, Source.LOGS, (clash,))
    if own:
        why = f"where rank {named.rank} sits is a guess ({seat.why}); the address that fell silent is taken for its own"
        clash = Contradiction("place", flows, logs, Source.FLOWS, why)
        return SuspectPlace(
            address, named.rank, _node(seat, named), finding.place_confidence * rules.identified, Source.BOTH, (clash,)
        )
    if _listed_by_flows(case, finding, seat.address, sure):
        why = "the flows list that address as well, and the logs name its rank"
        clash = Contradiction("place", flows, logs, Source.BOTH, why)
        return SuspectPlace(seat.address, named.rank, _node(seat, named), sure, Source.BOTH, (clash,))
    if seated > silent and _complains(case, address) and not _complains(case, seat.address):
        why = "the rank at that address complained afterwards, so it lived on; the one that the logs name did not"
        clash = Contradiction("place", flows, logs, Source.LOGS, why)
        return SuspectPlace(seat.address, named.rank, _node(seat, named), sure, Source.LOGS, (clash,))
    if sure > silent:
        why = f"its peers' logs and where it sits ({seat.why}) are surer than who fell silent first"
        clash = Contradiction("place", flows, logs, Source.LOGS, why)
        return SuspectPlace(seat.address, named.rank, _node(seat, named), sure, Source.LOGS, (clash,))
    why = "the logs have only the word of others; the flows saw who fell silent first"
    clash = Contradiction("place", flows, logs, Source.FLOWS, why)
    there = case.seat_at(address)
    rank, node = (there.rank, there.node) if there is not None else (None, None)
    return SuspectPlace(address, rank, node, finding.place_confidence * rules.identified, Source.FLOWS, (clash,))


def _listed_by_flows(case: JobCase, finding: Finding, address: str, sure: float) -> bool:
    """Whether an address that the flows list as another possibility is likelier than theirs once the logs name it: a
    wrong name of the logs would be any other rank's as often."""
    listed = max((one.confidence for one in finding.alternatives if one.where.id == address), default=0.0)
    return listed * sure * max(case.size - 1, 1) > finding.place_confidence * (1.0 - sure)


def _complains(case: JobCase, address: str) -> bool:
    """Whether the rank at an address wrote, when the run ended, that somebody else is gone."""
    return any(case.line_address(line)[0] == address for line in case.last_words("cascade"))


def _among_listed(case: JobCase, finding: Finding) -> SuspectPlace | None:
    """The likeliest of the addresses that the flows list where they name none, by what the logs hold against the ranks
    there; None where the logs hold nothing against any of them, or as much against another."""
    ranking = {one.rank: one.score for one in case.diagnosis.ranking}
    weights: list[tuple[float, str]] = []
    for one in finding.alternatives:
        seat = case.seat_at(one.where.id if isinstance(one.where.id, str) else None)
        if seat is not None and seat.rank in ranking and seat.address is not None:
            weights.append((one.confidence * ranking[seat.rank] * seat.confidence, seat.address))
    weights.sort(reverse=True)
    if not weights or (len(weights) > 1 and weights[0][0] < case.rules.place.listed_lead * weights[1][0]):
        return None
    likely, address = weights[0]
    seat = case.seat_at(address)
    rank, node = (seat.rank, seat.node) if seat is not None else (None, None)
    return SuspectPlace(address, rank, node, likely, Source.BOTH)


def _first_silent(case: JobCase, finding: Finding, own: bool) -> float:
    """How sure it is that the address of a stop is that of the rank that failed.

    In a hang nothing ends: the others stop one after the other, each when it has to wait, and their order says who
    waits for whom. That a rank writes nothing says little then: one that waits without a time-out is as silent.
    """
    rules = case.rules.place
    went_on = next((item.value for item in finding.evidence if item.what == WENT_ON), None)
    unclear = went_on is not None and went_on * SECOND < rules.clear_silence * case.step_ns
    if unclear:
        return min(finding.place_confidence, rules.hardly_first)
    alone = finding.place_confidence >= rules.silent_alone or (finding.kind is FindingKind.HANG and not own)
    return rules.silent_alone if alone else min(finding.place_confidence, rules.first_silent)


def _named_by_peers(case: JobCase) -> Counter[str]:
    """How many ranks name each address as the peer that they lost."""
    return Counter(address for rank in case.view.ranks for address in rank.named)


def rank_suspects(case: JobCase, finding: Finding | None, place: SuspectPlace) -> tuple[NamedSuspect, ...]:
    """Everyone that either side names, the chosen place first, then by the scores of both put together.

    Where the two sides name different places, one of them was believed: what is left for the others is the doubt.
    """
    scores: dict[tuple[str | None, int | None], tuple[float, list[str], str | None]] = {}

    def add(address: str | None, rank: int | None, node: str | None, score: float, why: str) -> None:
        before, words, known = scores.get((address, rank), (0.0, [], node))
        scores[address, rank] = (
            1 - (1 - before) * (1 - min(score, case.rules.place.most_sure)),
            [*words, why],
            known or node,
        )

    if finding is not None and (address := case.address_of(finding)) is not None:
        seat = case.seat_at(address)
        rank = place.rank if address == place.address else seat.rank if seat is not None else None
        node = seat.node if seat is not None else None
        add(address, rank, node, finding.place_confidence, "flows: silent or late first")
    if place.why:
        add(place.address, place.rank, place.node, place.confidence, place.why)
    named = {suspect.rank for suspect in case.diagnosis.suspects}
    weaker = [one for one in case.diagnosis.ranking if one.rank not in named]
    for suspect in (*case.diagnosis.suspects, *weaker):
        seat = case.seat_of_rank(suspect.rank)
        where = seat.address if seat is not None else None
        if suspect.rank is not None and suspect.rank == place.rank:
            where = place.address
        sure = seat.confidence if seat is not None and seat.address else 1.0
        score = suspect.score * sure * (1.0 if suspect.rank in named else case.rules.place.weak_score)
        add(where, suspect.rank, _node(seat, suspect), score, f"logs: {suspect.why}")
    doubt = 1.0 - place.confidence if place.contradictions else 1.0
    scores = {
        where: (score if where[0] == place.address else score * doubt, words, node)
        for where, (score, words, node) in scores.items()
    }
    ordered = sorted(scores.items(), key=lambda item: (item[0][0] != place.address or not place.address, -item[1][0]))
    return tuple(
        NamedSuspect(address, rank, node, round(score, 3), "; ".join(words))
        for (address, rank), (score, words, node) in ordered[: case.rules.place.most_suspects]
    )
