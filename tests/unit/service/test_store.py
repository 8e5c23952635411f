"""Batches and windows are committed whole or not at all; what is old goes."""

import threading
from dataclasses import replace

import pytest
import sqlalchemy as sql

from llmprism.errors import ConfigError, StoreError
from llmprism.ingest.accept import Accepted
from llmprism.service import schema, window_rows
from llmprism.service.clock_of_source import Clock
from llmprism.service.config import StoreSettings
from llmprism.service.history import History
from llmprism.service.looks import Look
from llmprism.service.rules import RULES
from llmprism.service.store import Batch, SourceBatch, Store, WindowResult
from llmprism.service.tracker import Changes, TrackerState, track
from llmprism.service.windows import WindowPlan

S = 1_000_000_000


def batch(store, name, end_s, source="test", positions=(), stored=5):
    file = store.segment_file(name, int(end_s * S))
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"x")
    accepted = Accepted(stored + 2, stored, 1, (("no_bytes", 2),), int((end_s - 1) * S), int(end_s * S))
    return Batch(name, (SourceBatch(source, accepted, tuple(positions)),), file, 1_000)


def test_counts_add_up_and_positions_move_with_the_batch(store):
    store.commit_batch(batch(store, "one", 10, positions=[("p", "1")]))
    store.commit_batch(batch(store, "two", 12, positions=[("p", "2")]))
    assert store.position("test", "p") == "2"
    (source,) = History(store).sources()
    assert source["received"] == source["stored"] + sum(source["dropped"].values()) == 14
    assert store.watermark() == (12 * S, 1_000)


def test_the_clocks_of_a_batch_are_kept_one_by_one(store):
    one = batch(store, "one", 10)
    store.commit_batch(replace(one, clocks=(Clock("a", wall_ns=1), Clock("b", wall_ns=2))))
    store.commit_batch(replace(batch(store, "two", 11), clocks=(Clock("b", wall_ns=3),)))
    assert {key[0]: clock.wall_ns for key, clock in store.clocks().items()} == {"a": 1, "b": 3}


def test_a_batch_that_comes_twice_changes_nothing(store):
    one = batch(store, "one", 10)
    store.commit_batch(one)
    with pytest.raises(StoreError):
        store.commit_batch(one)
    assert store.committed("one")
    assert [segment.records for segment in store.segments(0, 20 * S)] == [5]
    assert History(store).sources()[0]["received"] == 7


def test_files_that_no_row_names_are_swept(store, config):
    store.commit_batch(batch(store, "kept", 10))
    orphan = store.segment_file("orphan", 10 * S)
    orphan.write_bytes(b"torn")
    store.create()
    assert not orphan.exists()
    assert store.segment_file("kept", 10 * S).exists()


def test_windows_know_the_segment_that_made_them_due(store):
    for number, end in enumerate((10, 20, 15, 30), 1):
        store.commit_batch(batch(store, f"b{number}", end))
    assert store.passed_at(20 * S) == 2
    assert store.passed_at(21 * S) == 4
    assert store.passed_at(99 * S) == 4
    assert [segment.seq for segment in store.segments(12 * S, 25 * S, through_seq=3)] == [2, 3]


def test_old_flows_and_history_expire(store):
    for number, end in enumerate((10, 20, 30), 1):
        store.commit_batch(batch(store, f"b{number}", end))
    gone = store.segments(0, 12 * S)[0].path
    assert store.expire(15 * S, 15 * S) == 1
    assert not gone.exists()
    assert len(store.segments(0, 99 * S)) == 2
    assert store.watermark()[0] == 30 * S


def result(cluster, state, end, findings=()):
    report = cluster.report(end - 60, end, [cluster.job(0, end)], findings)
    tracked, changes = track(state, [Look(report, RULES.windows.length)], RULES)
    messages = tuple(("webhook:http://x", name, "opened", {"id": name}) for name in changes.opened)
    return WindowResult(
        report.window.start_ns, report.window.end_ns, 5, 1, 1, 1, {"jobs": 1}, {"notes": []}, {}, changes, tracked,
        WindowPlan(report.window.end_ns + 4 * S, 60 * S), messages,
    )  # fmt: skip


