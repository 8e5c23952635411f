"""Who is believed about the place of a stop: the flows or the logs."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from llmprism.diagnose import stopped as stopped_detector
from llmprism.model.finding import Alternative, Evidence, FindingKind, Where, WhereType
from llmprism.model.report import Report
from llmprism.model.topology import Nic, Server, Topology
from llmprism.model.verdict import Source
from llmprism.verdict.suspects import WENT_ON
from stopped_jobs import CLOSED, ENDS, MEMBERS, NAMELESS, OOM, TIMED_OUT, complaints, stopped
from written_logs import together, write_job


def believed_and_rank(report: Report) -> tuple[Source, int | None]:
    """Which side the only contradiction was decided for, and the rank that is named."""
    assert report.reading is not None
    (verdict,) = report.reading.verdicts
    (clash,) = verdict.contradictions
    return clash.believed, verdict.rank


def test_a_known_rank_that_wrote_its_own_error_is_believed_before_the_flows(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after={**complaints(2), 2: [(0.2, OOM)]})
    report = together(stopped(FindingKind.CRASH, "10.0.0.4"), folder)
    assert report.findings[0].where.id == "10.0.0.3"
    assert report.reading is not None
    (clash,) = report.reading.verdicts[0].contradictions
    assert (clash.about, clash.believed) == ("place", Source.LOGS)
    assert "10.0.0.4" in clash.flows
    believed, other = report.reading.verdicts[0].suspects[:2]
    assert (believed.address, other.address) == ("10.0.0.3", "10.0.0.4")
    assert other.score < 0.5 < believed.score, "for who is not believed only the doubt is left"
    (alternative,) = report.findings[0].alternatives
    assert (alternative.where.id, alternative.kind) == ("10.0.0.4", FindingKind.CRASH)


def test_a_rank_that_only_others_complain_of_is_not_believed_before_the_flows(tmp_path: Path) -> None:
    """Where the rank sits is a guess, and nobody names an address."""
    after = {rank: [(0.5, NAMELESS)] for rank in (0, 1, 3)}
    folder = write_job(tmp_path / "x", ENDS, addresses=("?",) * 4, after=after)
    report = together(stopped(FindingKind.CRASH, "10.0.0.4", confidence=0.9), folder)
    assert report.findings[0].where.id == "10.0.0.4"
    assert believed_and_rank(report) == (Source.FLOWS, 3)


def test_a_rank_without_a_word_whose_address_its_peers_name_as_lost_is_believed(tmp_path: Path) -> None:
    """The rank at the address of the flows is one of those that complain: it lived on."""
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=complaints(2))
    report = together(stopped(FindingKind.CRASH, "10.0.0.4", confidence=0.95), folder)
    assert report.findings[0].where.id == "10.0.0.3"
    assert believed_and_rank(report) == (Source.LOGS, 2)


@pytest.mark.parametrize(("kind", "place"), [(FindingKind.HANG, "10.0.0.4"), (FindingKind.CRASH, "10.0.0.3")])
def test_silence_of_a_log_moves_a_crash_and_not_a_hang(tmp_path: Path, kind: FindingKind, place: str) -> None:
    """Where it sits is a guess. Who hangs and who waits without a time-out are equally silent; who died is alone."""
    late = {rank: [(90, TIMED_OUT.format(rank))] for rank in (0, 1, 3)}
    after = late if kind is FindingKind.HANG else {rank: [(0.5, NAMELESS)] for rank in (0, 1, 3)}
    folder = write_job(tmp_path / "x", ENDS, addresses=("?",) * 4, after=after)
    report = together(stopped(kind, "10.0.0.4", confidence=0.7, end_s=120), folder)
    assert report.findings[0].where.id == place


@pytest.mark.parametrize(("votes", "place"), [(1, "job-a"), (2, "10.0.0.3")])
def test_the_address_that_peers_name_as_lost_is_that_of_the_rank_that_failed(
    tmp_path: Path, votes: int, place: str
) -> None:
    """Nothing says where ranks sit: 3 ranks and 4 addresses are in no usual order."""
    after = {rank: [(0.5, CLOSED.format("10.0.0.3") if rank < votes else NAMELESS)] for rank in (0, 1)}
    folder = write_job(tmp_path / "x", ENDS, addresses=("?",) * 3, after={**after, 2: [(0.2, OOM)]})
    report = together(stopped(FindingKind.CRASH, "job-a"), folder)
    assert report.findings[0].where.id == place
    assert report.reading is not None
    assert report.reading.verdicts[0].rank == 2


def stopped_at_4_or_3() -> Report:
    """The flows name one address and list another."""
    listed = (Alternative(FindingKind.CRASH, Where(WhereType.GPU, "10.0.0.3"), 0.35),)
    report = stopped(FindingKind.CRASH, "10.0.0.4", confidence=0.65)
    return replace(report, findings=(replace(report.findings[0], alternatives=listed),))


def test_a_rank_that_the_flows_list_as_well_is_believed_where_the_logs_name_it(tmp_path: Path) -> None:
    """Its seat is a guess, and it is not the one that the flows put first."""
    after = {rank: [(0.5, NAMELESS)] for rank in (0, 1, 3)}
    folder = write_job(tmp_path / "x", ENDS, addresses=("?",) * 4, after=after)
    found = together(stopped_at_4_or_3(), folder)
    assert found.findings[0].where.id == "10.0.0.3"
    assert found.reading is not None
    (clash,) = found.reading.verdicts[0].contradictions
    assert clash.believed is Source.BOTH


@pytest.mark.parametrize(("votes", "place"), [(1, "10.0.0.4"), (2, "10.0.0.3")])
def test_one_peer_that_names_an_address_as_lost_may_be_wrong(tmp_path: Path, votes: int, place: str) -> None:
    """Where the silent rank sits is a guess; the flows are sure of another address."""
    after = {
        rank: [(0.5, CLOSED.format("10.0.0.3") if number < votes else NAMELESS)]
        for number, rank in enumerate((0, 1, 3))
    }
    folder = write_job(tmp_path / "x", ENDS, addresses=("?",) * 4, after=after)
    report = together(stopped(FindingKind.CRASH, "10.0.0.4", confidence=0.95), folder)
    assert report.findings[0].where.id == place


def test_an_address_that_fell_silent_and_that_peers_name_as_lost_is_the_one(tmp_path: Path) -> None:
    """The seat of the silent rank is a guess, and the flows list it as another possibility."""
    after = {rank: [(0.5, CLOSED.format("10.0.0.4") if rank < 2 else NAMELESS)] for rank in (0, 1, 3)}
    folder = write_job(tmp_path / "x", ENDS, addresses=("?",) * 4, after=after)
    found = together(stopped_at_4_or_3(), folder)
    assert found.findings[0].where.id == "10.0.0.4"
    assert found.reading is not None
    assert found.reading.verdicts[0].rank == 2


@pytest.mark.parametrize(("second", "place"), [(0.175, "10.0.0.2"), (0.4, "job-a")])
def test_of_those_that_the_flows_list_the_one_that_the_logs_rank_first(
    tmp_path: Path, second: float, place: str
) -> None:
    """All complain of each other; the logs name nobody and rank 0 and 1 before the others, 0 first."""
    after = {rank: [(90 + rank, TIMED_OUT.format(rank))] for rank in range(4)}
    folder = write_job(tmp_path / "x", ENDS, addresses=MEMBERS, after=after)
    listed = tuple(
        Alternative(FindingKind.HANG, Where(WhereType.GPU, address), confidence)
        for address, confidence in (("10.0.0.2", 0.35), ("10.0.0.3", second), ("10.0.0.4", 0.3))
    )
    report = stopped(FindingKind.HANG, "job-a", end_s=120)
    report = replace(report, findings=(replace(report.findings[0], alternatives=listed),))
    found = together(report, folder)
    assert found.findings[0].where.id == place


def guessed(
    tmp_path: Path,
    confidence: float,
    complaint: str = NAMELESS,
    went_on_s: float | None = None,
    *,
    servers: bool = False,
) -> Report:
    """Rank 2 writes its own error; the logs name no address, so that it is taken to sit at 10.0.0.3: surely enough only
    where the `servers` are known, in whose order all launchers agree. `went_on_s`: how long the others went on after
    10.0.0.2 had fallen silent."""
    known = tuple(Server(f"rack{n}", (Nic(address, 0),)) for n, address in enumerate(MEMBERS))
    topology = Topology(known) if servers else None
    after = {rank: [(0.5, complaint)] for rank in (0, 1, 3)} | {2: [(0.2, OOM)]}
    folder = write_job(tmp_path / "x", ENDS, addresses=("?",) * 4, after=after)
    report = replace(stopped(FindingKind.CRASH, "10.0.0.2", confidence=confidence), topology=topology)
    if went_on_s is not None:
        evidence = (Evidence(WENT_ON, went_on_s, 0.0),)
        report = replace(report, findings=(replace(report.findings[0], evidence=evidence),))
    return together(report, folder)


def test_a_guessed_seat_is_believed_only_if_it_is_surer_than_the_flows(tmp_path: Path) -> None:
    sure = guessed(tmp_path / "a", 0.95)
    assert sure.findings[0].where.id == "10.0.0.2"
    assert sure.reading is not None
    assert sure.reading.verdicts[0].rank == 2
    agreed = guessed(tmp_path / "d", 0.8, servers=True)
    assert agreed.findings[0].where.id == "10.0.0.3", "nearly all real runs have the usual order"
    alone = guessed(tmp_path / "e", 0.95, servers=True)
    assert alone.findings[0].where.id == "10.0.0.2", "it alone was no longer heard: no guess is surer"
    doubtful = guessed(tmp_path / "b", 0.3)
    assert doubtful.findings[0].where.id == "10.0.0.3"
    named = guessed(tmp_path / "c", 0.95, CLOSED.format("10.0.0.3"))
    assert named.findings[0].where.id == "10.0.0.3"


@pytest.mark.parametrize(("went_on_s", "place"), [(0.0005, "10.0.0.3"), (0.2, "10.0.0.2")])
def test_an_order_of_silence_within_milliseconds_is_no_evidence(tmp_path: Path, went_on_s: float, place: str) -> None:
    assert guessed(tmp_path, 0.95, went_on_s=went_on_s).findings[0].where.id == place


def test_the_flows_say_how_long_others_went_on() -> None:
    """The evidence that the weighing looks for is the one that the detector writes."""
    ending = inspect.getsource(stopped_detector)
    assert WENT_ON in ending
