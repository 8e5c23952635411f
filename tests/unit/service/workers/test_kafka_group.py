"""A batch holds all messages of its range, whatever fails in between."""

import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("confluent_kafka", reason="needs llmprism[kafka]")

import confluent_kafka as kafka

from llmprism.errors import StoreError
from llmprism.service.config import KafkaSettings, WorkerSettings
from llmprism.service.sources import kafka_group
from llmprism.service.sources.kafka_group import KafkaGroupSource
from llmprism.service.workers.shared_store import UNREAD

PART = "kafka:flows/0"


class Message:
    def __init__(self, offset, error=None):
        self._offset, self._error = offset, error

    def partition(self):
        return 0

    def offset(self):
        return self._offset

    def value(self):
        return f"{{m{self._offset}}}".encode()

    def error(self):
        return self._error and SimpleNamespace(code=lambda: self._error)


class Topic:
    """A topic of one partition and its only consumer."""

    def __init__(self, offsets):
        self.offsets, self.at = offsets, 0

    def consume(self, _most, _seconds):
        found = [Message(offset) for offset in self.offsets if offset >= self.at][:3]
        if not found:
            return [Message(0, kafka.KafkaError._PARTITION_EOF)]
        self.at = found[-1].offset() + 1
        return found

    def seek(self, place):
        self.at = max(place.offset, 0)

    def assign(self, partitions):
        self.seek(partitions[0])

    def commit(self, **_named):
        pass

    def list_topics(self, *_arguments):
        return SimpleNamespace(topics={"flows": SimpleNamespace(partitions={0: None})})


class Shared:
    """What the source asks of the store, and what it was told."""

    def __init__(self, folder):
        self.folder, self.position, self.empty, self.away = folder, UNREAD, [], False
        (folder / "bodies").mkdir()

    def register(self, names):
        assert list(names) == [PART]

    def take_over(self, names):
        return dict.fromkeys(names, self.position)

    def positions_of(self, names):
        if self.away:
            raise StoreError("away")
        return dict.fromkeys(names, self.position)

    def affirm_empty(self, positions):
        self.empty.append(positions)


class Taker:
    """An intake that commits at once, as the store's compare and swap would."""

    def __init__(self, store):
        self.store, self.taken, self.counts = store, [], {}

    def put(self, payload, wait=False):
        ((_, span),) = payload.positions
        first, _, end = span.partition(":")
        if int(first) == self.store.position:
            self.taken += payload.path.read_text().split()
            self.store.position = int(end)
        done = Future()
        done.set_result(None)
        return done

    def count(self, source, name, reason, value):
        self.counts[name] = self.counts.get(name, 0) + value


@pytest.fixture
def parts(tmp_path, monkeypatch):
    monkeypatch.setattr(kafka_group, "RETRY_S", 0.0)
    store = Shared(tmp_path)
    intake = Taker(store)
    ticks = iter(range(10**6))
    source = KafkaGroupSource(
        KafkaSettings("none", "flows", batch_s=2), WorkerSettings(), store, intake, lambda: next(ticks)
    )
    return source, store, intake


def assigned(source, topic):
    source._on_assign(topic, [kafka.TopicPartition("flows", 0)])


def run(source, topic, turns=8):
    for _ in range(turns):
        source._turn(topic, threading.Event())


def names(offsets):
    return [f"{{m{offset}}}" for offset in offsets]


def test_all_messages_are_taken_in_order_and_the_end_is_reported(parts):
    source, store, intake = parts
    topic = Topic(range(10))
    assigned(source, topic)
    run(source, topic)
    assert intake.taken == names(range(10))
    assert store.empty[-1] == {PART: 10}
    assert source.partitions == (0,)


def test_a_disk_that_fails_costs_no_message(parts, monkeypatch):
    source, _, intake = parts
    topic, failures = Topic(range(10)), []
    keep = source._keep

    def fails(message):
        if message.offset() in (1, 5) and message.offset() not in failures:
            failures.append(message.offset())
            raise OSError("No space left on device")
        keep(message)

    monkeypatch.setattr(source, "_keep", fails)
    assigned(source, topic)
    run(source, topic, 12)
    assert failures == [1, 5]
    assert intake.taken == names(range(10))
    assert source.trouble == ""


def test_a_store_that_is_away_costs_no_message(parts):
    source, store, intake = parts
    topic = Topic(range(10))
    assigned(source, topic)
    store.away = True
    run(source, topic, 3)
    assert source.trouble == "away"
    store.away = False
    run(source, topic)
    assert intake.taken == names(range(10))


def test_what_another_worker_stored_is_not_stored_again(parts):
    source, store, intake = parts
    topic = Topic(range(10))
    assigned(source, topic)
    store.position = 4
    run(source, topic)
    assert intake.taken == names(range(4, 10))


def test_a_partition_that_is_taken_away_is_forgotten_and_read_again(parts):
    source, store, intake = parts
    topic = Topic(range(10))
    assigned(source, topic)
    source._keep(Message(0))
    source._on_revoke(topic, [kafka.TopicPartition("flows", 0)])
    assert source.partitions == ()
    assert list((store.folder / "bodies").iterdir()) == []
    assigned(source, topic)
    run(source, topic)
    assert intake.taken == names(range(10))


def test_offsets_that_the_topic_has_lost_are_counted(parts):
    source, _, intake = parts
    topic = Topic([0, 1, 2, 7, 8])
    assigned(source, topic)
    run(source, topic)
    assert intake.taken == names([0, 1, 2, 7, 8])
    assert intake.counts == {"skipped_offsets": 4}
