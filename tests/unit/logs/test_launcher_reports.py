# ruff: noqa: E501 (log lines as they are)
"""Launchers name the process that ended first; the forms are those of public reports (with the numbers of the issues)."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprism.logs.diagnose import diagnose_paths
from llmprism.logs.launcher_reports import first_deaths, read_launcher_reports, task_list
from llmprism.logs.library import load_library
from llmprism.logs.members import identify_members
from llmprism.logs.reader import read_job
from llmprism.model.log import LogDiagnosis

LIBRARY = load_library()

TORCHRUN = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
/opt/speculators/scripts/train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-09-07_13:02:59
  host      : localhost
  rank      : 3 (local_rank: 3)
  exitcode  : 1 (pid: 14692)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
[2]:
  time      : 2026-09-07_13:03:29
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -9 (pid: 14689)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 14689
[3]:
  time      : 2026-09-07_13:03:29
  host      : localhost
  rank      : 2 (local_rank: 2)
  exitcode  : -15 (pid: 14691)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 14691
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-09-07_13:02:57
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 14690)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""  # vllm-project/speculators#1115

CLOSED = "node{r}:9:11 [0] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer"
STEPS = [f"step {n} loss 2.0" for n in range(1, 40)]


def reports(folder: Path, text: str) -> list[tuple[int | None, int | None, str | None, int | None]]:
    (folder / "job.log").write_text(text)
    found = first_deaths(read_launcher_reports(read_job([folder], LIBRARY)))
    return [(report.rank, report.local_rank, report.node, report.exit_code) for report in found]


def diagnose(folder: Path, files: dict[str, list[str]]) -> LogDiagnosis:
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    return diagnose_paths([folder], library=LIBRARY)


def test_torchrun_names_its_first_failure_whatever_it_kills_later(tmp_path: Path) -> None:
    assert reports(tmp_path, TORCHRUN.format(code=1)) == [(1, 1, "localhost", 1)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # horovod/horovod#469, PaddlePaddle/Paddle#13288
        ("mpirun noticed that process rank 7 with PID 0 on node gpu7 exited on signal 9 (Killed).", (7, None, "gpu7", -9)),
        ("prterun noticed that process rank 140 with PID 363 on node 10.87.102.19 exited on signal 11 (Segmentation fault).", (140, None, "10.87.102.19", -11)),
        # horovod/horovod#1421
        ("mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[29973,1],5]\n  Exit code:    1\n", (5, None, None, 1)),
        ("MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD", (3, None, None, 1)),
        # Intel MPI hydra
        ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 6 PID 3711 RUNNING AT node004\n=   KILLED BY SIGNAL: 9 (Killed)\n", (6, None, "node004", -9)),
        # srun
        ("srun: error: node012: task 24: Segmentation fault (core dumped)\nsrun: error: node013: tasks 25-31: Terminated", (24, None, "node012", None)),
        ("srun: error: node012: task 24: Exited with exit code 1\nsrun: error: node013: tasks 25-31: Exited with exit code 1", (24, None, "node012", 1)),
        # resistzzz/Prompt4NR#3
        ("torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal SIGKILL", (2, None, None, None)),
        # Lightning
        ("[rank: 2] Child process with PID 19340 terminated with code 1. Forcefully terminating all other processes to avoid zombies", (2, None, None, 1)),
        # DeepSpeed launcher
        ("[2025-01-01 10:00:00,123] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=3'] exits with return code = 1", (None, 3, None, 1)),
        # ray-project/ray#47461
        ("(raylet) A worker died or was killed while executing a task by an unexpected system error. RayTask ID: ff Worker ID: fe Node ID: 20 Worker IP address: 10.0.7.57 Worker port: 10046 Worker PID: 89513 Worker exit type: SYSTEM_ERROR", (None, None, "10.0.7.57", None)),
        # jax-ml/jax#23599
        ("UNAVAILABLE: Task /job:jax_worker/replica:0/task:3 heartbeat timeout. This indicates that the remote task has failed, got preempted, or crashed unexpectedly.", (3, None, None, None)),
        ("The following tasks are unhealthy (stopped sending heartbeats):\n/job:jax_worker/replica:0/task:5", (5, None, None, None)),
        # mosaicml/llm-foundry#258, #1501
        ("ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7.", (2, None, None, -7)),
        ("ERROR:composer.cli.launcher:Global rank 0 (PID 208865) exited with code -11", (0, None, None, -11)),
        # nebius/soperator#854, ai4d-iasc/trixie#58
        ("srun: error: Node failure on worker-1", (None, None, "worker-1", None)),
        ("srun: error: Task launch for 36.0 failed on node cn131: Job credential expired", (None, None, "cn131", None)),
        # hpcaitech/ColossalAI#3514
        ("ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 (pid: 812917) of binary: /opt/python", (None, 3, None, -9)),
    ],
)  # fmt: skip
def test_every_launcher_is_read(tmp_path: Path, text: str, expected: tuple[int | None, ...]) -> None:
    assert reports(tmp_path, text + "\n") == [expected]


def test_the_earliest_of_several_nodes_is_first(tmp_path: Path) -> None:
    early, late = (
        TORCHRUN.format(code=-11),
        TORCHRUN.format(code=1).replace("13:02:57", "13:02:59").replace("rank      : 1", "rank      : 9"),
    )
    (tmp_path / "node1.log").write_text(late)
    (tmp_path / "node2.log").write_text(early)
    found = first_deaths(read_launcher_reports(read_job([tmp_path], LIBRARY)))
    assert [report.rank for report in found] == [1]


def test_a_death_that_the_launcher_saw_outweighs_unknown_words_of_the_others(tmp_path: Path) -> None:
    files = {
        f"rank{r}.log": [*STEPS, *([] if r == 1 else [f"[rank{r}]: RuntimeError: wrapper gave up"])] for r in range(4)
    }
    files["launcher.log"] = TORCHRUN.format(code=-9).splitlines()
    found = diagnose(tmp_path, files)
    assert [suspect.rank for suspect in found.suspects] == [1]
    assert found.cause.cause_class.value == "unknown"  # the OOM killer, the node or an operator: nobody said
    assert found.cause.confidence < 0.5


def test_a_rank_that_only_complains_is_no_suspect_because_it_ended_first(tmp_path: Path) -> None:
    files = {f"rank{r}.log": [*STEPS, CLOSED.format(r=r)] for r in range(4)}
    files["launcher.log"] = TORCHRUN.format(code=1).splitlines()
    found = diagnose(tmp_path, files)
    assert (found.outcome.value, found.suspects) == ("failed", ())
    assert found.ranking[0].rank == 1


def test_a_report_alone_names_the_rank(tmp_path: Path) -> None:
    found = diagnose(
        tmp_path,
        {"job.log": ["mpirun noticed that process rank 7 with PID 0 on node gpu7 exited on signal 9 (Killed)."]},
    )
    assert (found.outcome.value, found.suspects[0].rank, found.suspects[0].node) == ("failed", 7, "gpu7")


def test_a_jax_task_without_heartbeat_is_the_suspect(tmp_path: Path) -> None:
    dead = "E1115 01:02:30 coordination_service.cc:1170] /job:jax_worker/replica:0/task:3 has been set to ERROR in coordination service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:3 heartbeat timeout."
    files = {f"worker_rank{r}.log": [*STEPS, *([dead] if r != 3 else [])] for r in range(4)}
    assert diagnose(tmp_path, files).suspects[0].rank == 3


def test_nodes_of_tasks_come_from_srun(tmp_path: Path) -> None:
    lines = [f"{r}: step {n}" for n in range(1, 20) for r in range(4)]
    (tmp_path / "job.log").write_text(
        "\n".join([*lines, "srun: error: node012: task 2: Bus error (core dumped)"]) + "\n"
    )
    members = identify_members(read_job([tmp_path], LIBRARY))
    assert members.actors[members.by_rank[2]].node == "node012"


def test_task_lists() -> None:
    assert task_list("0,3-5") == [0, 3, 4, 5]
    assert len(task_list("0-999999999,5-888888888")) == 4096


def test_a_local_rank_is_the_rank_where_there_is_one_node(tmp_path: Path) -> None:
    dead = "[2024-01-01 10:02:01,456] [ERROR] [launch.py:322:sigkill_handler] ['/usr/bin/python3', '-u', 'train.py', '--local_rank=1'] exits with return code = -9"
    found = diagnose(tmp_path, {"job.log": [*STEPS, dead]})
    assert (found.outcome.value, [s.rank for s in found.suspects]) == ("failed", [1])


def test_ray_names_the_address_of_the_dead_worker(tmp_path: Path) -> None:
    lines = [
        f"(RayTrainWorker pid={p}, ip=10.0.7.{a}) step {n}" for n in range(1, 20) for p, a in ((1001, 56), (89513, 57))
    ]
    dead = "(raylet, ip=10.0.7.57) A worker died or was killed while executing a task by an unexpected system error. Worker IP address: 10.0.7.57 Worker port: 10046 Worker PID: 89513 Worker exit type: SYSTEM_ERROR"
    found = diagnose(tmp_path, {"job.log": [*lines, dead]})
    assert (found.outcome.value, [s.node for s in found.suspects]) == ("failed", ["10.0.7.57"])


def test_an_exit_code_before_the_step_is_ended_is_a_failure(tmp_path: Path) -> None:
    lines = [f"{r}: step {n} loss 2.1" for n in range(1, 30) for r in range(4)]
    ending = [
        "srun: error: node003: task 3: Exited with exit code 1",
        "srun: Terminating StepId=123.0",
        "slurmstepd: error: *** STEP 123.0 ON node001 CANCELLED AT 2024-05-01T10:00:05 ***",
        "srun: error: node001: tasks 0-1: Terminated",
    ]
    found = diagnose(tmp_path, {"job.log": [*lines, *ending]})
    assert (found.outcome.value, [s.rank for s in found.suspects]) == ("failed", [3])


def test_hostile_reports_do_no_harm(tmp_path: Path) -> None:
    lines = [
        "  time      : 2026-99-99_99:99:99",
        "  rank      : 99999999999999999999 (local_rank: 1)",
        "  exitcode  : -9 (pid: 1)",
        "srun: error: a: tasks 0-999999999999: Killed",
        "/job:x/replica:0/task:99999999999999999999 heartbeat timeout",
        "Process name: [[1,1],99999999999999]",
        "WorkNCCL(SeqNum=99999999999999999999999999999, last enqueued work: 99999999999999999999999999",
    ]
    assert diagnose(tmp_path, {"job.log": [*STEPS, *lines]}).outcome.value == "failed"
