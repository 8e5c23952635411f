"""Small hand-made jobs, one per rule of judgement: who is blamed, what is believed, what is let pass."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from llmprism.logs.diagnose import diagnose_paths
from llmprism.logs.library import Library, load_library
from llmprism.model.log import EventRole, LogDiagnosis

WATCHDOG = (
    "[rank{r}]:[E1115 01:02:30.3 ProcessGroupNCCL.cpp:689] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=68, OpType=ALLREDUCE, NumelIn=1, NumelOut=4, Timeout(ms)=15000) ran for 15098 milliseconds"
)
BEHIND = (
    "[rank{r}]:[E1115 01:02:30.4 ProcessGroupNCCL.cpp:2303] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure "
    "detected by watchdog at work sequence id: 68 PG status: last enqueued work: {work}, last completed work: 67"
)
CLOSED = (
    "[2026-11-15 01:02:26] vm:9:11 [0] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer"
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.16 GiB."


@cache
def library() -> Library:
    return load_library()


def steps(last: int = 59, total: int = 500) -> list[str]:
    return [
        f"[2026-11-15 01:{i // 60:02d}:{i % 60:02d}] iteration {i:8d}/{total:8d} | time per iteration (ms): 1.0 |"
        for i in range(1, last + 1)
    ]


def job(folder: Path, files: dict[str, Iterable[str]]) -> LogDiagnosis:
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    return diagnose_paths([folder], library=library())


def per_rank(folder: Path, endings: dict[int, list[str]]) -> LogDiagnosis:
    return job(folder, {f"rank{r}.log": [*steps(), *ending] for r, ending in endings.items()})


def ranks(found: LogDiagnosis) -> list[int | None]:
    return [suspect.rank for suspect in found.suspects]


def test_the_rank_with_a_cause_is_blamed_although_the_others_are_louder(tmp_path: Path) -> None:
    others = [CLOSED, "ncclRemoteError: A call failed possibly due to a network error", CLOSED]
    found = per_rank(tmp_path, {r: others if r != 3 else ["[rank3]: " + OOM] for r in range(8)})
    assert (found.outcome.value, found.cause.cause_class.value, ranks(found)) == ("failed", "user.resource", [3])
    assert found.iteration == 60
    assert found.events[0].role is EventRole.ROOT


def test_the_silent_rank_is_blamed(tmp_path: Path) -> None:
    found = per_rank(tmp_path, {r: [CLOSED] if r != 6 else [] for r in range(8)})
    assert (found.cause.cause_class.value, ranks(found), found.symptom.value) == ("hardware.node", [6], "crash")


def test_of_two_silent_ranks_the_second_is_less_suspect(tmp_path: Path) -> None:
    found = per_rank(tmp_path, {r: [CLOSED] if r not in (2, 6) else [] for r in range(8)})
    first, second = found.suspects
    assert {first.rank, second.rank} == {2, 6}
    assert first.score > second.score > first.score / 2


def test_a_known_line_is_the_cause_before_an_exception_that_nobody_knows(tmp_path: Path) -> None:
    unknown = "[rank1]: fabric.WeirdError: lost the plot"
    endings = {r: [CLOSED] for r in range(8)} | {1: [unknown], 2: ["[rank2]: " + OOM]}
    found = per_rank(tmp_path, endings)
    assert (found.cause.cause_class.value, ranks(found)) == ("user.resource", [2])


@pytest.mark.parametrize(("clock", "outcome"), [("01:02:23", "cancelled"), ("01:01:23", "failed")])
def test_complaints_right_before_a_stop_are_part_of_it(tmp_path: Path, clock: str, outcome: str) -> None:
    stop = "W1115 01:02:25.142000 521 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal"
    files = {f"gpu-node{r:02d}.log": [*steps(), stop] for r in range(3)}
    files["gpu-node03.log"] = [*steps(), f"[2026-11-15 {clock}] {CLOSED}"]
    assert job(tmp_path, files).outcome.value == outcome


def test_a_count_that_begins_anew_is_another_attempt(tmp_path: Path) -> None:
    found = per_rank(tmp_path, {r: [f"[rank{r}]: " + OOM, *steps()[:20]] for r in range(4)})
    assert found.outcome.value == "running"


def test_time_outs_of_all_but_one_accuse_the_silent_one_of_a_hang(tmp_path: Path) -> None:
    found = per_rank(tmp_path, {r: [WATCHDOG.format(r=r)] if r != 2 else [] for r in range(4)})
    assert (found.symptom.value, ranks(found)) == ("hang", [2])


def test_the_rank_behind_in_its_work_is_blamed_when_all_complain(tmp_path: Path) -> None:
    endings = {r: [WATCHDOG.format(r=r), BEHIND.format(r=r, work=67 if r == 5 else 70)] for r in range(8)}
    assert ranks(per_rank(tmp_path, endings)) == [5]


def test_when_all_complain_alike_nobody_is_blamed(tmp_path: Path) -> None:
    found = per_rank(tmp_path, {r: [WATCHDOG.format(r=r), BEHIND.format(r=r, work=70)] for r in range(8)})
    assert (found.outcome.value, ranks(found), found.cause.cause_class.value) == ("failed", [], "unknown")


def test_a_fault_that_hits_everyone_accuses_nobody(tmp_path: Path) -> None:
    found = per_rank(tmp_path, {r: [f"[rank{r}]: " + OOM] for r in range(8)})
    assert (found.cause.cause_class.value, ranks(found)) == ("user.resource", [])


def test_a_line_that_names_a_peer_accuses_the_peer(tmp_path: Path) -> None:
    files = {}
    for r in range(4):
        accusation = (
            f"node{r:02d}:10{r}:11{r} [0] transport/net_ib.cc:101 NCCL WARN NET/IB : Got completion from peer "
            "10.5.0.4<36315> with status=12 opcode=32698 len=32696 vendor err 129 (Send)"
        )
        boot = f"node{r:02d}:10{r}:10{r} [0] NCCL INFO Bootstrap: Using eth0:10.5.0.{r + 1}<0>"
        init = f"node{r:02d}:10{r}:10{r} [0] NCCL INFO ncclCommInitRank comm 0x1 rank {r} nranks 4 - Init COMPLETE"
        files[f"node{r:02d}.log"] = [boot, init, *steps(), *([accusation] if r in (0, 2) else []), WATCHDOG.format(r=r)]
    found = job(tmp_path, files)
    assert (found.cause.cause_class.value, ranks(found)) == ("network", [3])


def test_an_echo_on_most_ranks_does_not_hide_the_silent_one(tmp_path: Path) -> None:
    echo = "[rank{r}]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    found = per_rank(tmp_path, {r: [] if r == 6 else [CLOSED] if r == 7 else [echo.format(r=r)] for r in range(8)})
    assert ranks(found) == [6]


def test_a_kernel_log_names_its_node(tmp_path: Path) -> None:
    files: dict[str, Iterable[str]] = {f"rank{r}.log": [*steps(), *([CLOSED] if r != 5 else [])] for r in range(8)}
    files["dgx07.dmesg.log"] = [
        "Nov 15 01:00:58 dgx07 kernel: NVRM: Xid (PCI:0000:9c:00): 79, pid=3711, GPU has fallen off the bus."
    ]
    found = job(tmp_path, files)
    assert (found.cause.cause_class.value, found.suspects[0].node) == ("hardware.gpu", "dgx07")
    assert 0.5 < found.suspects[0].score < 1


def test_a_syslog_of_all_nodes_names_the_node(tmp_path: Path) -> None:
    files: dict[str, Iterable[str]] = {f"rank{r}.log": [*steps(), *([CLOSED] if r != 5 else [])] for r in range(8)}
    fallen = "kernel: NVRM: Xid (PCI:0000:9c:00): 79, pid=3711, GPU has fallen off the bus."
    files["messages.log"] = [f"2026-11-15T01:00:58.1+00:00 dgx07 {fallen}"] * 3
    assert job(tmp_path, files).suspects[0].node == "dgx07"


def test_progress_bars_count(tmp_path: Path) -> None:
    bars = "\r".join(
        f"{i // 6:3d}%|{'█' * (i // 60)}{' ' * (10 - i // 60)}| {i}/600 [00:10<01:00, 3.0it/s]" for i in range(250)
    )
    loading = "\r".join(f"Loading shards: {i}%|  | {i}/999 [00:10<01:00, 3.0it/s]" for i in range(999))
    found = job(tmp_path, {f"rank{r}.log": [loading, bars, CLOSED if r else "[rank0]: " + OOM] for r in range(4)})
    assert (found.iteration, ranks(found)) == (250, [0])


def test_a_stop_that_reaches_the_nodes_one_by_one_is_a_cancel(tmp_path: Path) -> None:
    stop = "W1115 01:02:{s:02d}.142000 521 torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal"
    files = {f"gpu-node{r:02d}.log": [*steps(), *([CLOSED] if r else []), stop.format(s=25 + r)] for r in range(4)}
    assert job(tmp_path, files).outcome.value == "cancelled"


def test_numbers_decide_between_xids(tmp_path: Path) -> None:
    mild = "NVRM: Xid (PCI:0000:9c:00): 63, pid=1, Row Remapper: New row marked for remapping, reset gpu to activate."
    fatal = "NVRM: Xid (PCI:0000:9c:00): 48, pid=1, An uncorrectable double bit error"
    found = per_rank(tmp_path, {r: [mild, fatal] if r == 1 else [CLOSED] for r in range(4)})
    assert (found.cause.signature, ranks(found)) == ("gpu.xid48", [1])


@pytest.mark.parametrize(("writers", "cause"), [((2,), "hardware.gpu"), ((0, 1, 2, 3), "unknown")])
def test_broken_hardware_that_many_outlived_is_no_cause_of_a_later_end(
    tmp_path: Path, writers: tuple[int, ...], cause: str
) -> None:
    broken = "[2026-11-15 01:00:50] NVRM: Xid (PCI:0000:9c:00): 48, pid=1, An uncorrectable double bit error"
    lines = {r: [*steps(50), *([broken] if r in writers else []), *steps(59)[50:], CLOSED] for r in range(4)}
    found = job(tmp_path, {f"rank{r}.log": some for r, some in lines.items()})
    assert (found.outcome.value, found.cause.cause_class.value) == ("failed", cause)


def test_survived_errors_are_no_cause(tmp_path: Path) -> None:
    handled = [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in <module>',
        "ImportError: no fused kernels",
    ]
    found = job(tmp_path, {f"rank{r}.log": [*handled, *steps(60, 60)] for r in range(4)})
    assert (found.outcome.value, found.cause.cause_class.value) == ("success", "none")
    assert any("survived" in note for note in found.notes)


def test_errors_after_success_are_noted_not_alarms(tmp_path: Path) -> None:
    done = "[after training is done] datetime: 2026-11-15 12:00:00"
    late = "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error."
    found = job(tmp_path, {f"rank{r}.log": [*steps(), done, *([late] if r == 2 else [])] for r in range(4)})
    assert (found.outcome.value, found.cause.cause_class.value, ranks(found)) == ("success", "none", [])
    assert [(event.role, event.ranks) for event in found.events] == [(EventRole.SYMPTOM, (2,))]


CANCEL = " 0: slurmstepd: error: *** STEP 5.1 ON node002 CANCELLED AT 2026-11-15T02:07:43"


@pytest.mark.parametrize(("tail", "outcome"), [(" DUE TO TIME LIMIT ***", "time_limit"), (" ***", "cancelled")])
def test_a_run_ended_from_outside_did_not_fail(tmp_path: Path, tail: str, outcome: str) -> None:
    lines = [f"{r}: {line}" for line in steps() for r in range(4)]
    found = job(tmp_path, {"job.log": [*lines, CANCEL + tail, "srun: error: node002: tasks 0-3: Terminated"]})
    assert (found.outcome.value, found.cause.cause_class.value, ranks(found)) == (outcome, "platform", [])


def test_a_cancel_after_a_fault_is_a_failure(tmp_path: Path) -> None:
    lines = [f"{r}: {line}" for line in steps() for r in range(4)]
    found = job(tmp_path, {"job.log": [*lines, "3: " + OOM, CANCEL + " ***"]})
    assert (found.outcome.value, ranks(found)) == ("failed", [3])


def test_disorder_after_the_last_iteration_is_no_failure(tmp_path: Path) -> None:
    found = job(tmp_path, {f"rank{r}.log": [*steps(60, 60), *([CLOSED] if r else [])] for r in range(4)})
    assert (found.outcome.value, found.cause.cause_class.value) == ("success", "none")


def test_events_show_the_line_as_it_was_written(tmp_path: Path) -> None:
    found = per_rank(tmp_path, {r: [CLOSED] if r != 3 else ["[rank3]: " + OOM] for r in range(8)})
    for event in found.events:
        lines = (tmp_path / event.first_line.file).read_text().splitlines()
        assert lines[event.first_line.line - 1] == event.first_line.text
        for line in (*event.before, *event.after):
            assert lines[line.line - 1] == line.text


def test_a_task_that_srun_saw_killed_before_it_ended_the_step_is_the_suspect(tmp_path: Path) -> None:
    lines = [f"{r}: {line}" for line in steps() for r in range(4)]
    others = [f"{r}: {CLOSED}" for r in range(4) if r != 2]
    ending = [
        *others,
        "srun: error: node001: task 2: Killed",
        "srun: Job step aborted: Waiting up to 32 seconds",
        CANCEL + " ***",
    ]
    found = job(tmp_path, {"job.log": [*lines, *ending]})
    assert (found.outcome.value, ranks(found)) == ("failed", [2])


def test_a_log_that_just_stops_is_running(tmp_path: Path) -> None:
    found = per_rank(tmp_path, {r: [] for r in range(4)})
    assert (found.outcome.value, found.cause.cause_class.value) == ("running", "none")


def test_the_node_that_never_came_is_named(tmp_path: Path) -> None:
    wait = "[rank{r}]: torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 joined."
    files = {f"gpu-node{r:02d}.log": [wait.format(r=r)] if r != 1 else ["starting"] for r in range(4)}
    found = job(tmp_path, files)
    assert (found.symptom.value, found.suspects[0].node) == ("launch_failure", "gpu-node01")


def test_an_exception_that_the_program_survived_is_not_the_root_of_a_later_one(tmp_path: Path) -> None:
    handled = [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in <module>',
        "ImportError: no fused kernels",
    ]
    chatter = [f"loading module {chr(97 + n % 26)}{chr(97 + n // 26)} of the model" for n in range(200)]
    fatal = ["Traceback (most recent call last):", '  File "model.py", line 9, in build', "ValueError: bad mask"]
    found = job(tmp_path, {f"rank{r}.log": [*handled, *chatter, *fatal] for r in range(4)})
    assert found.events[0].first_line.text == "ValueError: bad mask"


def test_source_code_inside_a_traceback_means_nothing(tmp_path: Path) -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/workspace/train.py", line 3, in main',
        "    raise StopIteration  # CUDA out of memory is handled elsewhere",
        "ValueError: bad mask",
    ]
    found = job(tmp_path, {"rank0.log": [*steps(), *lines], "rank1.log": [*steps(), CLOSED]})
    assert (found.cause.cause_class.value, found.cause.signature, ranks(found)) == ("user.code", None, [0])
