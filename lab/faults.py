"""Faults: what the lab does to a rank, a link or a switch, and when it did it.

Each fault runs on its own thread, so that two can overlap. What is written down is when the fault was switched on and
off; where a rank brings the fault on itself, its own note of the time counts.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lab.fabric import Fabric, Host, down_port, inside, limit, up_port
from lab.jobs import Job, wait_for
from lab.scenario import DEATHS, LASTING, FaultSpec, Scenario

__all__ = ["FaultDriver"]

FIRST_STEP_S = 120.0
DEATH_S = 8.0


class FaultDriver:
    """Brings a scenario's faults about; `records` holds what happened."""

    def __init__(self, scenario: Scenario, fabric: Fabric, jobs: dict[str, Job], relays: dict[int, Any]) -> None:
        self._scenario, self._fabric, self._jobs, self._relays = scenario, fabric, jobs, relays
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self.records: list[dict[str, Any]] = []

    def before_start(self) -> None:
        """Faults that are there from the beginning."""
        for fault in self._scenario.faults:
            if fault.at_s < 0:
                self._set(fault, True)
                self.records.append(
                    {**asdict(fault), "start": time.time_ns(), "end": None, "where": self._place(fault)}
                )

    def start(self) -> None:
        for fault in self._scenario.faults:
            if fault.at_s >= 0:
                self._threads.append(threading.Thread(target=self._run, args=(fault,), daemon=True))
                self._threads[-1].start()

    def stop(self) -> None:
        """No further fault begins; those that run are lifted by the removal of the fabric."""
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=DEATH_S + 1)

    @property
    def deadly(self) -> set[str]:
        """Jobs that will not end by themselves: a fault has ended or hung them for good."""
        return {
            record["job"]
            for record in self.records
            if record["kind"] in LASTING and not record["for_s"] and not self._jobs[record["job"]].spec.restart_s
        }

    def _run(self, fault: FaultSpec) -> None:
        job = self._jobs[fault.job]
        if not wait_for(lambda: job.steps_done() >= 1 or self._ended.is_set(), FIRST_STEP_S):
            return
        if self._ended.wait(fault.at_s):
            return
        record = {**asdict(fault), "start": time.time_ns(), "end": None, "where": self._place(fault)}
        if fault.kind in DEATHS:
            self._die(fault, record)
        else:
            self._hold(fault, record)

    def _hold(self, fault: FaultSpec, record: dict[str, Any]) -> None:
        """Switches a fault on and, where it does not last, off again; intermittent ones several times."""
        self._set(fault, True)
        self.records.append(record)
        if not fault.for_s:
            return
        end = time.monotonic() + fault.for_s
        while fault.on_s and time.monotonic() < end:
            self._ended.wait(fault.on_s)
            self._set(fault, False)
            self._ended.wait(fault.off_s)
            if time.monotonic() < end:
                self._set(fault, True)
        self._ended.wait(max(0.0, end - time.monotonic()))
        self._set(fault, False)
        record["end"] = time.time_ns()

    def _die(self, fault: FaultSpec, record: dict[str, Any]) -> None:
        job = self._jobs[fault.job]
        process = job.processes[fault.rank]
        self.records.append(record)
        if fault.kind == "killed":
            process.kill()
        else:
            self._write(job.folder / f"fault{fault.rank}", fault.kind)
        if not wait_for(lambda: process.poll() is not None, DEATH_S):
            record["forced"] = True
            process.kill()
        times = [note["time"] for note in job.notes(fault.rank) if note["kind"] == "death"]
        record["start"] = times[0] if times else time.time_ns()

    def _place(self, fault: FaultSpec) -> str:
        if fault.kind in ("slow_uplink", "slow_leaf"):
            return fault.leaf
        if fault.kind == "slow_storage" and self._fabric.storage is not None:
            return self._fabric.storage.address
        return self._host(fault).address

    def _host(self, fault: FaultSpec) -> Host:
        return self._jobs[fault.job].hosts[fault.rank]

    def _set(self, fault: FaultSpec, on: bool) -> None:
        job, host = self._jobs[fault.job], self._host(fault)
        actions: dict[str, Callable[[], None]] = {
            "slow_gpu": lambda: self._write(job.folder / f"slow{fault.rank}", str(fault.factor if on else 1)),
            "stall": lambda: job.signal(fault.rank, signal.SIGSTOP if on else signal.SIGCONT),
            "hang": lambda: self._hang(fault, on),
            "mismatched_collective": lambda: self._write(job.folder / f"fault{fault.rank}", fault.kind),
            "slow_nic": lambda: self._limit_nic(host, fault, on),
            "link_down": lambda: _set_port(self._fabric, host, "down" if on else "up"),
            "delay": lambda: self._relay(host, fault.delay_us if on else 0, 0),
            "loss": lambda: self._relay(host, 0, fault.loss_ppm if on else 0),
            "slow_uplink": lambda: self._limit_ports((up_port(fault.leaf), down_port(fault.leaf)), fault, on),
            "slow_leaf": lambda: self._limit_leaf(fault, on),
            "slow_storage": lambda: self._limit_storage(fault, on),
        }
        actions[fault.kind]()

    def _hang(self, fault: FaultSpec, on: bool) -> None:
        job = self._jobs[fault.job]
        if fault.how == "stop":
            job.signal(fault.rank, signal.SIGSTOP if on else signal.SIGCONT)
        elif on:
            self._write(job.folder / f"fault{fault.rank}", fault.how)

    def _limit_nic(self, host: Host, fault: FaultSpec, on: bool) -> None:
        rate = fault.rate if on else self._scenario.fabric.nic_rate
        if fault.direction in ("both", "send"):
            limit(host.namespace, "eth0", rate)
        if fault.direction in ("both", "receive"):
            limit(self._fabric.switches, host.port, rate)

    def _limit_ports(self, ports: tuple[str, ...], fault: FaultSpec, on: bool) -> None:
        for port in ports:
            limit(self._fabric.switches, port, fault.rate if on else self._scenario.fabric.uplink_rate)

    def _limit_leaf(self, fault: FaultSpec, on: bool) -> None:
        """Every port of the switch, in the direction of the hosts and of the spine."""
        rate = fault.rate if on else ""
        limit(self._fabric.switches, up_port(fault.leaf), rate)
        for host in (*self._fabric.hosts, *self._fabric.others):
            if host.leaf == fault.leaf:
                limit(self._fabric.switches, host.port, rate)

    def _limit_storage(self, fault: FaultSpec, on: bool) -> None:
        storage = self._fabric.storage
        if storage is not None:
            limit(storage.namespace, "eth0", fault.rate if on else "")
            limit(self._fabric.switches, storage.port, fault.rate if on else "")

    def _relay(self, host: Host, delay_us: int, loss_ppm: int) -> None:
        process, control = self._relays[host.index]
        self._write(control, f"{delay_us} {loss_ppm}\n")
        process.send_signal(signal.SIGUSR1)

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".draft")
        draft.write_text(text)
        draft.rename(path)


def _set_port(fabric: Fabric, host: Host, state: str) -> None:
    inside(fabric.switches, "ip", "link", "set", host.port, state)
