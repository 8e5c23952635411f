# ruff: noqa: E501 (log lines as they are)
"""Ranks that end one after another when they are done are not a failed run; ranks that lose a peer in a step are."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprism.logs.diagnose import diagnose_paths
from llmprism.logs.library import load_library
from llmprism.model.log import LogDiagnosis

LIBRARY = load_library()
TORCH = "/usr/lib/python3.12/site-packages/torch/distributed"


def lost_peer(rank: int, frames: list[str]) -> list[str]:
    stack = [f"#{k} {frame}" for k, frame in enumerate(frames)]
    return [
        f"[2026-11-15 13:46:40] vm:41{rank:02}:4887 [0] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer ",
        f"[rank{rank}]:[E1115 13:46:40.801038025 ProcessGroupNCCL.cpp:612] [Rank {rank}] Collective WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=120000) raised the following async exception: NCCL error: remote process exited or there was a network error, NCCL version 2.28.9",
        f"[rank{rank}]:[E1115 13:46:40.802813859 ProcessGroupNCCL.cpp:733] Stack trace of the failed collective: ",
        *stack,
        "",
        f"[rank{rank}]:[E1115 13:46:40.802916058 ProcessGroupNCCL.cpp:2636] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] First PG on this rank to signal dumping.",
    ]


LAST_BARRIER = [
    f"barrier from {TORCH}/distributed_c10d.py:5030",
    f"wrapper from {TORCH}/c10d_logger.py:83",
    "<module> from /workspace/train.py:305",
]


def run(folder: Path, frames: list[str], *, behind: int = 0, extra: list[str] | None = None) -> LogDiagnosis:
    for rank in range(4):
        last = 41 - (behind if rank == 3 else 0)
        lines = [
            f"[2026-11-15 13:46:{n:02d}] iteration {n}/2000 | elapsed time per iteration (ms): 609.6 | rank {rank}"
            for n in range(1, last)
        ]
        complaint = lost_peer(rank, frames) if rank in (1, 2) else []
        (folder / f"rank{rank}.log").write_text("\n".join([*lines, *complaint, *(extra or [])]) + "\n")
    return diagnose_paths([folder], library=LIBRARY)


def test_ranks_that_lose_one_another_in_a_last_barrier_did_not_fail(tmp_path: Path) -> None:
    found = run(tmp_path, LAST_BARRIER)
    assert (found.outcome.value, found.cause.confidence, found.suspects) == ("unknown", 0.0, ())
    assert any("left their loop" in note for note in found.notes)


@pytest.mark.parametrize(
    "frames",
    [
        [f"all_reduce from {TORCH}/distributed_c10d.py:2900", *LAST_BARRIER[1:]],
        [*LAST_BARRIER[:2], "save_checkpoint from /workspace/train.py:90", "<module> from /workspace/train.py:305"],
    ],
    ids=["in a step", "in a checkpoint"],
)
def test_ranks_that_lose_a_peer_at_work_did(tmp_path: Path, frames: list[str]) -> None:
    assert run(tmp_path, frames).outcome.value == "failed"


def test_a_rank_that_was_behind_did_not_leave_with_the_others(tmp_path: Path) -> None:
    assert run(tmp_path, LAST_BARRIER, behind=2).outcome.value == "failed"


def test_a_fault_of_its_own_stays_one(tmp_path: Path) -> None:
    found = run(tmp_path, LAST_BARRIER, extra=["RuntimeError: CUDA error: uncorrectable ECC error encountered"])
    assert (found.outcome.value, found.cause.cause_class.value) == ("failed", "hardware.gpu")
