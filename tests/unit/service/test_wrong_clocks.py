"""Wrong clocks, dead collectors and late files, through intake and windows: nobody else notices."""

from dataclasses import replace

import pytest

from llmprism.service.clock_of_source import ClockState
from llmprism.service.config import WindowSettings
from llmprism.service.history import History
from llmprism.service.late_lane import LateEvaluator, LateStore
from support.live_cluster import BEGIN, LiveCluster, RingJob, S, Sender

WINDOWS = WindowSettings()


@pytest.fixture
def play(store, config):
    made = []

    def start(senders, windows=WINDOWS, **named):
        made.append(LiveCluster(store, replace(config, windows=windows), senders, **named))
        return made[0]

    yield start
    for one in made:
        one.close()


def jobs(count):
    return [RingJob(f"j{number}", period_s=0.5 + 0.07 * number) for number in range(count)]


def steps(cluster):
    return {run.members[0].split("-gpu")[0]: run.steps for run in cluster.evaluator.state.runs}


@pytest.mark.parametrize(
    "offset",
    [
        pytest.param(lambda second: 10.0 if second >= 20 else 0.0, id="10 s ahead"),
        pytest.param(lambda second: 65.0 if second >= 20 else 0.0, id="65 s ahead"),
        pytest.param(lambda second: -600.0 if second >= 20 else 0.0, id="600 s behind"),
        pytest.param(lambda second: second, id="drifting"),
        pytest.param(lambda second: 300.0 if 20 <= second < 30 else 0.0, id="there and back"),
    ],
)
def test_one_wrong_clock_costs_no_other_job_a_step(play, offset):
    ring = jobs(4)
    senders = [Sender(f"http:{job.name}", [job]) for job in ring]
    senders[3].offset_s = offset
    cluster = play(senders)
    cluster.play(range(50))
    states = cluster.states()
    assert [states[job.name] for job in ring[:3]] == ["running"] * 3
    others = {job.name for job in ring[:3]}
    assert not [one for one in cluster.findings() if one.split()[1].removeprefix("job-") in others]
    assert all(one["job"] not in _runs_of(cluster, others) for one in History(cluster.store).findings()["items"])
    counted = steps(cluster)
    for job in ring[:3]:
        assert counted[job.name] >= (50 - 8) / job.period_s
    for source in History(cluster.store).sources():
        assert source.get("received", 0) == source.get("stored", 0) + sum(source["dropped"].values())


def _runs_of(cluster, names):
    return {run.id for run in cluster.evaluator.state.runs if run.members[0].split("-gpu")[0] in names}


def test_one_record_of_a_stranger_changes_nothing(play):
    ring = jobs(3)
    cluster = play([Sender("http", ring)])
    cluster.play(range(30))
    at = BEGIN + 90 * S
    answer = cluster.send("http", [(at - 1, at, "stranger", "nobody", 100)])
    assert dict(answer.dropped) == {"future": 1}
    cluster.play(range(30, 45))
    assert set(cluster.states().values()) == {"running"}
    assert cluster.findings() == []


def test_our_own_clock_600_s_back_drops_nothing(play):
    cluster = play([Sender(f"http:{job.name}", [job]) for job in jobs(3)], own_offset_s=lambda _second: -600.0)
    cluster.play(range(30))
    assert set(cluster.states().values()) == {"running"}
    assert all(not answer.dropped for answer in cluster.answers)


def test_a_record_of_1970_in_the_first_push_does_not_stop_windows(play):
    cluster = play([Sender("http", jobs(2))])
    cluster.send("http", [(0, 0, "a", "b", 100)])
    cluster.play(range(30))
    assert set(cluster.states().values()) == {"running"}


def test_a_paused_job_and_then_no_records_at_all_is_no_crash(play):
    ring = jobs(3)
    ring[0].pauses = ((27, 1e9),)
    cluster = play([Sender("http", ring, works=lambda second: second < 36)])
    cluster.play(range(36))
    for second in range(36, 100):
        cluster.second = second
        cluster.drain()
    states = cluster.states()
    assert (states["j1"], states["j2"]) == ("running", "running")
    assert not [one for one in cluster.findings() if "crash" in one]


