"""Lines over Kafka: whoever wrote them is found in the message, and every line is counted once."""

from types import SimpleNamespace

import pytest

pytest.importorskip("confluent_kafka", reason="needs llmprism[kafka]")

from llmprism.service.config import parse_config
from llmprism.service.config_text import as_toml
from llmprism.service.history import History
from llmprism.service.joblogs.kafka_lines import KafkaLogSource, read_message
from llmprism.service.joblogs.options import KafkaLogSettings
from llmprism.service.joblogs.spool import LogSpool

SETTINGS = KafkaLogSettings("none", "logs")
PODS = KafkaLogSettings("none", "logs", job="kubernetes.labels.job", writer="kubernetes.pod_name", text="log")


class Consumer:
    def __init__(self, *messages):
        self.messages = [
            SimpleNamespace(
                key=lambda k=key: k,
                value=lambda v=value: v,
                error=lambda: None,
                partition=lambda: 3,
                offset=lambda n=n: n,
            )
            for n, (key, value) in enumerate(messages)
        ]
        self.committed = []

    def consume(self, most, _seconds):
        taken, self.messages = self.messages[:most], self.messages[most:]
        return taken

    def commit(self, offsets, asynchronous):
        assert not asynchronous
        self.committed += [(one.partition, one.offset) for one in offsets]


def test_messages_of_shippers_and_of_text():
    message = b'{"log": "step 1", "kubernetes": {"pod_name": "train-7", "labels": {"job": "llama/70b"}}}'
    assert read_message(None, message, PODS) == ("llama-70b", "train-7", b"step 1")
    assert read_message(b"train/rank3", b"step 1\nstep 2", SETTINGS) == ("train", "rank3", b"step 1\nstep 2")
    assert read_message(None, b'{"job": "a", "writer": 3, "message": "x"}', SETTINGS) == ("a", "3", b"x")


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (None, b"", "empty"),
        (b"train", b"x", "no_writer"),
        (None, b"x", "no_writer"),
        (None, b'{"message": "x", "job": "a"}', "no_writer"),
        (b"a/b", b'{"job": "a", "writer": "b"}', "no_text"),
        (b"a/b", b'{"message": ', "unreadable"),
        (b"a/b", b"{" * 100_000, "unreadable"),
        (b"a/b", b'{"message": true, "job": "a", "writer": "b"}', "no_text"),
        (b"a/b", b"x" * 2_000_000, "too_long"),
    ],
)
def test_messages_that_are_none(key, value, why):
    assert read_message(key, value, SETTINGS) == why


def test_names_of_messages_cannot_lead_out():
    job, writer, _ = read_message(b"..//../../etc/passwd", b"x", SETTINGS)
    assert "/" not in job + writer
    assert ".." not in job + writer


def test_lines_are_stored_counted_and_then_committed(store, tmp_path):
    spool = LogSpool(tmp_path / "spool", writer_bytes=10_000, total_bytes=100_000, redactions=("secret",))
    source = KafkaLogSource(SETTINGS, store, spool)
    consumer = Consumer(
        (b"train/rank0", b"one\ntwo"), (b"train/rank1", b"a secret"), (None, b"lost"), (b"train/rank0", b"three")
    )
    assert source.turn(consumer) == 4
    assert (tmp_path / "spool/train/rank0.log").read_text() == "one\ntwo\nthree\n"
    assert (tmp_path / "spool/train/rank1.log").read_text() == "a ***\n"
    (counted,) = History(store).sources()
    assert (counted["name"], counted["received"], counted["stored"]) == ("job_logs:kafka:logs", 5, 4)
    assert counted["dropped"] == {"no_writer": 1}
    assert consumer.committed == [(3, 4)]


def test_the_settings_are_read_and_written():
    text = '[job_logs]\nenabled = true\n[[job_logs.kafka]]\nbrokers = "b:9092"\ntopic = "logs"\nwriter = "pod"\n'
    config = parse_config(text, {}, "x")
    assert config.job_logs.kafka == (KafkaLogSettings("b:9092", "logs", writer="pod"),)
    assert parse_config(as_toml(config), {}, "x") == config
    with pytest.raises(Exception, match="job_logs"):
        parse_config(text.replace("enabled = true", "enabled = false"), {}, "x")
