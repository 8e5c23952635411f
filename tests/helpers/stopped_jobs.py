"""A job of four members that the flows saw stop, and lines that its ranks may write then."""

from __future__ import annotations

from llmprism.model.finding import FindingKind
from llmprism.model.job import JobState
from llmprism.model.report import Report
from report_builders import job_report, report_of
from verdict_builders import step_ends
from written_logs import SECOND, stop_finding

MEMBERS = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4")
ENDS = step_ends(40)
STOP = int(ENDS[-1]) + SECOND // 10
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
CLOSED = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [{}]:36039"
TIMED_OUT = (
    "[rank{0}]:[E1115 02:00:00.000000000 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600010 milliseconds before timing out."
)
NAMELESS = "misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer"


def stopped(kind: FindingKind, place: str, *, end_s: float = 20, confidence: float = 0.7) -> Report:
    state = JobState.CRASHED if kind is FindingKind.CRASH else JobState.HUNG
    finding = stop_finding(kind, place, STOP, confidence)
    return report_of(job_report("job-a", MEMBERS, ENDS, state), findings=(finding,), end_s=end_s)


def complaints(dead: int, seconds: float = 0.5) -> dict[int, list[tuple[float, str]]]:
    return {rank: [(seconds, CLOSED.format(MEMBERS[dead]))] for rank in range(4) if rank != dead}
