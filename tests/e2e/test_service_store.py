"""The store on PostgreSQL, also when it goes away for a while."""

import os
import pwd
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")
pytest.importorskip("psycopg", reason="needs llmprism[postgresql]")

from llmprism.service.player import HttpTarget, opened, play
from support.reports import EXAMPLES
from support.service import RunningService, free_port

SLOW_NIC = EXAMPLES / "slow_nic"


class Postgres:
    """A cluster of its own in a folder of its own."""

    def __init__(self, folder):
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not programs:
            pytest.skip("PostgreSQL is not installed: scripts/install-test-deps installs it")
        self.bin, self.folder, self.port = programs[-1].parent, folder, free_port()
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            if shutil.which("setpriv") is None:
                pytest.skip("setpriv is needed to start PostgreSQL as root")
            account = pwd.getpwnam(self.user)
            os.chown(folder, account.pw_uid, account.pw_gid)
            for parent in folder.parents[:3]:
                parent.chmod(0o755)
        self._run("initdb", "-D", str(folder / "db"), "-U", "llmprism", "-A", "trust", "-E", "UTF8")
        self.url = f"postgresql+psycopg://llmprism@127.0.0.1:{self.port}/postgres"

    def _run(self, program, *arguments):
        command = [str(self.bin / program), *arguments]
        if self.user:
            command = ["setpriv", "--reuid", self.user, "--regid", self.user, "--clear-groups", *command]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, timeout=60)

    def start(self):
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run("pg_ctl", "-D", str(self.folder / "db"), "-w", "-o", options, "-l", str(self.folder / "log"), "start")

    def stop(self):
        self._run("pg_ctl", "-D", str(self.folder / "db"), "-w", "-m", "immediate", "stop")


def test_postgresql_holds_the_same_and_may_go_away(tmp_path):
    folder = tmp_path / "pg"
    folder.mkdir()
    database = Postgres(folder)
    database.start()
    running = RunningService(
        tmp_path, "-t", str(SLOW_NIC / "topology.json"), STORE__URL=database.url, WINDOWS__IDLE_AFTER_S=1e6
    ).start()
    try:

        def send():
            with opened([str(SLOW_NIC / "flows.parquet")]) as capture:
                play(capture, HttpTarget(running.url, "test"), speed=4, keep_times=True)

        sender = threading.Thread(target=send)
        sender.start()
        running.until(lambda: running.get("/api/v1/windows")["items"], 60)
        database.stop()
        time.sleep(4)
        database.start()
        sender.join()
        running.until(lambda: running.get("/api/v1/findings")["items"], 60)
        (source,) = running.get("/api/v1/sources")["items"]
        assert source["received"] == source["stored"] == 63_929
        assert running.get("/api/v1/findings")["items"][0]["where"]["id"] == "10.13.0.1"
        running.until(lambda: running.get("/readyz")["ready"], 30)
    finally:
        running.stop()
        database.stop()
