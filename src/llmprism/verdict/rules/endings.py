"""How a job ended and who is believed about it: every constant of that."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StopPlaceRules", "StopRules"]


@dataclass(frozen=True, slots=True)
class StopPlaceRules:
    """Who is believed about the place of a stop."""

    sure_seat: float = 0.87
    """Seats that are surer than this come from an address or a host, not from a usual order of ranks."""

    first_silent: float = 0.83
    """How sure the address that fell silent first is at most as the place of the rank that failed: it was in 9 of the
    10 real crashes that were looked at, (9 + 1) / (10 + 2) by the rule of succession. A crash ends everything within
    milliseconds, and the order of the last messages of waiting peers is chance."""

    silent_alone: float = 0.94
    """The same where the flows are as sure themselves: of the members that alone were no longer heard after they were
    missed, all 15 of real captures were the right ones, (15 + 1) / (15 + 2). And of a hang: 16 of 16."""

    clear_silence: float = 0.02
    """Share of a step that the others must have gone on after an address fell silent: below it the order in which they
    stopped is no evidence. Of the real stops that were looked at, the one with the wrong address has 0.005, the 12 with
    the right one have 0.07 to 1.3: the same verdicts from 0.006 to 0.07."""

    hardly_first: float = 0.5
    """How sure the address is at most where it is below."""

    seat_doubt: float = 0.4
    """Factor on the doubt about a seat where it is weighed against the flows: seats, most of them taken from a usual
    order of ranks with 0.58 to 0.85, were right for 299 of the 304 ranks of real runs whose truth says it."""

    votes: int = 2
    """Peers that must name the address of a rank as lost, and more of them than name that of the flows, for a rank
    that died without a word to be believed to be there."""

    listed_lead: float = 2.0
    """How many times likelier than any other listed address one must be, by the product of what flows and logs say of
    it, where the flows name none and the logs only rank: no real run that was looked at has both."""

    identified: float = 0.9
    """Factor on the confidence of the flows' address where the logs speak for another one, less surely;"""

    weak_score: float = 0.5
    """on scores of ranks that the logs rank and do not name."""

    most_sure: float = 0.99
    """No verdict is surer than this."""

    most_suspects: int = 5
    """Suspects that a verdict lists."""


@dataclass(frozen=True, slots=True)
class StopRules:
    """How a job ended."""

    near_ns: int = 60 * 1_000_000_000
    """Nanoseconds. Stops and failures further apart than this,"""

    near_steps: int = 20
    """and than so many steps, are not the same event; a job that stood still for as long before it was cancelled had
    hung."""

    time_out_ns: int = 60 * 1_000_000_000
    """Nanoseconds. The first complaint this long after the stop is a time-out that ran down: nobody had lost a
    connection before."""

    watched_ns: int = 5 * 1_000_000_000
    """Nanoseconds. Silence in logs means something once a lost peer would have been reported: sockets that close are
    seen within it."""

    slack_steps: int = 2
    """Steps by which a log and the flows may differ about a moment beyond their clocks: the step that broke off, and
    the one before whose lines are late."""

    went_on_steps: int = 2
    """Steps that the flows must show after a failure for the run to have survived it: one may have been under way."""

    restart_steps: float = 5.0
    """Steps that a job stands still at least when it is started again; it must also be longer than any other pause.
    The three real restarts that were looked at took 30 to 58 steps, the longest other pause of a real run 13 (a
    stall)."""

    weak_cause: float = 0.4
    """Confidence. Causes of logs up to this name complaints, not a cause."""

    sure_hang: float = 0.5
    """Confidence of the logs from which a rank behind the others hangs although the traffic ends where it rests."""

    kind_doubt: float = 0.8
    """Factor on the confidence of a stop whose kind the logs correct."""

    silent_death: float = 0.7
    """Factor on the doubt about a rank that died without a word where the flows saw that it fell silent first."""

    nearby_cause: float = 0.5
    """Confidence of a line about hardware or storage that nobody died of, as the cause of a stop at that place and
    time."""

    unknown_cause: float = 0.2
    """Confidence of a cause that no log names."""

    hung_process: float = 0.3
    """Confidence that a rank which stopped without a word, with its connections open, hangs by itself."""

    mismatch: float = 0.6
    """Confidence of a mismatched collective;"""

    witnesses: int = 2
    """other ranks that must say where they wait, and agree: those ended before their time-out say nothing. With 4 one
    of 86 real runs changes, in which three of seven say it."""

    sent_steps: int = 3
    """Steps from which it is known what a rank usually sends,"""

    senders: int = 3
    """and members that must send for one of them to stand out."""
