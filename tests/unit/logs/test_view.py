from __future__ import annotations

from pathlib import Path

from llmprism.logs.library import load_library
from llmprism.logs.view import view_job

LIBRARY = load_library()


def test_the_view_holds_who_when_and_how_far(tmp_path: Path) -> None:
    for r in range(3):
        lines = [
            f"gpu-node0{r}:93{r}:93{r} [0] NCCL INFO Bootstrap: Using eth0:10.5.0.{r + 1}<0>",
            f"gpu-node0{r}:93{r}:93{r} [0] NCCL INFO ncclCommInitRank comm 0x1 rank {r} nranks 3 - Init COMPLETE",
            *(f"[2026-11-15 01:00:{n:02d}] step {n} loss 2.0" for n in range(1, 21)),
        ]
        (tmp_path / f"gpu-node0{r}.log").write_text("\n".join(lines) + "\n")
    view = view_job([tmp_path], library=LIBRARY)
    assert [(rank.rank, rank.node, rank.addresses) for rank in view.ranks] == [
        (r, f"gpu-node0{r}", (f"10.5.0.{r + 1}",)) for r in range(3)
    ]
    assert view.ranks[1].iterations.tolist() == list(range(1, 21))
    assert view.ranks[1].last_ns - view.ranks[1].first_ns == 19 * 10**9
    assert view.step_ns == 10**9
    assert view.by_address()["10.5.0.3"].rank == 2
    assert view.diagnosis.outcome.value == "running"


def test_ranks_of_one_file_have_their_own_series(tmp_path: Path) -> None:
    lines = [f"{r}: [2026-11-15 01:00:{n:02d}] step {n} loss 2.0" for n in range(1, 21) for r in range(4)]
    (tmp_path / "job.log").write_text("\n".join(lines) + "\n")
    view = view_job([tmp_path], library=LIBRARY)
    assert [rank.iterations.tolist() for rank in view.ranks] == [list(range(1, 21))] * 4


def test_times_that_all_iterations_have_from_a_line_before_are_none(tmp_path: Path) -> None:
    lines = ["[2026-11-15 01:00:00] started", *(f"step {n} loss 2.0" for n in range(1, 21))]
    (tmp_path / "rank0.log").write_text("\n".join(lines) + "\n")
    (tmp_path / "rank1.log").write_text("\n".join(lines) + "\n")
    view = view_job([tmp_path], library=LIBRARY)
    assert not view.ranks[0].iteration_ns.any()
    assert view.ranks[0].iterations.size == 20


def test_an_error_at_the_end_of_a_file_without_times_is_not_survived(tmp_path: Path) -> None:
    """Only the last rank prints iterations; the others' lines have the time of some line at the start."""
    counting = [f"[2026-11-15 01:00:{n:02d}] step {n} loss 2.0" for n in range(1, 41)]
    dying = ["[2026-11-15 01:00:00] started", "RuntimeError: CUDA error: device-side assert triggered"]
    (tmp_path / "rank0.log").write_text("\n".join(dying) + "\n")
    (tmp_path / "rank1.log").write_text("\n".join(counting) + "\n")
    view = view_job([tmp_path], library=LIBRARY)
    assert view.diagnosis.outcome.value == "failed"
    assert [line.survived for line in view.lines] == [False]
