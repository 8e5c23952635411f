# ruff: noqa: E501 (log lines as they are)
"""Simulated logs of a multi-rank job with one planted fault and its truth.

A healthy run in the manner of a framework (Megatron-LM, DeepSpeed, torchtitan, Hugging Face Trainer), with the noise
that healthy runs have, is cut at a random iteration; the guilty rank writes the fault's lines and falls silent, the
others complain the way NCCL and c10d do. Files come as one per rank, one per node, or one for all with `srun -l`
numbers. `plant` does the same with the lines of a real log. Everything follows from the scenario's seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from logs_faults import Aftermath, LogFault

__all__ = ["LogScenario", "LogTruth", "SimulatedLogs", "plant", "simulate_logs", "write_logs"]

_START_S = 1_794_700_000.0


@dataclass(frozen=True, slots=True)
class LogScenario:
    """`fault` None: a healthy run. `layout`: rank (a file per rank), node (a file per node) or srun (one file)."""

    framework: str = "megatron"
    layout: str = "rank"
    nodes: int = 2
    ranks_per_node: int = 4
    iterations: int = 60
    fault: LogFault | None = None
    seed: int = 0

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node


@dataclass(frozen=True, slots=True)
class LogTruth:
    """`fault_lines` are (file, line) of every line that indicates the failure, `rank` the guilty one or None.

    `context_lines` are the stack frames and the code shown with them: part of the event, not events by themselves.
    """

    outcome: str
    cause: str
    stage: str | None
    symptom: str
    rank: int | None
    node: str | None
    iteration: int | None
    fault_lines: frozenset[tuple[str, int]]
    context_lines: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class SimulatedLogs:
    files: dict[str, list[str]]
    truth: LogTruth


@dataclass(slots=True)
class _Entry:
    at: float
    rank: int
    text: str
    fault: bool = False
    context: bool = False


def _is_context(text: str) -> bool:
    return text.startswith(("Traceback", "  File ", "    "))


def _clock(at: float) -> str:
    second = int(at)
    days, rest = divmod(second, 86_400)
    del days
    return f"2026-11-15 {rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"


def _glog(at: float, level: str) -> str:
    return f"{level}1115 {_clock(at)[11:]}.{int(at % 1 * 1e9):09d}"


def _megatron(step: int, total: int, at: float, _rank: int, rng: random.Random) -> str:
    pace = rng.uniform(480, 520)
    return (
        f"[{_clock(at)}] iteration {step:8d}/{total:8d} | consumed samples: {step * 512:12d} | elapsed time per iteration (ms): {pace:.1f} | "
        f"learning rate: 1.500E-04 | global batch size:   512 | lm loss: {rng.uniform(2, 3):.6E} | loss scale: 1.0 | grad norm: {rng.uniform(0.5, 1):.3f} |"
    )


def _deepspeed(step: int, _total: int, at: float, rank: int, rng: random.Random) -> str:
    return f"[{_clock(at)},{rng.randint(0, 999):03d}] [INFO] [logging.py:107:log_dist] [Rank {rank}] step={step}, skipped=0, lr=[0.00015], mom=[(0.9, 0.95)]"


def _torchtitan(step: int, _total: int, at: float, _rank: int, rng: random.Random) -> str:
    return f"[titan] {_clock(at)},{rng.randint(0, 999):03d} - root - INFO - step: {step:2d}  loss: {rng.uniform(2, 9):7.4f}  memory: 42.10GiB(53.2%)  tps: {rng.randint(5000, 6000)}  mfu: 41.2%"


def _trainer(step: int, _total: int, at: float, rank: int, _rng: random.Random) -> str:
    return f"[{_clock(at)}] node rank {rank} finished global step {step}"


_LINES: dict[str, Callable[[int, int, float, int, random.Random], str]] = {
    "megatron": _megatron,
    "deepspeed": _deepspeed,
    "torchtitan": _torchtitan,
    "trainer": _trainer,
}
_DONE = {
    "megatron": "[after training is done] datetime: 2026-11-15 12:00:00",
    "deepspeed": "training finished successfully",
    "torchtitan": "[titan] 2026-11-15 12:00:00,123 - root - INFO - Training completed",
    "trainer": "{'train_runtime': '20.95', 'train_samples_per_second': '45.83', 'train_steps_per_second': '2.865', 'train_loss': '9.088', 'epoch': '0.0096'}",
}
_NOISE = (
    "/usr/local/lib/python3.12/dist-packages/torch/cuda/__init__.py:63: FutureWarning: The pynvml package is deprecated.",
    "[rank{rank}]:[W1115 02:26:38.508813458 reducer.cpp:1502] Warning: find_unused_parameters=True was specified in DDP constructor",
    "{node}:{pid}:{pid} [{gpu}] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : client reregistration",
    "Traceback (most recent call last):",
    "{node}:{pid}:{pid} [{gpu}] NCCL WARN NET/IB :SHARP coll init error: Cannot create SHArP job(-11)",
    "word error rate: 12.5 %, sentence error: 40.1 %",
    "Token indices sequence length is longer than the specified maximum sequence length for this model (1100 > 1024).",
    "WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt",
)
_HANDLED = (
    "Traceback (most recent call last):",
    '  File "/workspace/fused.py", line 3, in <module>',
    "    import fused_layer_norm_cuda",
    "ModuleNotFoundError: No module named 'fused_layer_norm_cuda'",
)


_ODDITIES = (
    "NVRM: Xid (PCI:0000:{gpu}c:00): 63, pid={pid}, name=python3, Row Remapper: New row marked for remapping, reset gpu to activate.",
    "WARNING: this step took 1.9 times the median of rank {rank}",
    "EDAC MC0: 1 CE memory scrubbing error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0",
    "retrying read of /data/shard_{gpu}.tar after 0.5 s (attempt 1 of 5)",
    "pcieport 0000:80:01.1: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    "gc: freeing 12 GiB of cached blocks on rank {rank}",
)
"""Lines that good runs seldom print and that stop nobody; innocents say them around the time of the fault."""


class _Job:
    """The timed lines of one job while they are being made."""

    def __init__(self, scenario: LogScenario) -> None:
        self.scenario = scenario
        self.rng = random.Random(scenario.seed)
        self.entries: list[_Entry] = []
        first = self.rng.randint(1, 80)
        self.nodes = [f"gpu-node{first + k:03d}" for k in range(scenario.nodes)]

    def node(self, rank: int) -> str:
        return self.nodes[rank // self.scenario.ranks_per_node]

    def filled(self, text: str, rank: int, step: int = 0) -> str:
        local = rank % self.scenario.ranks_per_node
        values = {
            "node": self.node(rank),
            "rank": rank,
            "pid": 4000 + rank,
            "gpu": local,
            "step": step,
            "address": f"10.5.0.{rank + 1}",
        }
        for key, value in values.items():
            text = text.replace("{" + key + "}", str(value))
        return text

    def say(
        self, at: float, rank: int, text: str, *, fault: bool = False, context: bool = False, step: int = 0
    ) -> None:
        self.entries.append(_Entry(at, rank, self.filled(text, rank, step), fault, context))

    def start(self) -> float:
        total = self.scenario.ranks
        for rank in range(total):
            at = _START_S + self.rng.uniform(0, 1)
            self.say(at, rank, "{node}:{pid}:{pid} [{gpu}] NCCL INFO Bootstrap: Using eth0:{address}<0>")
            self.say(
                at + 1,
                rank,
                f"{{node}}:{{pid}}:{{pid}} [{{gpu}}] NCCL INFO ncclCommInitRankConfig comm 0x1{rank:07x} rank {rank} nranks {total} cudaDev {{gpu}} busId 60 commId 0x395c42485a89446a - Init START",
            )
            self.say(
                at + 2,
                rank,
                f"{{node}}:{{pid}}:{{pid}} [{{gpu}}] NCCL INFO ncclCommInitRankConfig comm 0x1{rank:07x} rank {rank} nranks {total} cudaDev {{gpu}} busId 60 commId 0x395c42485a89446a - Init COMPLETE",
            )
            self.say(at + 3, rank, "building GPT model ...")
            if self.rng.random() < 0.7:
                self.say(at + 3.2, rank, self.rng.choice(_NOISE))
            if self.scenario.seed % 3 == 0:
                for k, line in enumerate(_HANDLED):
                    self.say(at + 3.3 + k * 1e-3, rank, line)
        return _START_S + 6

    def load_data(self, at: float) -> float:
        for rank in range(self.scenario.ranks):
            self.say(at + self.rng.uniform(0, 0.5), rank, "> building train, validation, and test datasets ...")
        return at + 2

    def step(self, number: int, at: float) -> float:
        line = _LINES[self.scenario.framework]
        for rank in range(self.scenario.ranks):
            end = at + 0.5 + self.rng.uniform(0, 0.02)
            self.say(end, rank, line(number, self.scenario.iterations, end, rank, self.rng))
            if self.rng.random() < 0.01:
                self.say(end + 0.001, rank, self.rng.choice(_NOISE[5:]))
        return at + 0.55

    def everyone_fails(self, fault: LogFault, at: float, step: int) -> None:
        for rank in range(self.scenario.ranks):
            begin = at + self.rng.uniform(0, 0.3)
            for k, text in enumerate(fault.lines):
                self.say(
                    begin + k * 1e-4,
                    rank,
                    f"[rank{rank}]: {text}",
                    fault=not _is_context(text),
                    context=_is_context(text),
                    step=step,
                )

    def one_fails(self, fault: LogFault, guilty: int, at: float, step: int) -> None:
        for rank in range(self.scenario.ranks):
            if rank != guilty and self.rng.random() < 0.2:
                self.say(at - self.rng.uniform(0.1, 3.0), rank, self.rng.choice(_ODDITIES))
        for k, text in enumerate(fault.lines):
            shown = text if fault.kernel or ":{pid}:" in text or text.startswith("Fatal") else f"[rank{guilty}]: {text}"
            self.say(at + k * 1e-4, guilty, shown, fault=not _is_context(text), context=_is_context(text), step=step)
        for rank in range(self.scenario.ranks):
            if rank == guilty:
                continue
            if fault.aftermath is Aftermath.CLOSED:
                self.complain_closed(rank, at + self.rng.uniform(0.4, 1.5), step)
            elif fault.aftermath is Aftermath.TIMEOUT:
                self.complain_timeout(rank, at + 600 + self.rng.uniform(0, 1), step)
            else:
                late = at + 1800 + self.rng.uniform(0, 1)
                self.say(
                    late,
                    rank,
                    f"EI0002: [PID: {{pid}}] 2026-11-15-15:09:34.713.335 The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank: [{guilty}].",
                    fault=True,
                )

    def complain_closed(self, rank: int, at: float, step: int) -> None:
        lines = (
            f"[{_clock(at)}] {{node}}:{{pid}}:{{pid}} [{{gpu}}] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer ",
            f"[rank{rank}]:[{_glog(at, 'E')} ProcessGroupNCCL.cpp:612] [Rank {rank}] Collective WorkNCCL(SeqNum={step * 7}, OpType=ALLREDUCE, NumelIn=10258944, NumelOut=10258944, Timeout(ms)=600000) raised the following async exception: NCCL error: remote process exited or there was a network error, NCCL version 2.28.9",
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        )
        for k, text in enumerate(lines[: 3 if self.rng.random() < 0.8 else 1]):
            self.say(at + k * 1e-3, rank, text, fault=True)
        if self.rng.random() < 0.4:
            self.say(
                at + 0.01,
                rank,
                f"[rank{rank}]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
                fault=True,
            )

    def complain_timeout(self, rank: int, at: float, step: int) -> None:
        self.say(
            at,
            rank,
            f"[rank{rank}]:[{_glog(at, 'E')} ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={step * 7}, OpType=ALLREDUCE, NumelIn=1, NumelOut=4, Timeout(ms)=600000) ran for 600098 milliseconds before timing out.",
            fault=True,
        )
        self.say(
            at + 0.001,
            rank,
            f"[rank{rank}]:[{_glog(at, 'E')} ProcessGroupNCCL.cpp:2303] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: {step * 7} PG status: last enqueued work: {step * 7 + 1}, last completed work: {step * 7 - 1}",
            fault=True,
        )


def simulate_logs(scenario: LogScenario) -> SimulatedLogs:
    """The files of one job and their truth."""
    job = _Job(scenario)
    fault = scenario.fault
    guilty = job.rng.randrange(scenario.ranks)
    failing_step = job.rng.randint(scenario.iterations // 4, scenario.iterations - 5)
    at = job.start()
    step = 0
    if fault is None or fault.stage != "init":
        at = job.load_data(at)
    if fault is None or fault.stage not in ("init", "data"):
        last = scenario.iterations if fault is None else failing_step - 1
        for step in range(1, last + 1):
            at = job.step(step, at)
    if fault is None:
        for rank in range(scenario.ranks):
            job.say(at + 1, rank, _DONE[scenario.framework])
        return _laid_out(job, LogTruth("success", "none", None, "none", None, None, None, frozenset()))
    everyone = fault.aftermath is Aftermath.EVERYONE
    for rank in range(scenario.ranks):
        if fault.stage == "checkpoint":
            job.say(at, rank, f"saving checkpoint at iteration {step:8d} to /ckpt in torch format")
        elif fault.stage == "eval":
            job.say(at, rank, "***** Running Evaluation *****")
    if everyone:
        job.everyone_fails(fault, at + 0.2, step + 1)
    else:
        job.one_fails(fault, guilty, at + 0.2, step + 1)
    iteration = step + 1 if step else None
    truth = LogTruth(
        "failed",
        fault.cause,
        fault.stage,
        fault.symptom,
        None if everyone else guilty,
        None if everyone else job.node(guilty),
        iteration,
        frozenset(),
    )
    return _laid_out(job, truth)


@dataclass(slots=True)
class _Layout:
    files: dict[str, list[str]] = field(default_factory=dict)
    marked: set[tuple[str, int]] = field(default_factory=set)
    context: set[tuple[str, int]] = field(default_factory=set)

    def add(self, name: str, text: str, entry: _Entry) -> None:
        lines = self.files.setdefault(name, [])
        lines.append(text)
        if entry.fault:
            self.marked.add((name, len(lines)))
        elif entry.context:
            self.context.add((name, len(lines)))


def _laid_out(job: _Job, truth: LogTruth) -> SimulatedLogs:
    layout = _Layout()
    kind = job.scenario.layout
    for entry in sorted(job.entries, key=lambda e: e.at):
        text = entry.text
        if kind == "srun":
            name, text = "job.log", f"{entry.rank:2d}: {text}"
        elif kind == "node":
            name = f"{job.node(entry.rank)}.log"
            text = f"[default{entry.rank % job.scenario.ranks_per_node}]:{text}"
        else:
            name = f"rank{entry.rank}.log"
        layout.add(name, text, entry)
    final = replace(truth, fault_lines=frozenset(layout.marked), context_lines=frozenset(layout.context))
    return SimulatedLogs(layout.files, final)


def plant(
    lines: list[str], ranks: int, fault: LogFault, seed: int, *, keep: float, iteration: int | None = None
) -> SimulatedLogs:
    """A fault planted into the first `keep` share of a real log whose lines begin with `srun -l` numbers."""
    scenario = LogScenario(
        layout="srun", nodes=max(ranks // 8, 1), ranks_per_node=min(ranks, 8), fault=fault, seed=seed
    )
    job = _Job(scenario)
    guilty = job.rng.randrange(ranks)
    if fault.aftermath is Aftermath.EVERYONE:
        job.everyone_fails(fault, 0.0, 1)
    else:
        job.one_fails(fault, guilty, 0.0, 1)
    kept = lines[: max(int(len(lines) * keep), 1)]
    width = len(str(ranks - 1))
    layout = _Layout({"job.log": list(kept)})
    for entry in sorted(job.entries, key=lambda e: e.at):
        layout.add("job.log", f"{entry.rank:{width}d}: {entry.text}", entry)
    everyone = fault.aftermath is Aftermath.EVERYONE
    truth = LogTruth(
        "failed",
        fault.cause,
        None,
        fault.symptom,
        None if everyone else guilty,
        None,
        iteration,
        frozenset(layout.marked),
        frozenset(layout.context),
    )
    return SimulatedLogs(layout.files, truth)


def write_logs(logs: SimulatedLogs, folder: Path) -> None:
    """Write the files of a simulated job."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in logs.files.items():
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
