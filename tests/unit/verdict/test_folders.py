from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from llmprism.errors import InputError, UsageError
from llmprism.logs import sources
from llmprism.verdict import read_logs
from llmprism.verdict.folders import find_log_folders, parse_logs_option


def write(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("step 1\n")
    return root


def names(root: Path) -> list[str]:
    return [folder.name for folder in find_log_folders(str(root))]


def test_folders_with_files_of_the_same_ranks_are_jobs(tmp_path: Path) -> None:
    write(tmp_path, "a/rank0.log", "a/rank1.log", "b/rank0.log", "b/rank1.log")
    found = find_log_folders(str(tmp_path))
    assert [folder.name for folder in found] == ["a", "b"]
    assert [folder.only("a/rank0.log") for folder in found if folder.only] == [True, False]


@pytest.mark.parametrize(
    "files",
    [
        ("rank0.log", "rank1.log"),
        ("node0/out.log", "node1/out.log"),
        ("attempt_0/0/stdout.log", "attempt_0/1/stdout.log"),
        ("train/rank0.log", "kernel/dmesg.log"),
        ("a/rank0.log", "b/rank1.log"),
    ],
    ids=["files", "hosts", "torchrun", "kinds", "disjoint ranks"],
)
def test_folders_within_a_job_are_not(tmp_path: Path, files: tuple[str, ...]) -> None:
    assert names(write(tmp_path, *files)) == [tmp_path.name]


def test_jobs_inside_an_archive(tmp_path: Path) -> None:
    write(tmp_path / "x", "a/rank0.log", "b/rank0.log")
    with tarfile.open(tmp_path / "logs.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "x", arcname=".")
    found = read_logs(find_log_folders(str(tmp_path / "logs.tar.gz")))
    assert [(one.name, one.view.diagnosis.input.files) for one in found] == [("a", 1), ("b", 1)]


def test_the_job_may_be_given(tmp_path: Path) -> None:
    write(tmp_path, "a/rank0.log", "b/rank0.log")
    found = find_log_folders(f"job-12={tmp_path}")
    assert [(folder.job, folder.prefix) for folder in found] == [("job-12", "")]
    odd = write(tmp_path / "x=y", "rank0.log")
    assert parse_logs_option(str(odd)) == (None, odd)
    with pytest.raises(UsageError):
        parse_logs_option("=x")


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        find_log_folders(str(tmp_path / "absent"))


def test_an_archive_is_unpacked_once_and_divided_only_if_it_holds_several_jobs(tmp_path: Path, monkeypatch) -> None:
    opened = []
    real = sources._open_path
    monkeypatch.setattr(sources, "_open_path", lambda path, *more: opened.append(path) or real(path, *more))
    for jobs in (1, 2):
        archive = tmp_path / f"{jobs}.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for job in range(jobs):
                for rank in range(2):
                    text = "".join(f"[rank{rank}]: iteration {step} loss 2.5\n" for step in range(9)).encode()
                    info = tarfile.TarInfo(f"logs/job{job}/rank{rank}.log")
                    info.size = len(text)
                    tar.addfile(info, io.BytesIO(text))
        opened.clear()
        found = read_logs(find_log_folders(str(archive)))
        assert len(found) == jobs
        assert [len(one.view.ranks) for one in found] == [2] * jobs
        assert len(opened) == (1 if jobs == 1 else 3)