def test_a_collector_that_dies_crashes_none_of_its_jobs_and_its_gap_is_no_stall(play):
    ring = jobs(5)
    cluster = play([Sender("http:a", ring[:3]), Sender("http:b", ring[3:], works=lambda second: not 30 <= second < 55)])
    cluster.play(range(54))
    assert set(cluster.states().values()) == {"running"}
    assert "nobody reports on" in str(History(cluster.store).last_window()["note"])
    cluster.play(range(54, 75))
    assert set(cluster.states().values()) == {"running"}
    assert cluster.findings() == []


def test_a_job_that_stops_while_its_source_goes_on_is_reported(play):
    """One of two jobs of a source, in the middle of a step: the others show that the source works."""
    ring = jobs(4)
    ring[3].until_s = 30.0
    cluster = play([Sender("http:a", ring[:2]), Sender("http:b", ring[2:])])
    cluster.play(range(50))
    states = cluster.states()
    assert states["j3"] not in ("running", "slowed")
    assert [states[f"j{n}"] for n in range(3)] == ["running"] * 3


def test_jobs_alone_with_their_sources_that_stop_at_one_moment_have_stopped(play):
    """A switch takes two tenants along: each has a collector of its own, so neither is a dead collector's job."""
    ring = jobs(4)
    ring[2].until_s = ring[3].until_s = 30.0
    cluster = play([Sender(f"http:{job.name}", [job]) for job in ring])
    cluster.play(range(46))
    states = cluster.states()
    assert [states[job.name] for job in ring[:2]] == ["running"] * 2
    assert "running" not in (states["j2"], states["j3"])


def test_files_of_minutes_late_and_out_of_order_are_looked_at_completely(play):
    """Files of 40 s that come 12 s late, two of them in the wrong order."""
    job = RingJob("j0", until_s=100.0)
    other = RingJob("j1", period_s=0.6)
    cluster = play([])
    order = [0, 40, 120, 80, 160, 200]
    for number, begin in enumerate(order):
        cluster.second = 52.0 + 40 * number
        cluster.send("directory:spool", job.records(begin, begin + 40) + other.records(begin, begin + 40))
        cluster.drain()
    made = History(cluster.store).windows(None, None, None, 1000)["items"]
    windows = sorted((one["start_ns"], one["end_ns"]) for one in made)
    reached = windows[0][0]
    for start, end in windows:
        assert start <= reached, "no time is left out"
        reached = max(reached, end)
    assert reached >= BEGIN + 220 * S
    (source,) = [one for one in History(cluster.store).sources() if one["name"] == "directory:spool"]
    assert source.get("unseen", 0) == 0
    (ended,) = [one for one in History(cluster.store).transitions(None, None, None) if one["to"] == "ended"]
    assert abs(ended["at_ns"] - BEGIN - 100 * S) < S
    run = next(run for run in cluster.evaluator.state.runs if run.members[0].startswith("j1"))
    assert run.steps >= 220 / 0.6


def test_late_files_next_to_streams_are_looked_at_in_windows_of_their_own(play):
    """Files of 40 s that come 60 s late, two of them in the wrong order, while others stream. One of the jobs in them
    stops."""
    streamed, filed = RingJob("j0"), RingJob("f0", until_s=110.0)
    other = RingJob("f1", period_s=0.6)
    cluster = play([Sender("http:j0", [streamed])], WindowSettings(hop_s=12))
    files = {100: 0, 140: 40, 220: 80, 180: 120, 260: 160}
    for second in range(262):
        if second in files:
            begin = files[second]
            cluster.send("directory:spool", filed.records(begin, begin + 40) + other.records(begin, begin + 40))
        cluster.play([second])
    history = History(cluster.store)
    (source,) = [one for one in history.sources() if one["name"] == "directory:spool"]
    assert source["received"] == source["stored"]
    assert source.get("unseen", 0) == 0
    found = {run["members"][0].split("-gpu")[0]: run for run in history.runs(limit=100)["items"]}
    assert set(found) == {"j0", "f0", "f1"}
    assert found["f1"]["steps"] >= 180 / 0.6, "no time is left out"
    assert found["f1"]["state"] == found["j0"]["state"] == "running"
    assert found["f0"]["state"] == "ended"
    (ended,) = [one for one in history.transitions(None, None, None) if one["to"] == "ended"]
    assert abs(ended["at_ns"] - BEGIN - 110 * S) < S
    assert cluster.findings() == []
    assert history.late_window()["end_ns"] >= BEGIN + 184 * S
    again = LateEvaluator(LateStore(cluster.config.store, cluster.now_ns), cluster.config, cluster.now_ns)
    assert again.state == cluster.late_evaluator.state
    assert not again.advance(), "a restarted service goes on where it was"


