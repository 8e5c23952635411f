"""A PostgreSQL of the tests' own; tests skip with a message where it is not installed."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from support.service import free_port


class Postgres:
    """A cluster of its own in a folder of its own, started in a `with` block and removed at its end.

    The folder is not in pytest's: PostgreSQL runs as another user than root, and every session of pytest that starts
    closes the folder of all sessions to other users.
    """

    def __init__(self):
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not programs:
            pytest.skip("PostgreSQL is not installed: scripts/install-test-deps installs it")
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user and shutil.which("setpriv") is None:
            pytest.skip("setpriv is needed to start PostgreSQL as root")
        self.bin, self.port = programs[-1].parent, free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="llmprism-pg-"))
        if self.user:
            account = pwd.getpwnam(self.user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self._run("initdb", "-D", str(self.folder / "db"), "-U", "llmprism", "-A", "trust", "-E", "UTF8")
        self.url = f"postgresql+psycopg://llmprism@127.0.0.1:{self.port}/postgres"

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *error):
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def create(self, name):
        """The URL of a new database."""
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "llmprism", name)
        return self.url.replace("/postgres", f"/{name}")

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
