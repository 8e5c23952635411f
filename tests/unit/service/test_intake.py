"""Payloads become segments: counted exactly, refused alone, retried until stored."""

import json
import threading
import time

import pytest

from llmprism.errors import FormatError, StoreError
from llmprism.service.clock_of_source import Clock
from llmprism.service.history import History
from llmprism.service.intake import Intake, Payload, QueueFullError, clear_incoming
from llmprism.service.store import Store

S = 1_000_000_000
NOW = 1_790_000_000 * S


def record(end_s, **changes):
    fields = {
        "start_ns": NOW + int(end_s * S) - 1000,
        "end_ns": NOW + int(end_s * S),
        "src": "a",
        "dst": "b",
        "bytes": 9,
    }
    return json.dumps(fields | changes)


@pytest.fixture
def intake(store, config):
    clear_incoming(store)
    made = Intake(store, config, now_ns=lambda: NOW + 100 * S)
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.stop()
    thread.join()


def payload(store, lines, source="test", position=None):
    path = store.folder / "bodies" / f"{time.monotonic_ns()}.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return Payload(source, path, path.stat().st_size, () if position is None else (position,))


def source_of(store):
    (source,) = History(store).sources()
    return source


def test_every_record_is_stored_or_counted_by_reason(intake, store):
    lines = [
        record(1),
        record(2),
        record(3, bytes=0),
        "nonsense",
        record(4, src=""),
        record(5, end_ns=NOW + 10_000 * S),
    ]
    accepted = intake.put(payload(store, lines, position=("p", "1"))).result(20)
    assert accepted.records == 6
    assert accepted.stored == 2
    assert dict(accepted.dropped) == {"unreadable": 1, "missing_address": 1, "no_bytes": 1, "future": 1}
    source = source_of(store)
    assert source["received"] == source["stored"] + sum(source["dropped"].values())
    assert store.position("test", "p") == "1"


def test_late_records_are_stored_and_counted(intake, store):
    intake.put(payload(store, [record(50)])).result(20)
    accepted = intake.put(payload(store, [record(20), record(49.5)])).result(20)
    assert (accepted.stored, accepted.late) == (2, 1)


def test_records_older_than_the_retention_are_dropped(intake, store):
    intake.put(payload(store, [record(50)])).result(20)
    accepted = intake.put(payload(store, [record(-90_000)])).result(20)
    assert dict(accepted.dropped) == {"too_old": 1}


def test_a_bad_payload_is_refused_alone(intake, store):
    bad = payload(store, ["binary\0garbage"])
    good = payload(store, [record(1)])
    futures = [intake.put(bad), intake.put(good)]
    with pytest.raises(FormatError):
        futures[0].result(20)
    assert futures[1].result(20).stored == 1
    assert source_of(store)["refused"] == {"format": 1}
    assert not bad.path.exists()
    assert not good.path.exists()


def test_a_full_queue_refuses_and_sheds_are_counted(store, config):
    made = Intake(store, config)
    clear_incoming(store)
    big = payload(store, [record(1)])
    big.size = int(config.http.queue_mb * 1e6)
    made.put(big)
    with pytest.raises(QueueFullError):
        made.put(payload(store, [record(1)]))
    made.shed("http", 30, 1000)
    made._write_counts()
    source = source_of(store)
    assert source["received"] == source["dropped"]["overload"] == 30


def test_a_store_that_fails_is_tried_again_and_nothing_counts_twice(intake, store, monkeypatch):
    commits = []
    commit = Store.commit_batch

    def unreliable(self, batch):
        commits.append(batch.id)
        if len(commits) == 1:
            raise StoreError("gone")
        commit(self, batch)
        if len(commits) == 2:
            raise StoreError("the answer was lost")

    monkeypatch.setattr(Store, "commit_batch", unreliable)
    assert intake.put(payload(store, [record(1)])).result(30).stored == 1
    assert source_of(store)["received"] == 1
    assert intake.trouble == ""
    assert len(set(commits)) == 1


def test_the_watermark_that_is_kept_is_that_of_the_store(intake, store, monkeypatch):
    commit, lost = Store.commit_batch, []

    def unreliable(self, batch):
        commit(self, batch)
        if len(lost) < 1:
            lost.append(batch.id)
            raise StoreError("the answer was lost")

    for number, lines in enumerate(([record(1)], [record(50)], [record(20)], [record(60, bytes=0)])):
        if number == 1:
            monkeypatch.setattr(Store, "commit_batch", unreliable)
        intake.put(payload(store, lines)).result(30)
        assert intake._watermark() == store.watermark()[0] >= NOW
    assert lost