def test_a_first_file_that_counts_as_a_stream_hides_nothing_of_those_that_follow(play):
    """Nobody else sends while the first file comes, so nothing tells that it is late."""
    streamed, filed = RingJob("j0"), RingJob("f0", period_s=0.6)
    cluster = play([Sender("http:j0", [streamed], works=lambda second: second >= 41)], WindowSettings(hop_s=12))
    cluster.second = 41.0
    cluster.send("directory:spool", filed.records(0, 40))
    for second in range(41, 262):
        if second in (100, 140, 180, 220, 260):
            begin = second - 60
            cluster.send("directory:spool", filed.records(begin, begin + 40))
        cluster.play([second])
    late = [run for run in cluster.late_evaluator.state.runs if run.members[0].startswith("f0")]
    assert [run.steps > 100 / 0.6 for run in late] == [True]


def test_what_a_late_file_says_of_a_job_that_is_streamed_is_left_out(play):
    ring = jobs(2)
    cluster = play([Sender("http:a", ring)], WindowSettings(hop_s=12))
    for second in range(145):
        if second in (100, 140):
            cluster.send("directory:spool", ring[1].records(second - 100, second - 60))
        cluster.play([second])
    assert len(cluster.evaluator.state.runs) == 2
    assert cluster.late_evaluator.state.runs == ()


def test_a_job_that_stops_is_reported_soon_also_where_windows_are_made_seldom(play):
    ring = jobs(3)
    ring[2].until_s = 41.0
    cluster = play([Sender("http", ring)])
    cluster.play(range(38))
    cluster.evaluator._took_ns = 20 * S
    cluster.evaluator._plan = replace(cluster.evaluator._plan, next_end=BEGIN + 64 * S)
    for second in range(38, 56):
        cluster.play([second])
        if cluster.states()["j2"] not in ("running", "slowed"):
            break
    assert second - 41 < 15
    made = History(cluster.store).windows(None, None, None, 5)["items"]
    assert made[0]["end_ns"] < BEGIN + 56 * S


@pytest.mark.parametrize(("wrong_s", "away_s"), [(40.0, 9), (-200.0, 9), (40.0, 20)])
def test_a_job_whose_source_has_a_wrong_clock_outlives_an_outage_too(play, wrong_s, away_s):
    """Nothing is taken for a while; then all send what they kept, the one with the wrong clock last and in pieces."""
    ring = jobs(3)
    senders = [Sender(f"http:{job.name}", [job], works=lambda second: not 70 <= second < 70 + away_s) for job in ring]
    senders[2].offset_s = lambda _second: wrong_s
    cluster = play(senders)
    cluster.play(range(70))
    steps_before = steps(cluster)
    cluster.second = 70.0 + away_s
    for sender in senders[:2]:
        cluster.send(sender.name, sender.jobs[0].records(70, 70 + away_s))
    for begin in range(70, 70 + away_s, 3):
        cluster.second += 0.3
        cluster.send(senders[2].name, ring[2].records(begin, min(begin + 3, 70 + away_s)), wrong_s)
    cluster.play(range(70 + away_s, 115))
    assert set(cluster.states().values()) == {"running"}
    assert cluster.findings() == []
    for name, count in steps(cluster).items():
        period = next(job.period_s for job in ring if job.name == name)
        assert count - steps_before[name] >= 36 / period


def test_the_page_names_the_source_and_its_offset(play):
    ring = jobs(3)
    senders = [Sender(f"http:{job.name}", [job]) for job in ring]
    senders[2].offset_s = lambda _second: 90.0
    cluster = play(senders)
    cluster.play(range(12))
    clocks = cluster.store.clocks()
    assert clocks["http:j2", ""].state is ClockState.MOVED
    (shown,) = [one for one in History(cluster.store).sources() if one["name"] == "http:j2"]
    assert shown["clock"]["offset_s"] == pytest.approx(90, abs=1.5)
    assert shown["clock"]["state"] == "moved"
