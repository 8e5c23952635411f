"""Records one scenario: fabric, neighbours, capture, jobs, faults; then everything it made is removed.

The result is a folder with the packets of every leaf, the notes and logs of every rank and `run.json`. Whatever
happens, Ctrl-C included, processes are ended and namespaces removed on the way out.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab import fabric as fabrics
from lab.capture import Capture
from lab.fabric import Fabric, namespace_command
from lab.faults import FaultDriver
from lab.jobs import ROOT, Job, prepare, start_job, wait_for
from lab.scenario import Scenario

__all__ = ["record", "sole_user"]

TOOLS = {"ip": "iproute2", "tc": "iproute2", "tcpdump": "tcpdump", "ethtool": "ethtool"}

QUIET_S = 2.0
"""Seconds that are recorded after the last job has ended."""

END_S = 20.0
"""Seconds that a job is given to end after its last step was named."""


def record(scenario: Scenario, folder: Path, gpu: bool, tag: str = "lp") -> dict[str, Any]:
    """Runs the scenario; what happened is returned and written to `run.json`."""
    _need_root_and_tools()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts it in the background ignores Ctrl-C
    with contextlib.ExitStack() as stack:
        stack.enter_context(sole_user(tag))
        stack.callback(fabrics.remove, tag)
        fabric = fabrics.build(scenario, tag)
        processes: list[subprocess.Popen[bytes]] = []
        stack.callback(_end, processes)
        relays = _start_relays(fabric, folder, processes)
        _start_neighbours(scenario, fabric, processes)
        places = fabrics.place_ranks(scenario)
        hosts = {spec.name: [fabric.hosts[i] for i in places[spec.name]] for spec in scenario.jobs}
        jobs = {spec.name: Job(spec, hosts[spec.name], folder / "jobs" / "new") for spec in scenario.jobs}
        stack.callback(_kill, jobs)
        begin = time.time_ns()
        capture = Capture(fabric, folder)
        driver = FaultDriver(scenario, fabric, jobs, relays)
        for job in jobs.values():
            prepare(job)
        driver.before_start()
        driver.start()
        dropped = 0
        try:
            failed = _train(scenario, fabric, jobs, driver, gpu)
        finally:
            driver.stop()
            end = time.time_ns()
            dropped = capture.stop()
        run = {
            "scenario": asdict(scenario),
            "fabric": fabric.notes(),
            "placement": {name: [host.address for host in held] for name, held in hosts.items()},
            "attempts": {name: [path.name for path in job.attempts] for name, job in jobs.items()},
            "faults": driver.records,
            "failed": failed,
            "start": begin,
            "end": end,
            "dropped_packets": dropped,
            "machine": _machine(gpu),
        }
    (folder / "run.json").write_text(json.dumps(run))
    return run


@contextlib.contextmanager
def sole_user(tag: str) -> Iterator[None]:
    """Holds the names that begin with `tag` for this process; the kernel gives them free however it ends."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as held:
        try:
            held.bind(f"\0llmprism-lab-{tag}")
        except OSError as error:
            raise RuntimeError(f"a lab with the tag {tag!r} is running: wait for it, or give another --tag") from error
        yield


def _need_root_and_tools() -> None:
    if os.geteuid() != 0:
        raise RuntimeError("the lab makes network namespaces: run it as root")
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if missing:
        raise RuntimeError(f"tools are missing: apt-get install {' '.join(dict.fromkeys(missing))}")


def _train(scenario: Scenario, fabric: Fabric, jobs: dict[str, Job], driver: FaultDriver, gpu: bool) -> list[str]:
    """Starts every job, stops each after its time, waits for the end; names of jobs that never began a step."""
    failed: list[str] = []
    watchers = [
        threading.Thread(target=_watch, args=(scenario, fabric, job, driver, gpu, failed), daemon=True)
        for job in jobs.values()
    ]
    for watcher in watchers:
        watcher.start()
    while any(watcher.is_alive() for watcher in watchers):
        time.sleep(0.1)
    time.sleep(QUIET_S)
    return failed


def _watch(scenario: Scenario, fabric: Fabric, job: Job, driver: FaultDriver, gpu: bool, failed: list[str]) -> None:
    """One job from its start to its end."""
    time.sleep(job.spec.start_s)
    start_job(job, fabric, gpu, scenario.name)
    if not _began(job, scenario.startup_s):
        failed.append(job.spec.name)
        job.kill()
        return
    end = time.monotonic() + job.spec.seconds
    restarted = False
    while time.monotonic() < end and job.alive():
        if job.spec.restart_s and not restarted and job.alive() < job.spec.ranks:
            restarted = True
            time.sleep(job.spec.restart_s)
            job.kill()
            prepare(job)
            start_job(job, fabric, gpu, scenario.name)
            if not _began(job, scenario.startup_s):
                failed.append(job.spec.name)
                return
            end = max(end, time.monotonic() + job.spec.seconds / 2)
        time.sleep(0.1)
    if job.spec.name in driver.deadly:
        wait_for(lambda: job.alive() == 0, scenario.after_fault_s)
    else:
        job.stop()
        wait_for(lambda: job.alive() == 0, END_S)
    if job.alive() and job.spec.name not in driver.deadly:
        failed.append(job.spec.name)
    job.kill()


def _began(job: Job, seconds: float) -> bool:
    """Whether the job has done a step; a rank that ends before that ends the wait."""
    wait_for(lambda: job.steps_done() >= 1 or job.alive() < job.spec.ranks, seconds, every=0.1)
    return job.steps_done() >= 1


def _start_relays(fabric: Fabric, folder: Path, processes: list[subprocess.Popen[bytes]]) -> dict[int, Any]:
    relays: dict[int, Any] = {}
    program = os.environ.get("LAB_RELAY", "")
    for host in fabric.hosts:
        if host.relay is None:
            continue
        if not program:
            program = str(folder / "relay")
            fabrics.shell("cc", "-O2", "-o", program, str(Path(__file__).with_name("relay.c")))
        control = folder / f"relay{host.index}.control"
        control.write_text("0 0\n")
        command = namespace_command(fabric.switches, program, *host.relay, str(control))
        processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        relays[host.index] = (processes[-1], control)
    return relays


def _start_neighbours(scenario: Scenario, fabric: Fabric, processes: list[subprocess.Popen[bytes]]) -> None:
    def start(namespace: str, *words: str) -> None:
        command = namespace_command(namespace, sys.executable, "-m", "lab.neighbours", *words)
        processes.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    if fabric.storage is not None:
        start(fabric.storage.namespace, "storage")
    free: Iterator[fabrics.Host] = iter([host for host in fabric.others if host != fabric.storage])
    for other in scenario.neighbours:
        if other.kind == "inference":
            server = next(free)
            start(server.namespace, "inference")
            for _ in range(other.clients):
                words = ("client", server.address, str(other.every_ms), str(other.kilobytes))
                start(next(free).namespace, *words)
        else:
            for host in fabric.hosts:
                rest = [peer.address for peer in fabric.hosts if peer != host]
                start(host.namespace, "probe", str(other.every_ms), *rest)


def _kill(jobs: dict[str, Job]) -> None:
    for job in jobs.values():
        job.kill()


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()


def _machine(gpu: bool) -> dict[str, Any]:
    found = {"cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version(), "gpu": None}
    if gpu:
        query = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
        with contextlib.suppress(OSError):
            found["gpu"] = fabrics.shell(*query, check=False).strip()
    return found
