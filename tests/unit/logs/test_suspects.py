# ruff: noqa: E501 (log lines as they are)
"""Who is blamed and who is not, in forms of public reports."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from llmprism.logs.diagnose import diagnose_paths
from llmprism.logs.library import load_library
from llmprism.model.log import LogDiagnosis

LIBRARY = load_library()
WATCHDOG = (
    "[rank{r}]:[E1115 01:02:{s:02d}.3 ProcessGroupNCCL.cpp:689] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=1, NumelOut=4, Timeout(ms)=15000) ran for 15098 milliseconds before timing out."
)
STATUS = (
    "[rank{r}]:[E1115 01:02:{s:02d}.4 ProcessGroupNCCL.cpp:2303] [PG ID 0 PG GUID 0(default_pg) Rank {r}]  failure detected by watchdog "
    "at work sequence id: {seq} PG status: last enqueued work: {work}, last completed work: {done}"
)
CLOSED = "[2026-11-15 01:{m:02d}:{s:02d}] vm:9:11 [0] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer"
REMOTE = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
STORE = "[rank{r}]:[W1115 01:02:31.2 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=53): Failed to recv, got 0 bytes. Connection was likely closed."
BROKEN = "[rank{r}]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank {r}."


def steps(last: int = 59) -> list[str]:
    return [f"[2026-11-15 01:{i // 60:02d}:{i % 60:02d}] iteration {i}/500 | loss: 2.0" for i in range(1, last + 1)]


def run(folder: Path, endings: dict[int, list[str]], **files: list[str]) -> LogDiagnosis:
    for r, ending in endings.items():
        (folder / f"rank{r}.log").write_text("\n".join([*steps(), *ending]) + "\n")
    for name, lines in files.items():
        (folder / f"{name}.log").write_text("\n".join(lines) + "\n")
    return diagnose_paths([folder], library=LIBRARY)


def ranks(found: LogDiagnosis) -> list[int | None]:
    return [suspect.rank for suspect in found.suspects]


@pytest.mark.parametrize("odd", [BROKEN.format(r=2), STORE.format(r=2), WATCHDOG.format(r=2, s=30, seq=68)])
def test_nobody_is_blamed_for_other_words(tmp_path: Path, odd: str) -> None:
    found = run(
        tmp_path, {r: [odd, BROKEN.format(r=2)] if r == 2 else [CLOSED.format(m=2, s=30), REMOTE] for r in range(6)}
    )
    assert (found.outcome.value, ranks(found)) == ("failed", [])
    assert found.ranking, "the order of suspicion is still given"


GAVE_UP = "[rank{r}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete"
GLOO_CLOSED = "[rank{r}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.10.1.1]:29607"
GLOO_RESET = "[rank{r}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Read error [10.10.1.1]:28553: Connection reset by peer"


@pytest.mark.parametrize(
    ("endings", "symptom", "blamed"),
    [
        ([GAVE_UP, GLOO_CLOSED, GAVE_UP, GLOO_CLOSED], "hang", []),
        ([GAVE_UP, GLOO_CLOSED, GLOO_CLOSED, GLOO_RESET], "hang", []),
        ([GLOO_CLOSED, GLOO_CLOSED, GLOO_RESET, ""], "crash", [3]),
        ([GLOO_CLOSED, GLOO_CLOSED, GAVE_UP, ""], "crash", [3]),
    ],
)
def test_a_connection_is_closed_by_a_process_that_ended_before(
    tmp_path: Path, endings: list[str], symptom: str, blamed: list[int]
) -> None:
    """Where every rank says why it ended, the first of them gave up waiting; nobody died before it."""
    found = run(tmp_path, {r: [line.format(r=r)] if line else [] for r, line in enumerate(endings)})
    assert (found.outcome.value, found.symptom.value, ranks(found)) == ("failed", symptom, blamed)


def test_stacks_of_those_that_complain_do_not_make_the_silent_one_taciturn(tmp_path: Path) -> None:
    stack = [f"frame #{n}: <unknown function> + 0x2a1ca (0x7f90fc42a1ca in /lib/libc.so.6)" for n in range(400)]
    endings = {r: [CLOSED.format(m=2, s=30), REMOTE, *stack] for r in range(4)}
    endings[2] = []
    assert ranks(run(tmp_path, endings)) == [2]


def test_a_connection_that_was_closed_before_anybody_gave_up_is_of_a_death(tmp_path: Path) -> None:
    endings = {r: [CLOSED.format(m=1, s=5), REMOTE] for r in range(3)}
    endings[3] = [WATCHDOG.format(r=3, s=30, seq=68)]
    assert run(tmp_path, endings).symptom.value == "crash"


def test_words_of_the_ending_job_are_no_evidence(tmp_path: Path) -> None:
    # zoo/frozen: the hung rank is ended by its launcher half a minute later and complains of that
    endings = {r: [WATCHDOG.format(r=r, s=10 + r, seq=68)] for r in range(4)}
    endings[3] = [CLOSED.format(m=2, s=44), REMOTE]
    assert ranks(run(tmp_path, endings)) == [3]


def test_the_one_that_never_enqueued_the_collective(tmp_path: Path) -> None:
    # NVIDIA/nccl#1730: the numbers of a real watchdog
    endings = {
        r: [
            WATCHDOG.format(r=r, s=30, seq=2398459),
            STATUS.format(r=r, s=30, seq=2398459, work=2398458 if r == 5 else 2398578, done=2398458),
        ]
        for r in range(8)
    }
    found = run(tmp_path, endings)
    assert (ranks(found), found.symptom.value, found.stage.value) == ([5], "hang", "train")
    assert 0.5 < found.suspects[0].score < 1


def test_the_desync_report_is_believed(tmp_path: Path) -> None:
    # pytorch/pytorch#152623
    report = [
        WATCHDOG.format(r=0, s=30, seq=241),
        "[rank0]:[E515 18:36:47.343377708 ProcessGroupNCCL.cpp:1937] Rank 0",
        "         - [0] Timeout at collective: ALLREDUCE, #315",
        "         - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
        "             [7] finished collective #182, but didn't join collective #183 (count from 1)",
    ]
    endings = {r: report if r == 0 else [WATCHDOG.format(r=r, s=30, seq=241)] for r in range(8)}
    assert ranks(run(tmp_path, endings)) == [7]


def flight(folder: Path, r: int, enqueued: int, *, as_json: bool) -> None:
    dump = {
        "version": "2.9",
        "pg_status": {"0": {"last_enqueued_collective": enqueued, "last_started_collective": enqueued, "last_completed_collective": 67}},
        "entries": [{"pg_id": 0, "collective_seq_id": enqueued, "state": "scheduled", "profiling_name": "nccl:all_reduce"}],
    }  # fmt: skip
    data = json.dumps(dump).encode() if as_json else pickle.dumps(dump)
    (folder / f"nccl_trace_rank_{r}{'.json' if as_json else ''}").write_bytes(data)


@pytest.mark.parametrize("as_json", [True, False])
def test_flight_records_name_the_rank_that_hangs(tmp_path: Path, as_json: bool) -> None:
    for r in range(4):
        flight(tmp_path, r, 67 if r == 2 else 68, as_json=as_json)
    found = run(tmp_path, {r: [] for r in range(4)})
    assert (found.symptom.value, ranks(found)) == ("hang", [2])


def test_a_flight_record_runs_nothing(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (str(tmp_path / "owned"),))

    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps({"pg_status": Evil()}))
    found = run(tmp_path, {0: []})
    assert dict(found.input.dropped) == {"broken flight record": 1}
    assert not (tmp_path / "owned").exists()


def test_ranks_and_nodes_are_ranked(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        {
            r: [CLOSED.format(m=2, s=30)]
            if r != 3
            else ["[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"]
            for r in range(8)
        },
    )
    assert found.ranking[0].rank == 3
    assert len(found.ranking) >= 5
    scores = [suspect.score for suspect in found.ranking]
    assert scores == sorted(scores, reverse=True)


ENDED = """\
Root Cause (first observed failure):
[0]:
  time      : 2026-11-15_01:02:{s:02d}
  host      : gpu-node{r:02d}
  rank      : {r} (local_rank: 0)
  exitcode  : {code} (pid: 577)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"""


@pytest.mark.parametrize(("code", "cause"), [(1, "hardware.node"), (-9, "unknown"), (-11, "user.code")])
def test_one_torchrun_per_node_and_one_process_that_just_ended(tmp_path: Path, code: int, cause: str) -> None:
    files = {}
    for r in range(4):
        guilty = r == 2
        words = [] if guilty else [CLOSED.format(m=2, s=28), REMOTE]
        report = ENDED.format(r=r, s=26 if guilty else 30, code=code if guilty else -6).splitlines()
        header = ["torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", "/workspace/hf.py FAILED"]
        files[f"gpu-node{r:02d}"] = [*steps(), *words, *header, *report]
    found = run(tmp_path, {}, **files)
    assert (ranks(found), found.suspects[0].node, found.cause.cause_class.value) == ([2], "gpu-node02", cause)


def test_time_outs_ten_minutes_later_still_count(tmp_path: Path) -> None:
    # the neighbour of the dead rank sees the connection close, the others wait for their watchdogs
    late = WATCHDOG.replace("01:02:{s:02d}", "01:12:{s:02d}")
    endings = {r: [late.format(r=r, s=30, seq=68)] for r in range(8)}
    endings[4], endings[3] = [], [CLOSED.format(m=2, s=30), REMOTE]
    assert ranks(run(tmp_path, endings)) == [4]


def test_the_node_that_was_cut_off_lost_the_store_first(tmp_path: Path) -> None:
    endings = {r: [WATCHDOG.format(r=r, s=50, seq=68)] for r in range(8)}
    endings[6] = [STORE.format(r=6), *endings[6]]
    found = run(tmp_path, endings)
    assert ranks(found) == [6]
    assert 0.3 < found.suspects[0].score < 0.7, "it may have been the store that went"
    assert (found.cause.cause_class.value, 0.3 < found.cause.confidence < 0.7) == ("network", True)


def test_a_line_that_names_its_rank_and_node(tmp_path: Path) -> None:
    # NVIDIA/Megatron-LM: the assertion of check_for_nan_in_grad
    line = "AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel communication collective. Device: 3, node: node07"
    (tmp_path / "job.log").write_text("\n".join([*steps(), line]) + "\n")
    found = diagnose_paths([tmp_path], library=LIBRARY)
    assert [(s.rank, s.node) for s in found.suspects] == [(3, "node07")]


@pytest.mark.parametrize("size", [2, 4])
def test_a_module_missing_on_one_node_is_that_nodes(tmp_path: Path, size: int) -> None:
    for r in range(size):
        wait = f"[rank{r}]: torch.distributed.DistStoreError: Timed out after 61 seconds waiting for clients. {size - 1}/{size} clients joined."
        lost = "[rank1]: ModuleNotFoundError: No module named 'datasets'"
        (tmp_path / f"gpu-node{r:02d}.log").write_text((lost if r == 1 else wait) + "\n")
    found = diagnose_paths([tmp_path], library=LIBRARY)
    assert ([s.node for s in found.suspects], found.stage.value) == (["gpu-node01"], "init")
    assert found.symptom.value == "launch_failure"
