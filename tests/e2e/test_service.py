"""The service as operators run it: replay, crash and restart, sources, shutdown."""

import random
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")

from llmprism.service.player import HttpTarget, KafkaTarget, opened, play
from support.reports import EXAMPLES
from support.service import RunningService

SLOW_NIC = EXAMPLES / "slow_nic"


@pytest.fixture
def service(tmp_path):
    started = []

    def start(*arguments, **settings):
        one = RunningService(tmp_path, *arguments, **settings).start()
        started.append(one)
        return one

    yield start
    for one in started:
        one.stop()


def findings(running):
    return [
        (one["kind"], one["where"]["id"], one["phase"], one["start_ns"], one["end_ns"], one["lost_gpu_seconds"])
        for one in running.get("/api/v1/findings")["items"]
    ]


def results(running):
    """Everything that a run leaves behind, except when it was computed."""
    (job,) = running.get("/api/v1/jobs")["items"]
    windows = running.get("/api/v1/windows?limit=1000")["items"]
    return {
        "findings": running.get("/api/v1/findings")["items"],
        "job": job,
        "steps": running.get(f"/api/v1/jobs/{job['id']}/steps")["items"],
        "transitions": running.get("/api/v1/transitions")["items"],
        "windows": [{key: value for key, value in one.items() if key not in ("wall_ns", "took_ms")} for one in windows],
        "sources": [
            {key: value for key, value in one.items() if key not in ("clock", "exporters", "repeated_requests")}
            for one in running.get("/api/v1/sources")["items"]
        ],
    }


def test_a_replay_gives_the_findings_of_diagnose(service):
    from llmprism.ingest import read_flows, read_topology
    from llmprism.pipeline import diagnose

    running = service("-t", str(SLOW_NIC / "topology.json"), WINDOWS__IDLE_AFTER_S=1e6)
    with opened([str(SLOW_NIC / "flows.parquet")]) as capture:
        play(capture, HttpTarget(running.url, "test"), speed=0, keep_times=True)
    flows = read_flows([SLOW_NIC / "flows.parquet"])
    last = flows.window.end_ns
    seen = last - 7 * 10**9
    running.until(lambda: any(one["end_ns"] > seen for one in running.get("/api/v1/windows")["items"]), 60)
    whole = diagnose(flows, read_topology(SLOW_NIC / "topology.json"), with_events=False)
    assert [(kind, place) for kind, place, *_ in findings(running)] == [
        (one.kind.value, one.where.id) for one in whole.findings
    ]
    (found,) = findings(running)
    assert abs(found[3] - whole.findings[0].start_ns) < 10**9
    assert abs(found[4] - whole.findings[0].end_ns) < 10**9
    (job,) = running.get("/api/v1/jobs")["items"]
    assert job["id"] == whole.jobs[0].job.id
    (source,) = running.get("/api/v1/sources")["items"]
    assert source["received"] == source["stored"] == flows.counts.records


def test_kill_9_at_random_moments_changes_nothing(tmp_path):
    """The same capture, once undisturbed and once with the service killed again and again while records arrive."""

    def run(folder, kills):
        folder.mkdir()
        settings = {"WINDOWS__IDLE_AFTER_S": 1e6, "WINDOWS__FIXED_HOP": "true"}
        running = RunningService(folder, "-t", str(SLOW_NIC / "topology.json"), **settings).start()
        sender = threading.Thread(target=send, args=(running,))
        sender.start()
        chance = random.Random(7)
        for _ in range(kills):
            time.sleep(chance.uniform(0.2, 2.5))
            running.kill()
            running.start()
        sender.join()
        last = running.until(lambda: running.get("/api/v1/windows")["items"], 60)[0]["end_ns"]
        running.until(lambda: running.get("/api/v1/windows")["items"][0]["end_ns"] >= last, 60)
        running.until(lambda: len(running.get("/api/v1/windows")["items"]) >= 7, 60)
        made = results(running)
        running.stop()
        return made

    def send(running):
        with opened([str(SLOW_NIC / "flows.parquet")]) as capture:
            play(capture, HttpTarget(running.url, "test", retries=300), speed=8, keep_times=True)

    with ThreadPoolExecutor(2) as pool:
        killed, calm = pool.map(run, (tmp_path / "killed", tmp_path / "calm"), (3, 0))
    assert killed == calm


def test_files_dropped_into_a_folder_are_taken_once(service, tmp_path):
    drop = tmp_path / "drop"
    drop.mkdir()
    running = service("--watch", str(drop))
    (drop / ".hidden.parquet").write_bytes(b"x")
    (drop / "growing.parquet.tmp").write_bytes(b"x")
    (drop / "bad.csv").write_text("this,is,no\nflow,record,file\n")
    shutil.copy(SLOW_NIC / "flows.parquet", drop / "flows.parquet")

    def source():
        return next((one for one in running.get("/api/v1/sources")["items"] if one.get("stored")), None)

    found = running.until(source, 60)
    running.until(lambda: source()["refused"], 60)
    assert found["received"] == found["stored"] == 63_929
    running.stop()
    running.start()
    time.sleep(3)
    assert source()["received"] == 63_929


def test_kafka_records_arrive_once(service, tmp_path):
    kafka = pytest.importorskip("confluent_kafka", reason="needs llmprism[kafka]")
    helper = kafka.Producer({"test.mock.num.brokers": 1})
    metadata = helper.list_topics(timeout=10)
    brokers = ",".join(f"{broker.host}:{broker.port}" for broker in metadata.brokers.values())
    config = tmp_path / "kafka.toml"
    config.write_text(f'[[kafka]]\nbrokers = "{brokers}"\ntopic = "flows"\n')
    with opened([str(EXAMPLES / "crash" / "flows.parquet")]) as capture:
        play(capture, KafkaTarget(brokers, "flows"), speed=0)
    running = service("--config", str(config))

    def stored():
        return sum(one.get("stored", 0) for one in running.get("/api/v1/sources")["items"])

    running.until(lambda: stored() == 25_090, 60)
    running.kill()
    running.start()
    time.sleep(4)
    assert stored() == 25_090


def test_a_shutdown_is_orderly(service):
    running = service()
    assert running.stop() == 0
    assert "Traceback" not in running.log.read_text()


def test_top_shows_the_picture(service, capsys, monkeypatch):
    from llmprism.cli import main

    running = service("-t", str(SLOW_NIC / "topology.json"))
    with opened([str(SLOW_NIC / "flows.parquet")]) as capture:
        play(capture, HttpTarget(running.url, "test"), speed=0, keep_times=True)
    running.until(lambda: running.get("/api/v1/findings")["items"], 60)
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["top", running.url, "--once"]) == 0
    shown = capsys.readouterr().out
    assert "job-" in shown
    assert "pp2 dp4" in shown
    assert main(["top", "http://127.0.0.1:9", "--once"]) == 1
