"""What operators do wrong and strangers do on purpose: the service goes on and says what is the matter."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")

from llmprism.service.player import HttpTarget, opened, play
from support.reports import EXAMPLES
from support.service import ROOT, RunningService, free_port


@pytest.fixture
def running(tmp_path):
    made = RunningService(tmp_path, WINDOWS__IDLE_AFTER_S=1e6, HTTP__BODY_TIMEOUT_S=3).start()
    yield made
    made.stop()


def children(process):
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def test_a_second_service_on_the_same_folder_is_refused(running):
    command = [sys.executable, "-m", "llmprism", "serve", "--port", str(free_port()), "--data", str(running.data)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert ended.returncode == 1
    assert f"in use by another llmprism serve (process {running.process.pid})" in ended.stderr
    assert running.get("/healthz")["status"] == "ok"


def test_silent_connections_turn_nobody_away(running):
    """As many as the server takes at all, and more."""
    silent = []
    for _ in range(2_100):
        probe = socket.create_connection(("127.0.0.1", running.port), 10)
        silent.append(probe)
    try:
        assert running.get("/healthz")["status"] == "ok"
        assert running.get("/api/v1/overview")["troubles"] == []
    finally:
        for probe in silent:
            probe.close()


def test_a_body_that_never_ends_is_given_up(running):
    with socket.create_connection(("127.0.0.1", running.port), 20) as slow:
        head = (
            "POST /api/v1/flows HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: text/csv\r\ncontent-length: 100000\r\n\r\n"
        )
        slow.sendall(head.encode() + b"start_ns,")
        begun = time.monotonic()
        answer = slow.recv(200)
    assert b" 408 " in answer.split(b"\r\n")[0]
    assert time.monotonic() - begun < 15


def test_a_killed_timeline_process_is_started_again(running):
    with opened([str(EXAMPLES / "crash" / "flows.parquet")]) as capture:
        play(capture, HttpTarget(running.url, "test"), speed=0, keep_times=True)
    (job,) = running.until(lambda: running.get("/api/v1/jobs")["items"], 60)
    path = f"{running.url}/api/v1/jobs/{job['id']}/timeline"
    before = set(children(running.process))
    urllib.request.urlopen(path, timeout=60).read()
    (timelines,) = set(children(running.process)) - before
    os.kill(timelines, signal.SIGKILL)
    time.sleep(0.5)
    answers = []
    for _ in range(3):
        try:
            answers.append(urllib.request.urlopen(path, timeout=60).status)
        except urllib.error.HTTPError as error:
            answers.append(error.code)
    assert answers[-1] == 200
    assert set(answers) <= {200, 503}


def test_doctor_says_what_a_service_and_its_surroundings_lack(running, tmp_path):
    settings = tmp_path / "llmprism.toml"
    settings.write_text(
        f'[store]\nfolder = "{running.data}"\n[[directory]]\npath = "{tmp_path}/nowhere"\n'
        f'[alerts]\nwebhook = ["http://127.0.0.1:{free_port()}/secret"]\n'
    )
    command = [sys.executable, "-m", "llmprism", "doctor", running.url, "-c", str(settings), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr
    results = {(one["level"], one["subject"]): one for one in json.loads(ended.stdout)}
    assert "does not exist" in results["problem", "source"]["text"]
    assert "cannot be reached" in results["problem", "alerts"]["text"]
    assert "secret" not in ended.stdout
    assert results["ok", "service"]["text"] == "it is ready"
    assert results["ok", "database"]
    strict = subprocess.run(
        [*command, "--fail-on", "problem"], capture_output=True, timeout=60, env=environment, check=False
    )
    assert strict.returncode == 2
