"""Logs and several workers: lines that come to one worker explain what the flows of another have shown.

Three jobs crash, and nobody knows why. Then their lines come: of the first pushed to a worker that does not make the
windows, of the second over a topic that the workers share, of the third in a folder that whoever leads follows.
"""

from __future__ import annotations

import json
import re
import tarfile
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")
pytest.importorskip("psycopg", reason="needs llmprism[postgresql]")
pytest.importorskip("confluent_kafka", reason="needs llmprism[kafka]")

import confluent_kafka as kafka

from llmprism.service.player import KafkaTarget, opened, play
from support.postgres import Postgres
from support.reports import EXAMPLES
from support.workers import MockKafka, busy_cluster, worker

PATIENCE_S = 120
DEAD_RANK = 6
JOBS = ("crash", "crash", "crash", "slow_nic")
"""The last one goes on for longer, so that windows are made in which the others have stopped."""


@pytest.fixture
def webhook():
    """Everything that is posted to a server of the test's own, in order."""
    heard = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            heard.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    heard_at = f"http://127.0.0.1:{server.server_port}/"
    yield heard, heard_at
    server.shutdown()


@pytest.fixture
def cluster(tmp_path, webhook):
    """Two workers on one database, their brokers and the folder that is followed."""
    brokers = MockKafka()
    flows, topology, _ = busy_cluster(tmp_path, JOBS)
    followed = tmp_path / "followed"
    followed.mkdir()
    with Postgres() as postgres:
        url = postgres.create("logs")
        workers = [worker(tmp_path / "two", f"w{number}", brokers.brokers, url, topology) for number in range(2)]
        for one in workers:
            with (one.folder / "worker.toml").open("a") as config:
                config.write(f'[job_logs]\nenabled = true\nfolders = ["{followed}"]\n')
                config.write(f'[[job_logs.kafka]]\nbrokers = "{brokers.brokers}"\ntopic = "lines"\n')
                config.write(f'[alerts]\nwebhook = ["{webhook[1]}"]\n')
        try:
            for one in workers:
                one.start()
            yield workers, brokers, flows, followed
        finally:
            for one in workers:
                if one.process is not None:
                    one.stop()


def lines_of(number: int) -> dict[str, str]:
    """Writer → text of the logs of one of the jobs, under its own addresses."""
    found = {}
    with tarfile.open(EXAMPLES / "crash" / "logs.tar.gz") as archive:
        for member in archive:
            if member.isfile() and (file := archive.extractfile(member)) is not None:
                text = re.sub(r"\b10(\.1\d\.\d+\.\d+)", rf"{20 + number}\1", file.read().decode())
                found[member.name.rsplit("/", 1)[-1].removesuffix(".log")] = text
    return found


def push(running, job: str, logs: dict[str, str]) -> None:
    for writer, text in logs.items():
        request = urllib.request.Request(f"{running.url}/api/v1/logs?job={job}&writer={writer}", text.encode())
        request.add_header("content-type", "text/plain")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.loads(answer.read())["dropped"] == {}


def send(brokers: str, job: str, logs: dict[str, str]) -> None:
    producer = kafka.Producer({"bootstrap.servers": brokers})
    for writer, text in logs.items():
        for line in text.splitlines():
            producer.produce("lines", line.encode(), key=f"{job}/{writer}")
        producer.poll(0)
    assert producer.flush(60) == 0


def write(folder, logs: dict[str, str]) -> None:
    folder.mkdir()
    for writer, text in logs.items():
        (folder / f"{writer}.log").write_text(text)


def crashes(running):
    return [found for found in running.get("/api/v1/findings")["items"] if found["kind"] == "crash"]


def cause_of(running, found):
    """(rank, class of cause) of a finding; a cause that the first lines gave may change as more come."""
    why = running.get(f"/api/v1/findings/{found['id']}")["why"]
    return why and (why["rank"], why["cause"]["class"])


def test_lines_that_come_to_any_worker_by_any_way_explain_a_finding(cluster, webhook):
    (one, other), brokers, flows, followed = cluster
    heard, _ = webhook
    with opened([str(flows)]) as capture:
        play(capture, KafkaTarget(brokers.brokers, "flows"), speed=0, keep_times=True)

    def findings():
        return crashes(one)

    one.until(lambda: len(findings()) == 3, PATIENCE_S)
    assert [found["why"] for found in findings()] == [None, None, None]
    leader = next(found["name"] for found in one.get("/api/v1/workers")["items"] if found.get("leads"))
    follower = one if one.folder.name != leader else other
    push(follower, "pushed", lines_of(0))
    send(brokers.brokers, "sent", lines_of(1))
    write(followed / "written", lines_of(2))
    one.until(lambda: all(cause_of(one, found) == (DEAD_RANK, "hardware.node") for found in findings()), PATIENCE_S)

    def explained():
        """The cause that each finding was last sent with."""
        return {alert["id"]: alert["annotations"]["cause"] for alert in heard if alert["event"] == "explained"}

    one.until(lambda: list(explained().values()) == ["hardware.node"] * 3, PATIENCE_S)
    places = {f"{20 + number}.10.3.1" for number in range(3)}
    assert {found["where"]["id"] for found in findings()} == places
    for found in findings():
        assert one.get(f"/api/v1/findings/{found['id']}")["why"]["lines"]
        first, *rest = [document for document in heard if document["id"] == found["id"]]
        assert first["event"] == "opened"
        assert "cause" not in first["annotations"]
        assert {document["event"] for document in rest} == {"explained"}
    one.until(lambda: [found["why"] for found in crashes(other)] == [found["why"] for found in findings()], PATIENCE_S)
    ways = {source["name"]: source for source in one.get("/api/v1/sources")["items"] if "job_logs" in source["name"]}
    assert {name.split(":")[1] for name in ways} == {"http", "kafka", "folder"}
    for source in ways.values():
        assert source["received"] == source["stored"] + sum(source["dropped"].values()) > 0