def test_a_window_is_committed_whole(store, cluster):
    state = TrackerState()
    for end in (20, 24, 28):
        made = result(cluster, state, end, [cluster.finding(15)])
        store.commit_window(made)
        state = made.tracker
    assert store.tracker() == (state, made.plan)
    history = History(store)
    assert history.revision() == "3"
    (finding,) = history.findings()["items"]
    assert finding["phase"] == "open"
    assert finding["advice"]
    assert history.finding(finding["id"])["messages"][0]["status"] == "waiting"
    assert history.run("job-a")["state"] in ("running", "slowed")
    assert len(history.steps("job-a", None, None)) == history.run("job-a")["steps"] > 20


def test_retention_empties_every_table_that_grows(store, cluster):
    """Also runs that nobody has ended, which a time that went back leaves behind."""
    store.commit_batch(batch(store, "b1", 20))
    state = TrackerState()
    for end in (20, 24, 28):
        made = result(cluster, state, end, [cluster.finding(15)])
        store.commit_window(made)
        state = made.tracker
    far = 10**9 * S
    store.expire(far + made.end_ns, far + made.end_ns, far)
    kept = {"state", "counters", "clocks", "positions", "findings"}  # an open finding is still true
    with store.reading() as connection:
        left = {
            table.name: connection.execute(sql.select(sql.func.count()).select_from(table)).scalar()
            for table in schema.metadata.sorted_tables
            if table.name not in kept
        }
    assert set(left.values()) == {0}, left


def test_a_window_that_fails_midway_leaves_nothing(store, cluster, monkeypatch):
    made = result(cluster, TrackerState(), 20)
    monkeypatch.setattr(window_rows, "write_runs", lambda *_: (_ for _ in ()).throw(RuntimeError("power cut")))
    with pytest.raises(RuntimeError):
        store.commit_window(made)
    assert store.tracker() == (TrackerState(), WindowPlan())
    assert History(store).last_window() is None


def test_pages_follow_the_cursor(store, cluster):
    state = TrackerState()
    findings = [cluster.finding(10 + k, place=f"10.0.0.{k}") for k in range(7)]
    for end in (20, 24, 28):
        made = result(cluster, state, end, findings)
        store.commit_window(made)
        state = made.tracker
    seen, cursor = [], None
    while True:
        page = History(store).findings(after=cursor, limit=3)
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 7


def test_threads_share_a_store(store):
    def write(number):
        for index in range(5):
            store.add_counts("test", [("received", "", 1)], [(f"p{number}", str(index))], 1)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert History(store).sources()[0]["received"] == 20


def test_a_state_of_another_version_is_refused(store):
    store.put_state("tracker", '{"version": 99}')
    with pytest.raises(StoreError, match="another version"):
        store.tracker()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mysql://x/y", "not supported"),
        ("postgresql://u:hidden@x:port/y", "port"),
        ("postgresql//u:hidden@x/y", "parse"),
    ],
)
def test_unknown_databases_are_refused(tmp_path, url, why):
    with pytest.raises(ConfigError, match=why) as refused:
        Store(StoreSettings(folder=str(tmp_path), url=url))
    assert "hidden" not in str(refused.value)


def test_no_changes_are_no_changes():
    assert Changes().opened == ()


def test_sources_that_are_not_heard_of_any_more_are_forgotten_and_their_counts_stay(store):
    from llmprism.service.clock_of_source import Clock

    for number, name in enumerate(("http:old", "http:new")):
        one = batch(store, name[5:], 10, source=name, positions=[(name[5:], "1")])
        parts = tuple(replace(part, positions_of="http") for part in one.parts)
        store.commit_batch(replace(one, parts=parts, wall_ns=100 + number * 900, clocks=(Clock(name, wall_ns=1),)))
    store.expire(0, 0, 500)
    assert store.positions("http") == {"new": "1"}
    assert [key[0] for key in store.clocks()] == ["http:new"]
    assert {one["name"]: one["received"] for one in History(store).sources()} == {"http": 7, "http:new": 7}


def test_a_watermark_that_goes_back_takes_earlier_segments_along(store):
    for number, (end, mark) in enumerate(((70, 70), (11, 11), (12, 12)), 1):
        one = replace(batch(store, f"b{number}", end), mark_ns=mark * S)
        store.commit_batch(one)
    assert store.watermark()[0] == 12 * S
    assert store.passed_at(12 * S) == 3
