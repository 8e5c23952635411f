"""One rank's side of the truth: who it is, its groups as the framework names them, and the times of its steps.

Every line of `rank<r>.jsonl` is one note: `rank` (address, groups, layout), `step` (start, gradients, end in ns of the
machine's one wall clock), `pause` (evaluation, checkpoint), `slow` and `slow_end`, `end_of_rank`. The lab controls a
rank through files in the same folder: `stop` holds the number of steps after which all ranks stop, `slow<r>` a factor
on the compute of rank r, `fault<r>` what rank r shall do to itself.
"""

from __future__ import annotations

import contextlib
import datetime
import faulthandler
import json
import os
import random
import resource
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from lab.ranks.options import Options
from lab.ranks.storage_client import StorageClient

__all__ = ["Session"]

SPIN_CYCLES_PER_MS = 1.9e6
DRAIN_S = 2.0

MISMATCHED = 77_777
"""Elements of the all-reduce that only one rank makes: no bucket of a model has this size."""

STUCK_S = 35.0
"""A rank that has done no step after so long prints where it is."""


class Session:
    """State of this rank; made once per process."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.folder = Path(options.folder)
        self.cuda = torch.cuda.is_available()
        self.device = torch.device("cuda", 0) if self.cuda else torch.device("cpu")
        self._notes = (self.folder / f"rank{self.rank}.jsonl").open("w", buffering=1, encoding="utf-8")
        self._random = random.Random(1000 + self.rank)
        self._slow = 1.0
        self._slow_file = self.folder / f"slow{self.rank}"
        self._fault_file = self.folder / f"fault{self.rank}"
        self.step = 0
        self._start = self._gradients = 0
        self.storage = StorageClient(os.environ.get("LAB_STORAGE", ""), options.data_kb)
        torch.manual_seed(1234)
        torch.set_num_threads(1)
        if self.cuda:
            self._wait_for_gpu()
        faulthandler.dump_traceback_later(STUCK_S, exit=False)

    def _wait_for_gpu(self) -> None:
        """The GPU may still be cleaning up after the ranks of the scenario before."""
        for _ in range(20):
            try:
                torch.cuda.set_device(0)
                torch.zeros(1, device=self.device)
                return
            except Exception as error:
                print("waiting for the GPU:", str(error).split("\n")[0], flush=True)
                time.sleep(1)

    def note(self, kind: str, **values: Any) -> None:
        self._notes.write(json.dumps({"kind": kind, **values}) + "\n")

    def join(self) -> None:
        """Joins the job's process group."""
        backend = "nccl" if self.cuda else "gloo"
        limit = datetime.timedelta(seconds=self.options.timeout_s)
        dist.init_process_group(backend, rank=self.rank, world_size=self.world, timeout=limit)

    def note_layout(self, parameters: int, groups: Mapping[str, Sequence[int]], **layout: Any) -> None:
        """What the framework itself says of this rank's groups and of the job's layout."""
        degrees = {"tp": 1, "pp": 1, "dp": 1, "cp": 1, "ep": 1, "virtual": 1, "sharding": "none", "schedule": None}
        degrees |= {"micro_batches": self.options.micro_batches}
        self.note(
            "rank",
            rank=self.rank,
            address=os.environ.get("LAB_ADDRESS", str(self.rank)),
            process=os.getpid(),
            parameters=parameters,
            groups={name: list(ranks) for name, ranks in groups.items()},
            layout={**degrees, **layout},
            versions={
                "torch": torch.__version__,
                "backend": dist.get_backend() if dist.is_initialized() else "",
                "nccl": ".".join(map(str, torch.cuda.nccl.version())) if self.cuda else "",
            },
        )

    # Steps

    def more(self) -> bool:
        """Whether another step follows. The lab names the last one a few steps ahead, for all ranks alike."""
        if self.step >= self.options.steps:
            return False
        try:
            return self.step < int((self.folder / "stop").read_text() or 1 << 60)
        except FileNotFoundError:
            return True

    def begin(self) -> None:
        """A step begins with the wait for its data."""
        self._read_slowness()
        self._start, self._gradients = time.time_ns(), 0
        self.storage.wait_for_data()
        self.storage.ask_for_data()

    def gradients(self) -> None:
        """The gradients of this step are summed over the group."""
        self.drain()
        self._gradients = time.time_ns()

    def end(self) -> None:
        self.drain()
        now = time.time_ns()
        if self.step == 0:
            faulthandler.cancel_dump_traceback_later()
        stamp = time.strftime("%Y-%m-%d %H:%M:%S")
        took = (now - self._start) / 1e6
        print(f"[{stamp}] iteration {self.step + 1}/{self.options.steps} | elapsed time per iteration (ms): {took:.1f}"
              f" | rank {self.rank}", flush=True)  # fmt: skip
        self.note("step", step=self.step, start=self._start, gradients=self._gradients or now, end=now)
        self.step += 1
        every = self.options.checkpoint_every
        if every and self.step % every == 0 and self.storage.open:
            self.pause("checkpoint", self.write_checkpoint)

    def pause(self, what: str, work: Any) -> None:
        """Runs something that belongs to no step, and notes when."""
        begin = time.time_ns()
        work()
        self.drain()
        self.note("pause", what=what, after=self.step - 1, start=begin, end=time.time_ns())

    def due(self, every: int) -> bool:
        return bool(every) and self.step > 0 and self.step % every == 0

    def write_checkpoint(self) -> None:
        self.storage.write(int(self.options.checkpoint_mb * 1e6))

    def drain(self) -> None:
        """Waits until the GPU has nothing left to do."""
        if self.cuda:
            event = torch.cuda.Event(blocking=True)
            event.record()
            event.synchronize()

    # Compute and the faults that a rank brings on itself

    def compute(self, milliseconds: float) -> None:
        """The stand-in for the work of one layer."""
        if self._fault_file.exists():
            self._suffer(self._fault_file.read_text().strip())
        took = milliseconds * self._slow * self._random.uniform(1 - self.options.jitter, 1 + self.options.jitter)
        if self.cuda:
            torch.cuda._sleep(int(took * SPIN_CYCLES_PER_MS))
        else:
            time.sleep(took / 1e3)

    def _read_slowness(self) -> None:
        try:
            factor = float(self._slow_file.read_text() or 1)
        except FileNotFoundError:
            factor = 1.0
        if factor != self._slow:
            self._slow = factor
            self.note("slow" if factor != 1 else "slow_end", time=time.time_ns(), factor=factor)

    def _suffer(self, what: str) -> None:
        self.note("fault", what=what, time=time.time_ns())
        if what == "compute":
            while True:
                time.sleep(1)
        if what == "communication":
            dist.recv(torch.zeros(1, device=self.device), src=(self.rank + 1) % self.world, tag=77)
            while True:
                time.sleep(1)
        if what == "mismatched_collective":
            self._fault_file.unlink()
            dist.all_reduce(torch.zeros(MISMATCHED, device=self.device))
            return
        try:
            if what == "out_of_memory":
                self._exhaust_memory()
            if what == "bad_sample":
                json.loads('{"tokens": [12, 7, 9')
            raise RuntimeError("device-side assert triggered by a damaged sample")
        except (RuntimeError, MemoryError, ValueError):
            traceback.print_exc()
        self._die()

    def _exhaust_memory(self) -> None:
        """A real allocation that the allocator must refuse."""
        if self.cuda:
            total = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, torch.cuda.memory_reserved() / total + 0.002))
        else:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = pages * resource.getpagesize() + (64 << 20)
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        held = [torch.empty(32 << 20, dtype=torch.float32, device=self.device) for _ in range(512)]
        raise RuntimeError(f"{len(held)} allocations were not refused")

    def _die(self) -> None:
        """Ends this rank alone. Under MPS, an end during a kernel fails every process on the GPU: so drain first."""
        if self.cuda:
            drained = threading.Thread(target=torch.cuda.synchronize, daemon=True)
            drained.start()
            drained.join(DRAIN_S)
        self.note("death", time=time.time_ns())
        os._exit(1)

    def leave(self) -> None:
        """Ends when every rank has finished, without a word on the network: who leaves first breaks connections."""
        self.drain()
        self.note("end_of_rank", time=time.time_ns())
        (self.folder / f"rank{self.rank}.done").touch()
        for _ in range(100):
            if all((self.folder / f"rank{r}.done").exists() for r in range(self.world)):
                break
            time.sleep(0.1)
        time.sleep(0.3)
        with contextlib.suppress(OSError):
            self._notes.close()
        os._exit(0)
