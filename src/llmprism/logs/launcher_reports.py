"""What launchers say of the processes that they started: who ended first, how, and where.

A launcher is the best witness of a death: it sees exit codes and signals that the dead cannot write down. Read are
torchrun's failure table, srun, Open MPI and its successor PRRTE, MPICH and Intel MPI, the DeepSpeed launcher, Composer,
torch.multiprocessing, Lightning, Ray, and the coordination service of JAX. Each report names a rank, a local rank, a
process or a node. `first_deaths` gives those that ended before the others; what a launcher kills afterwards, and
processes that abort because a peer is gone, are consequences.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from llmprism.logs.joblog import JobLog

__all__ = ["REPORT_LINE", "ExitReport", "Launcher", "first_deaths", "read_launcher_reports", "task_list"]


class Launcher(StrEnum):
    TORCHRUN = "torchrun"
    SRUN = "srun"
    MPI = "mpirun"
    DEEPSPEED = "deepspeed"
    SPAWN = "torch.multiprocessing"
    LIGHTNING = "Lightning"
    COMPOSER = "Composer"
    RAY = "Ray"
    JAX = "the JAX coordination service"


@dataclass(frozen=True, slots=True)
class ExitReport:
    """One process that a launcher reports as ended. `exit_code` is negative for a signal, None where not said.

    `first`: the launcher itself says that this one was the first. `time_ns` 0: unknown.
    """

    launcher: Launcher
    file: int
    line: int
    time_ns: int = 0
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    process: str | None = None
    exit_code: int | None = None
    how: str = ""
    first: bool = False

    @property
    def manner(self) -> str:
        """How it ended, in words."""
        if self.how:
            return self.how
        if self.exit_code is None:
            return "it ended"
        return f"signal {-self.exit_code}" if self.exit_code < 0 else f"exit code {self.exit_code}"

    @property
    def own_death(self) -> bool:
        """Whether the process died by itself: killed by a fault or the kernel, not aborted or ended by a launcher."""
        return self.exit_code in _FATAL_SIGNALS or bool(_FATAL_WORDS.search(self.how))

    @property
    def consequence(self) -> bool:
        """Whether ends like this follow the end of another process: SIGTERM, SIGINT, an abort of the watchdog."""
        return self.exit_code in _ENDED_BY_OTHERS or bool(_ENDED_WORDS.search(self.how))


_FATAL_SIGNALS: Final = frozenset({-9, -11, -7, -4, -8, 137, 139, 135, 132, 136})
_ENDED_BY_OTHERS: Final = frozenset({-15, -2, -6, 143, 130, 134, 0})
_FATAL_WORDS: Final = re.compile(
    r"Killed|Segmentation fault|Bus error|Out Of Memory|Illegal instruction|SIGKILL|SIGSEGV|SIGBUS"
    r"|worker died|heartbeats|the node failed"
)
_ENDED_WORDS: Final = re.compile(r"Terminated|Aborted|SIGTERM|SIGABRT|SIGINT|Interrupt")

REPORT_LINE: Final = re.compile(
    r"\brank +: \d+ \(local_rank|^\s*host +: |^\s*exitcode +: |^\s*time +: \d{4}"
    r"|Root Cause \(first observed|^\s*Failures:"
    r"|failed \(exitcode: -?\d+\) local_rank: \d+"
    r"|srun: error: [\w.-]+: tasks? [\d,\s-]+:"
    r"|noticed that process rank \d+|Process name: \[|^\s*Exit code: +-?\d+|MPI_ABORT was invoked on rank"
    r"|RUNNING AT |EXIT CODE: \d+|KILLED BY SIGNAL: \d+"
    r"|exits with return code = -?\d+|[Pp]rocess \d+ terminated with (?:the following error|signal|exit code)"
    r"|Child process with PID \d+ terminated with code"
    r"|Rank \d+ crashed with exit code|Global rank \d+ \(PID \d+\) exited with code"
    r"|error: Node failure on |error: Task launch for \S+ failed on node "
    r"|[Ww]orker IP address: |Worker exit type: |actor died|has been marked dead because|^\s*ip: \d|^\s*pid: \d"
    r"|/job:\w+/replica:\d+/task:\d+|stopped sending heartbeats"
)
"""Lines whose text must be kept because a report is read from it."""

_TORCH: Final = {
    "time": re.compile(r"^\s*time\s+: (\d{4}-\d\d-\d\d)_(\d\d:\d\d:\d\d)"),
    "host": re.compile(r"^\s*host\s+: (\S+)"),
    "rank": re.compile(r"^\s*rank\s+: (\d{1,9}) \(local_rank: (\d{1,9})\)"),
    "exit": re.compile(r"^\s*exitcode\s+: (-?\d{1,9})(?: \(pid: (\d{1,9})\))?"),
}
_SRUN: Final = re.compile(r"srun: error: ([\w.-]+): tasks? ([\d,\s-]+): (.+)$")
_EXIT_CODE: Final = re.compile(r"exit code (\d{1,9})")
_MPI_NOTICED: Final = re.compile(
    r"noticed that process rank (\d{1,9}) with PID (\d{1,9}) on node (\S+) exited on signal (\d{1,9})(?: \(([^)]*)\))?"
)
_MPI_NAME: Final = re.compile(r"Process name: \[(?:\[\d+,\d+\],|[\w.@-]+,)(\d{1,9})\]")
_MPI_CODE: Final = re.compile(r"^\s*Exit code: +(-?\d{1,9})")
_MPI_ABORT: Final = re.compile(r"MPI_ABORT was invoked on rank (\d{1,9})")
_HYDRA: Final = re.compile(r"=\s+(?:RANK (\d{1,9}) )?PID (\d{1,9}) RUNNING AT (\S+)")
_HYDRA_CODE: Final = re.compile(r"=\s+(?:EXIT CODE: (\d{1,9})|KILLED BY SIGNAL: (\d{1,9}))")
_DEEPSPEED: Final = re.compile(r"--local_rank=(\d{1,9}).*exits with return code = (-?\d{1,9})")
_SPAWN: Final = re.compile(
    r"[Pp]rocess (\d{1,9}) terminated with (?:signal (SIG\w+)|exit code (-?\d{1,9})|the following error)"
)
_LIGHTNING: Final = re.compile(r"Child process with PID (\d{1,9}) terminated with code (-?\d{1,9})")
_COMPOSER: Final = re.compile(
    r"(?:Rank (\d{1,9}) crashed with exit code|Global rank (\d{1,9}) \(PID \d+\) exited with code) (-?\d{1,9})"
)
_SLURM_NODE: Final = re.compile(
    r"error: (?:(Node failure) on |Task launch for \S+ failed on node )([A-Za-z][\w.-]*)(?:: (.{1,80}))?"
)
_RAY_IP: Final = re.compile(r"[Ww]orker IP address: ([\d.]+)|^\s*ip: ([\d.]+)|address: ([\d.]+) and node name")
_RAY_PID: Final = re.compile(r"Worker PID: (\d{1,9})|^\s*pid: (\d{1,9})")
_JAX_TASK: Final = re.compile(r"/job:\w+/replica:\d+/task:(\d{1,9})")
_JAX_DEAD: Final = re.compile(
    r"heartbeat timeout|stopped sending heartbeats|unhealthy|has (?:failed|crashed)|timed out task"
    r"|not (?:healthy|connected)"
)
MAX_TASKS: Final = 4_096
"""Tasks that one line names: srun lists those of one node."""

MAX_REPORTS: Final = 50_000
"""Reports of one job: one for each process of the largest jobs."""

_REACH: Final = 6
"""Lines between the parts of one report."""


def read_launcher_reports(log: JobLog) -> list[ExitReport]:
    """All reports in reading order."""
    reader = _ReportReader()
    for row, text in sorted(log.texts.items()):
        writer = log.writers[int(log.rows.writer[row])].identity
        reader.take(int(log.rows.file[row]), int(log.rows.line[row]), int(log.rows.time_ns[row]), text, writer.rank)
    return reader.reports


class _ReportReader:
    """Puts reports together from their lines. Lines of one report follow each other."""

    def __init__(self) -> None:
        self.reports: list[ExitReport] = []
        self._torch: dict[str, tuple[str, ...]] = {}
        self._root_cause = False
        self._at = (-1, -1, 0)
        self._jax_dead = -1
        self._writer_rank: int | None = None

    def take(self, file: int, line: int, time_ns: int, text: str, writer_rank: int | None) -> None:
        self._writer_rank = writer_rank
        if file != self._at[0]:
            self._torch, self._root_cause, self._jax_dead = {}, False, -1
        self._at = (file, line, time_ns)
        for read in (self._torchrun, self._srun, self._mpi, self._others, self._ray, self._jax):
            if read(text):
                return

    def _add(self, launcher: Launcher, **fields: object) -> bool:
        if len(self.reports) >= MAX_REPORTS:
            return True
        file, line, time_ns = self._at
        known: dict[str, object] = {"time_ns": time_ns, **fields}
        self.reports.append(ExitReport(launcher, file, line, **known))  # type: ignore[arg-type]
        return True

    def _amend(self, launcher: Launcher, **fields: object) -> bool:
        """Add to the report just made, where this line belongs to it."""
        file, line, _ = self._at
        last = self.reports[-1] if self.reports else None
        if last is None or last.launcher is not launcher or last.file != file or line - last.line > _REACH:
            return False
        self.reports[-1] = replace(last, **fields)  # type: ignore[arg-type]
        return True

    def _torchrun(self, text: str) -> bool:
        if "Root Cause (first observed" in text:
            self._root_cause = True
            return True
        if text.strip() == "Failures:":
            self._root_cause = False
            return True
        for name, pattern in _TORCH.items():
            if not (match := pattern.match(text)):
                continue
            self._torch[name] = match.groups()
            if name == "exit":
                self._torch_report()
            return True
        if match := re.search(r"failed \(exitcode: (-?\d{1,9})\) local_rank: (\d{1,9}) \(pid: (\d{1,9})\)", text):
            return self._add(Launcher.TORCHRUN, exit_code=int(match[1]), local_rank=int(match[2]), process=match[3])
        return False

    def _torch_report(self) -> None:
        parts, self._torch = self._torch, {}
        rank = parts.get("rank")
        when = parts.get("time")
        fields: dict[str, object] = {
            "exit_code": int(parts["exit"][0]),
            "process": parts["exit"][1],
            "node": parts["host"][0] if "host" in parts else None,
            "first": self._root_cause,
        }
        if rank:
            fields |= {"rank": int(rank[0]), "local_rank": int(rank[1])}
        if when and (moment := _moment(*when)):
            fields["time_ns"] = moment
        self._add(Launcher.TORCHRUN, **fields)

    def _srun(self, text: str) -> bool:
        if match := _SLURM_NODE.search(text):
            how = match[3] or ("the node failed" if match[1] else "the step could not be started there")
            return self._add(Launcher.SRUN, node=match[2], how=how, first=True)
        if not (match := _SRUN.search(text)):
            return False
        how = match[3].strip()
        code = _EXIT_CODE.search(how)
        for task in task_list(match[2]):
            self._add(Launcher.SRUN, rank=task, node=match[1], how=how, exit_code=int(code[1]) if code else None)
        return True

    def _mpi(self, text: str) -> bool:
        if match := _MPI_NOTICED.search(text):
            return self._add(
                Launcher.MPI,
                rank=int(match[1]),
                process=match[2],
                node=match[3],
                exit_code=-int(match[4]),
                how=match[5] or "",
                first=True,
            )
        if match := _MPI_NAME.search(text):
            return self._add(Launcher.MPI, rank=int(match[1]), first=True)
        if match := _MPI_CODE.match(text):
            return self._amend(Launcher.MPI, exit_code=int(match[1]))
        if match := _MPI_ABORT.search(text):
            return self._add(Launcher.MPI, rank=int(match[1]), exit_code=1, first=True)
        if match := _HYDRA.search(text):
            rank = int(match[1]) if match[1] else None
            return self._add(Launcher.MPI, rank=rank, process=match[2], node=match[3], first=True)
        if match := _HYDRA_CODE.search(text):
            code = int(match[1]) if match[1] else -int(match[2])
            return self._amend(Launcher.MPI, exit_code=code)
        return False

    def _others(self, text: str) -> bool:
        if match := _DEEPSPEED.search(text):
            return self._add(Launcher.DEEPSPEED, local_rank=int(match[1]), exit_code=int(match[2]))
        if match := _LIGHTNING.search(text):
            return self._add(
                Launcher.LIGHTNING, rank=self._writer_rank, process=match[1], exit_code=int(match[2]), first=True
            )
        if match := _COMPOSER.search(text):
            rank = int(match[1] or match[2])
            return self._add(Launcher.COMPOSER, rank=rank, exit_code=int(match[3]), first=True)
        if match := _SPAWN.search(text):
            code = int(match[3]) if match[3] else None
            return self._add(Launcher.SPAWN, rank=int(match[1]), exit_code=code, how=match[2] or "", first=True)
        return False

    def _ray(self, text: str) -> bool:
        address, process = _RAY_IP.search(text), _RAY_PID.search(text)
        fields: dict[str, object] = {}
        if address:
            fields["node"] = next(group for group in address.groups() if group)
        if process:
            fields["process"] = next(group for group in process.groups() if group)
        if not fields:
            return False
        if self._amend(Launcher.RAY, **fields):
            return True
        dead = "marked dead" in text or "Worker PID" in text or "died" in text or bool(process)
        return self._add(Launcher.RAY, how="the worker died", **fields) if dead else False

    def _jax(self, text: str) -> bool:
        _, line, _ = self._at
        if _JAX_DEAD.search(text):
            self._jax_dead = line
        named = _JAX_TASK.findall(text)
        if not named or self._jax_dead < 0 or line - self._jax_dead > _REACH:
            return False
        for task in dict.fromkeys(named):
            self._add(Launcher.JAX, rank=int(task), how="stopped sending heartbeats", first=True)
        return True


def _moment(day: str, clock: str) -> int:
    """A time as torchrun prints it in ns, 0 where it is none."""
    try:
        return int(datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=UTC).timestamp()) * 1_000_000_000
    except (ValueError, OverflowError):
        return 0


def task_list(text: str) -> list[int]:
    """`0,3-5` → [0, 3, 4, 5]."""
    tasks: list[int] = []
    for part in text.replace(" ", "").split(","):
        low, dash, high = part.partition("-")
        if low.isdigit() and (not dash or high.isdigit()):
            tasks.extend(range(int(low), min(int(high or low), int(low) + MAX_TASKS) + 1))
    return tasks[:MAX_TASKS]


def first_deaths(reports: list[ExitReport]) -> list[ExitReport]:
    """The processes that ended before the others, as far as the launchers say; nothing where they all ended together.

    Launchers that say which was first are believed before the order of reports. Several first ones (one torchrun per
    node) are ordered by their times. Ends that follow from other ends count only where there is nothing else.
    """
    if not reports:
        return []
    own = [report for report in reports if not report.consequence] or reports
    said = [report for report in own if report.first] or own
    timed = [report for report in said if report.launcher is Launcher.TORCHRUN and report.time_ns]
    if timed and len(timed) == len(said):
        start = min(report.time_ns for report in timed)
        return [report for report in timed if report.time_ns <= start + 1_000_000_000]
    first = min(said, key=lambda report: (report.file, report.line))
    return [report for report in said if (report.file, report.line) == (first.file, first.line)]
