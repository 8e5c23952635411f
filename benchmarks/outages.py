"""What a service depends on, and how it goes away: a PostgreSQL, a Kafka broker, the room on a disk.

Each is real as far as one machine allows: PostgreSQL is the installed one on a port of its own, ended without ceremony
and started again; the broker is librdkafka's, in a process of its own, whose port closes (`mock_brokers`); the disk is
a tmpfs of its own that is filled to the last block (mounting it takes root). Where one cannot be had here,
`UnavailableError` says why.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from running_service import free_port

__all__ = ["Broker", "Postgres", "SmallDisk", "UnavailableError"]

HERE: Final = Path(__file__).parent
BLOCK: Final = 4096


class UnavailableError(Exception):
    """This machine cannot have it; the message says why."""


class Postgres:
    """Started at once, in a folder of its own that PostgreSQL's user may read."""

    name = "PostgreSQL"

    def __init__(self) -> None:
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not programs:
            raise UnavailableError("PostgreSQL is not installed")
        self.bin, self.port = programs[-1].parent, free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="llmprism-pg-"))
        self.prefix: list[str] = []
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self.prefix = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        self._run("initdb", "-U", "llmprism", "-A", "trust", "-E", "UTF8")
        self.url = f"postgresql+psycopg://llmprism@127.0.0.1:{self.port}/postgres"
        self.back()

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self.prefix, str(self.bin / program), "-D", str(self.folder / "db"), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, timeout=120)

    def back(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        self._run("pg_ctl", "-w", "-o", options, "-l", str(self.folder / "log"), "start")

    def away(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def close(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.away()
        shutil.rmtree(self.folder, ignore_errors=True)


class Broker:
    """Keeps its messages while it is away."""

    name = "Kafka"

    def __init__(self, topic: str, partitions: int) -> None:
        command = [sys.executable, str(HERE / "mock_brokers.py"), topic, str(partitions)]
        self._topic, self._partitions = topic, partitions
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.addresses = self._answer()
        if not self.addresses:
            self._process.wait()
            raise UnavailableError("confluent-kafka and its C library are not installed")

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        self._answer()

    def messages(self) -> int:
        """How many were ever written to the topic."""
        import confluent_kafka

        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.addresses, "group.id": "count"})
        try:
            parts = [confluent_kafka.TopicPartition(self._topic, number) for number in range(self._partitions)]
            return sum(consumer.get_watermark_offsets(part, timeout=30)[1] for part in parts)
        finally:
            consumer.close()

    def away(self) -> None:
        self._say("down")

    def back(self) -> None:
        self._say("up")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class SmallDisk:
    """`folder` is a disk of its own. While it is away, it is full."""

    name = "room on the disk"

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise UnavailableError(f"a tmpfs cannot be mounted here ({error})") from error

    def away(self) -> None:
        with contextlib.suppress(OSError), (self.folder / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(64 * BLOCK))
        with contextlib.suppress(OSError), (self.folder / "ballast2").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(BLOCK))

    def back(self) -> None:
        for name in ("ballast", "ballast2"):
            (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=True)
