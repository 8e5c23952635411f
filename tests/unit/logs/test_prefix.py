"""Who wrote a line, in the forms that launchers, loggers and collectors print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmprism.logs.library import Library
from llmprism.logs.members import identify_members
from llmprism.logs.reader import read_job

EMPTY = Library([], [])
RANKS = range(4)


def ranks_of(folder: Path, name: str, form: str) -> list[int | None]:
    lines = [form.format(r=r, text=f"step {n} loss 2.5") for n in range(1, 12) for r in RANKS]
    (folder / name).write_text("\n".join(lines) + "\n")
    return [actor.rank for actor in identify_members(read_job([folder], EMPTY)).actors]


@pytest.mark.parametrize(
    "form",
    [
        "[rank{r}]: {text}",
        "[Rank {r}] {text}",
        "[RANK {r}] {text}",
        "[rank: {r}] {text}",
        "[rank={r}] {text}",
        "rank {r}: {text}",
        "Rank {r} | {text}",
        "rank={r} {text}",
        "(rank {r}) {text}",
        "<rank {r}> {text}",
        "global_rank={r} {text}",
        "{r}: {text}",
        "[1,{r}]<stdout>: {text}",
        "2026-11-15 01:02:03,123 [rank {r}] {text}",
        "2026-11-15 01:02:03,123 INFO [rank {r}] {text}",
        "[2026-11-15 01:02:03,123] [INFO] [logging.py:96:log_dist] [Rank {r}] {text}",
        "time=2026-11-15T01:02:03Z level=info rank={r} {text}",
        "2026-11-15T01:02:03.123456789Z stdout F [rank{r}]: {text}",
        "Nov 15 01:02:03 node7 torchrun[4711]: [rank{r}]: {text}",
        "\x1b[32m[Rank {r}]\x1b[0m {text}",
        "2024-08-30 11:06:12,920: rank{r}[208865][MainThread]: INFO: composer.trainer: {text}",
        "2025-10-31 03:11:02,473 - SimpleTuner - INFO - [rank{r}]: {text}",
        "[titan] 2026-05-13 00:52:16,792 - root - INFO - [rank {r}] {text}",
        "[2024-04-18 15:55:06] CRITICAL [olmo.util:158, rank={r}] {text}",
        "(WorkerDict pid=833, ip=172.26.153.33) [rank{r}]:[E809 14:59:33.656957424 x.cpp:629] {text}",
        "10.83.191.29: [rank{r}]: {text}",
    ],
)
def test_the_rank_is_read(tmp_path: Path, form: str) -> None:
    assert ranks_of(tmp_path, "job.log", form) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "form",
    ["worker {r} waits for rank 3 of 4: {text}", "lost the connection to peer (rank {r}) {text}", "frank {r}: {text}"],
)
def test_a_rank_in_a_sentence_is_not_the_writer(tmp_path: Path, form: str) -> None:
    assert ranks_of(tmp_path, "job.log", form) == []


@pytest.mark.parametrize("form", ["{r}: {text}", "[rank{r}]: {text}"])
def test_ranks_in_the_lines_beat_the_name_of_the_file(tmp_path: Path, form: str) -> None:
    assert ranks_of(tmp_path, "slurm-task0.log", form) == [0, 1, 2, 3]


def test_a_rank_in_the_name_serves_files_without_ranks(tmp_path: Path) -> None:
    for r in RANKS:
        (tmp_path / f"rank{r}.log").write_text("step 1\nstep 2\n")
    assert [actor.rank for actor in identify_members(read_job([tmp_path], EMPTY)).actors] == [0, 1, 2, 3]


def test_docker_and_structured_json(tmp_path: Path) -> None:
    def docker(r: int, n: int) -> str:
        return json.dumps(
            {"log": f"[rank{r}]: \x1b[31mstep {n}\x1b[0m\n", "stream": "stderr", "time": "2026-11-15T01:02:03Z"}
        )

    def structured(r: int, n: int) -> str:
        return json.dumps({"timestamp": "2026-11-15T01:02:03Z", "level": "info", "rank": r, "message": f"step {n}"})

    for form in (docker, structured):
        folder = tmp_path / form.__name__
        folder.mkdir()
        (folder / "pod.json").write_text("\n".join(form(r, n) for n in range(1, 12) for r in RANKS) + "\n")
        log = read_job([folder], EMPTY)
        assert [actor.rank for actor in identify_members(log).actors] == [0, 1, 2, 3], form.__name__
        assert log.iterations.value.max() == 11
        assert log.file_last_ns[0] == 1794704523 * 10**9


def test_nodes_of_compose_and_pods(tmp_path: Path) -> None:
    lines = [f"worker-{r}  | step {n}" for n in range(1, 12) for r in RANKS]
    (tmp_path / "compose.log").write_text("\n".join(lines) + "\n")
    assert identify_members(read_job([tmp_path], EMPTY)).nodes == {f"worker-{r}" for r in RANKS}


def test_an_empty_file_is_a_silent_rank(tmp_path: Path) -> None:
    for r in RANKS:
        (tmp_path / f"rank{r}.log").write_text("" if r == 2 else "step 1\nstep 2\n")
    assert [actor.rank for actor in identify_members(read_job([tmp_path], EMPTY)).actors] == [0, 1, 2, 3]
