"""The ranks of the jobs as processes: start, watch, stop at one step, end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.fabric import Fabric, Host, namespace_command
from lab.scenario import JobSpec

__all__ = ["Job", "prepare", "start_job", "wait_for"]

ROOT = Path(__file__).resolve().parents[1]

STEPS_AHEAD = 3
"""The last step is named so many steps ahead: every rank learns of it before it gets there."""


@dataclass
class Job:
    """A running job; `folder` holds the notes of its present attempt, `attempts` all of them."""

    spec: JobSpec
    hosts: list[Host]
    folder: Path
    attempts: list[Path] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def notes(self, rank: int) -> list[dict[str, Any]]:
        """The rank's notes so far; a line that is not complete yet is left out."""
        path = self.folder / f"rank{rank}.jsonl"
        if not path.exists():
            return []
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("}\n")]

    def steps_done(self) -> int:
        path = self.folder / "rank0.jsonl"
        return path.read_text(encoding="utf-8").count('{"kind": "step"') if path.exists() else 0

    def alive(self) -> int:
        return sum(process.poll() is None for process in self.processes)

    def stop(self) -> None:
        """Names the last step to all ranks; the file appears whole."""
        draft = self.folder / "stop.draft"
        draft.write_text(str(self.steps_done() + STEPS_AHEAD))
        draft.rename(self.folder / "stop")

    def signal(self, rank: int, number: signal.Signals) -> None:
        self.processes[rank].send_signal(number)

    def kill(self) -> None:
        """Ends what is left of it; a stopped process must go on before it can end."""
        for process in self.processes:
            for number in (signal.SIGCONT, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    process.send_signal(number)
        for process in self.processes:
            process.wait()


def prepare(job: Job) -> None:
    """Makes the folder of the next attempt."""
    job.folder = job.folder.parent / f"{job.spec.name}.{len(job.attempts)}"
    job.folder.mkdir(parents=True)
    job.attempts.append(job.folder)


def start_job(job: Job, fabric: Fabric, gpu: bool, label: str) -> None:
    """Starts all ranks; `ip netns exec` replaces itself, so a process is the rank."""
    options = {"framework": job.spec.framework, "folder": str(job.folder), **job.spec.options}
    path = job.folder / "options.json"
    path.write_text(json.dumps(options))
    job.processes = []
    for rank, host in enumerate(job.hosts):
        environment = _environment(job, rank, host, fabric, gpu, f"{label}-{len(job.attempts)}")
        command = namespace_command(host.namespace, _interpreter(), "-m", "lab.ranks", str(path))
        with (job.folder / f"rank{rank}.log").open("wb") as log:
            job.processes.append(
                subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
            )


def _interpreter() -> str:
    """The Python that has the frameworks: LAB_PYTHON, else this one."""
    return os.environ.get("LAB_PYTHON") or sys.executable


def _environment(job: Job, rank: int, host: Host, fabric: Fabric, gpu: bool, label: str) -> dict[str, str]:
    """NCCL refuses two ranks on one GPU of one host: each rank says that it is a host of its own."""
    extra = os.environ.get("LAB_PYTHONPATH", "")
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{extra}" if extra else str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "RANK": str(rank),
        "LOCAL_RANK": "0",
        "WORLD_SIZE": str(job.spec.ranks),
        "MASTER_ADDR": job.hosts[0].address,
        "MASTER_PORT": "29500",
        "LAB_ADDRESS": host.address,
        "LAB_STORAGE": fabric.storage.address if fabric.storage else "",
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_HOSTID": f"{label}-{job.spec.name}-{rank}",
        "NCCL_IB_DISABLE": "1",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
        "NCCL_DEBUG": "WARN",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "60",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
        **job.spec.environment,
    }
    if not gpu:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def wait_for(condition: Any, seconds: float, every: float = 0.05) -> bool:
    """Whether a condition came true within so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(every)
    return bool(condition())