def test_the_store_does_not_read_what_the_intake_has_written(intake, store, monkeypatch):
    intake.put(payload(store, [record(1)])).result(20)
    monkeypatch.setattr(Store, "watermark", None)
    monkeypatch.setattr(Store, "committed", None)
    assert intake.put(payload(store, [record(2)])).result(20).stored == 1


def test_a_full_disk_is_trouble_until_there_is_room(intake, store, monkeypatch):
    import llmprism.service.intake as module

    real, failures = module.accept_parts, []

    def full(*arguments, **named):
        if len(failures) < 2:
            failures.append(intake.trouble)
            raise OSError("No space left on device")
        return real(*arguments, **named)

    monkeypatch.setattr(module, "accept_parts", full)
    assert intake.put(payload(store, [record(1)])).result(30).stored == 1
    assert failures[1] == "No space left on device"
    assert intake.trouble == ""


@pytest.mark.parametrize(("away_s", "waits"), [(20, True), (5, True), (1, False)])
def test_after_an_outage_of_the_store_windows_wait_for_those_that_sent_until_it_began(
    store, config, monkeypatch, away_s, waits
):
    """They come back one after the other; windows that are made without one show its jobs silent."""
    clear_incoming(store)
    now = [100]
    intake = Intake(store, config, now_ns=lambda: NOW + now[0] * S)
    thread = threading.Thread(target=intake.run)
    thread.start()
    commit, outage = Store.commit_batch, []

    def unreliable(self, batch):
        if outage:
            now[0] += outage.pop()
            raise StoreError("gone")
        commit(self, batch)

    def send(source, second):
        now[0] = max(now[0], second)
        lines = [record(second - 1 + at / 40) for at in range(40)]
        assert intake.put(payload(store, lines, source=source)).result(20).stored == 40

    monkeypatch.setattr(Store, "commit_batch", unreliable)
    try:
        for second in range(100, 104):
            send("http:a", second)
            send("http:b", second)
        outage += [away_s, 0]
        send("http:a", 104)
        back = now[0]
        send("http:a", back + 1)
        assert (store.watermark()[0] <= NOW + 104 * S) == waits
        send("http:b", 104)
        send("http:b", back + 2)
        send("http:a", back + 2)
        assert store.watermark()[0] > NOW + (back + 1) * S
    finally:
        intake.stop()
        thread.join()


@pytest.fixture
def intake_at(store, config):
    """An intake whose clock stands at what is sent: itself, what sends a second of a source, and the watermark."""
    clear_incoming(store)
    now = [100]
    made = Intake(store, config, now_ns=lambda: NOW + now[0] * S)
    thread = threading.Thread(target=made.run)
    thread.start()

    def send(source, second):
        now[0] = max(now[0], second)
        lines = [record(second - 1 + at / 40) for at in range(40)]
        assert made.put(payload(store, lines, source=source)).result(20).stored == 40

    yield made, send, lambda: store.watermark()[0]
    made.stop()
    thread.join()


def test_while_room_comes_and_goes_windows_wait_for_those_that_were_turned_away(intake_at):
    """Small bodies of one source are stored, those of the other are not; it is back after eight seconds."""
    intake, send, mark = intake_at
    for second in range(100, 104):
        send("http:a", second)
        send("http:b", second)
    for second in range(104, 112):
        intake.cannot_keep("http:b", "No space left on device")
        send("http:a", second)
    assert mark() <= NOW + 104 * S
    for second in range(104, 113):
        send("http:b", second)
    send("http:a", 113)
    assert mark() > NOW + 110 * S


def test_a_source_that_was_turned_away_and_stays_away_is_not_waited_for_for_ever(intake_at):
    intake, send, mark = intake_at
    send("http:a", 100)
    send("http:b", 100)
    intake.cannot_keep("http:b", "No space left on device")
    for second in range(101, 240):
        send("http:a", second)
    assert mark() > NOW + 220 * S


def test_a_service_that_starts_again_waits_for_those_that_sent_until_it_ended(store, config, monkeypatch):
    clocks = [Clock("a", lag_ns=S, wall_ns=NOW), Clock("b", lag_ns=S, wall_ns=NOW - 5 * S)]
    clocks.append(Clock("c", lag_ns=S, wall_ns=NOW - 60 * S))
    monkeypatch.setattr(store, "clocks", lambda: {one.key: one for one in clocks})
    known = Intake(store, config, now_ns=lambda: NOW + 100 * S)._known_clocks()
    assert [one.source for one in known.values() if one.waits_since_ns] == ["a", "b"]
