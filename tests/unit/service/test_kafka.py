"""Messages of one topic: one that looks like another format costs nothing but itself."""

import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("confluent_kafka", reason="needs llmprism[kafka]")

from llmprism.service.config import KafkaSettings
from llmprism.service.history import History
from llmprism.service.intake import Intake, clear_incoming
from llmprism.service.rules.clocks import SourceClockRules
from llmprism.service.sources.kafka import KafkaSource
from unit.service.test_loss import lines


class Consumer:
    def __init__(self, values):
        self.values = [
            SimpleNamespace(value=lambda v=value: v, error=lambda: None, partition=lambda: 0, offset=lambda n=n: n)
            for n, value in enumerate(values)
        ]

    def consume(self, _most, _seconds):
        taken, self.values = self.values, []
        return taken

    def commit(self, **_named):
        pass


@pytest.fixture
def source(store, config):
    clear_incoming(store)
    intake = Intake(store, config)
    thread = threading.Thread(target=intake.run)
    thread.start()
    ticks = iter(range(10**6))
    yield KafkaSource(KafkaSettings("none", "flows", batch_s=2), store, intake, lambda: next(ticks)), intake
    intake.stop()
    thread.join()


GARBAGE = [b"[", b"PAR1", b"\x28\xb5\x2f\xfd", b"\xd4\xc3\xb2\xa1", b"\x1f\x8b", b"\x0c\xa5", b"\0\0", b"nonsense"]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_one_garbage_message_at_the_head_of_a_batch_costs_only_itself(source, store, garbage):
    kafka, intake = source
    kafka._gather(Consumer([garbage, lines(0), lines(10)]), threading.Event())
    intake._write_counts()
    (counted,) = History(store).sources()
    assert (counted["stored"], counted["dropped"]) == (20, {"unreadable": 1})
    assert counted["received"] == 21
    assert store.positions(kafka.name) == {"0": "2"}


def test_a_batch_of_garbage_alone_moves_on(source, store):
    kafka, _ = source
    kafka._gather(Consumer([b"[", None]), threading.Event())
    assert store.positions(kafka.name) == {"0": "1"}


def test_a_service_that_was_killed_has_its_partitions_again_before_windows_stop_waiting_for_them(source):
    kafka, _ = source
    settings = {}

    class Client:
        def Consumer(self, options):  # noqa: N802 - the client's name
            settings.update(options)
            return SimpleNamespace(subscribe=lambda *_, **__: None, close=lambda: None)

    kafka._kafka = Client()
    stop = threading.Event()
    stop.set()
    kafka.run(stop)
    assert 6_000 <= settings["session.timeout.ms"] <= SourceClockRules().restart_ns / 1e6 / 2
