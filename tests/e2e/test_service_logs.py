"""Logs and the running service: a crash that the flows showed gains its cause when the lines are pushed."""

from __future__ import annotations

import json
import tarfile
import threading
import time
import urllib.request
from collections import defaultdict

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")

from llmprism.service.config import StoreSettings
from llmprism.service.history import History
from llmprism.service.joblogs.kafka_lines import KafkaLogSource
from llmprism.service.joblogs.options import KafkaLogSettings
from llmprism.service.joblogs.spool import LogSpool
from llmprism.service.player import HttpTarget, opened, play
from llmprism.service.store import Store
from support.reports import EXAMPLES
from support.service import RunningService, clock_from_a_minute

CRASH = EXAMPLES / "crash"
PATIENCE_S = 120


@pytest.fixture
def service(tmp_path):
    settings = {"JOB_LOGS__ENABLED": "true", "WINDOWS__IDLE_AFTER_S": 2, "JOB_LOGS__REDACT": "misc/socket.cc"}
    running = RunningService(tmp_path, "-t", str(CRASH / "topology.json"), **settings).start()
    yield running
    running.stop()


def push(service, writer: str, text: bytes) -> dict[str, int]:
    request = urllib.request.Request(f"{service.url}/api/v1/logs?job=train&writer={writer}", text)
    request.add_header("content-type", "text/plain")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def test_a_finding_gains_its_cause_from_lines_that_are_pushed_later(service):
    with opened([str(CRASH / "flows.parquet")]) as capture:
        play(capture, HttpTarget(service.url, "test"), speed=0, now_ns=clock_from_a_minute())
    service.until(lambda: service.get("/api/v1/findings")["items"], PATIENCE_S)
    (bare,) = service.get("/api/v1/findings")["items"]
    assert (bare["kind"], bare["why"]) == ("crash", None)
    sent = 0
    with tarfile.open(CRASH / "logs.tar.gz") as archive:
        for member in archive:
            if member.isfile() and (file := archive.extractfile(member)) is not None:
                answer = push(service, member.name.rsplit("/", 1)[-1].removesuffix(".log"), file.read())
                assert answer["received"] == answer["stored"] + sum(answer["dropped"].values())
                sent += answer["received"]
    service.until(lambda: service.get(f"/api/v1/findings/{bare['id']}")["why"], PATIENCE_S)
    found = service.get(f"/api/v1/findings/{bare['id']}")
    assert (found["why"]["rank"], found["where"]["id"]) == (6, "10.10.3.1")
    assert found["start_ns"] == bare["start_ns"]
    assert not any("misc/socket.cc" in line["text"] for line in found["why"]["lines"])
    (counted,) = [one for one in service.get("/api/v1/sources")["items"] if one["name"] == "job_logs:http"]
    assert counted["received"] == counted["stored"] == sent
    logs = service.get(f"/api/v1/jobs/{found['job']}/logs")["logs"]
    assert [seat["address"] for seat in logs["ranks"]][6] == "10.10.3.1"


def test_two_workers_share_a_topic_of_lines(tmp_path):
    """Real consumers of one group over librdkafka's own cluster: no line is lost, all are counted."""
    kafka = pytest.importorskip("confluent_kafka", reason="needs llmprism[kafka]")
    workers = pytest.importorskip("support.workers")
    cluster = workers.MockKafka()
    store = Store(StoreSettings(folder=str(tmp_path / "data")))
    store.create()
    producer = kafka.Producer({"bootstrap.servers": cluster.brokers})
    wanted = {f"rank{rank}": {f"line {number} of rank {rank}" for number in range(25)} for rank in range(8)}
    for writer, lines in wanted.items():
        for line in lines:
            producer.produce("lines", line.encode(), key=f"train/{writer}")
    producer.produce("lines", b"nobody's")
    assert producer.flush(60) == 0
    stop = threading.Event()
    settings = KafkaLogSettings(cluster.brokers, "lines")
    spools = [LogSpool(tmp_path / f"kafka@w{n}", writer_bytes=10**6, total_bytes=10**7) for n in range(2)]
    sources = [KafkaLogSource(settings, store, spool) for spool in spools]
    threads = [threading.Thread(target=source.run, args=(stop,)) for source in sources]
    for thread in threads:
        thread.start()
    # partitions that change hands between reading and committing are read twice: lines may repeat, none is lost
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and not (
        _spooled(tmp_path) == wanted and _counted(store)["dropped"].get("no_writer")
    ):
        time.sleep(0.2)
    stop.set()
    for thread in threads:
        thread.join(60)
    counted = _counted(store)
    store.close()
    assert counted["received"] == counted["stored"] + counted["dropped"]["no_writer"] >= 201
    assert _spooled(tmp_path) == wanted


def _spooled(folder):
    """Writer → the lines that either worker has of it."""
    found = defaultdict(set)
    for path in folder.glob("kafka@w*/train/*.log"):
        found[path.stem] |= set(path.read_text().splitlines())
    return found


def _counted(store):
    (counted,) = History(store).sources() or [{"received": 0, "dropped": {}}]
    return counted
