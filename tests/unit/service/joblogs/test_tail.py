from __future__ import annotations

from pathlib import Path

import pytest

from llmprism.service.joblogs.spool import LogSpool
from llmprism.service.joblogs.tail import LogTail


@pytest.fixture
def spool(tmp_path: Path) -> LogSpool:
    return LogSpool(tmp_path / "spool", writer_bytes=100_000, total_bytes=1_000_000)


def kept(spool: LogSpool, name: str) -> str:
    return (spool.folder / f"{name}.log").read_text()


def test_growing_files_are_followed_line_by_line(tmp_path: Path, spool: LogSpool) -> None:
    folder = tmp_path / "logs"
    (folder / "train").mkdir(parents=True)
    path = folder / "train/rank0.log"
    path.write_text("one\ntw")
    tail = LogTail(folder, spool)
    assert tail.poll()["stored", ""] == 1
    with path.open("a") as file:
        file.write("o\nthree\n")
    counts = tail.poll()
    assert counts["received", ""] == counts["stored", ""] == 2
    assert kept(spool, "train/rank0") == "one\ntwo\nthree\n"
    assert tail.poll()["received", ""] == 0


def test_rotated_and_cut_files_go_on(tmp_path: Path, spool: LogSpool) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "rank0.log"
    path.write_text("old\n")
    tail = LogTail(folder, spool)
    tail.poll()
    path.rename(folder / "rank0.log.1")
    path.write_text("new\n")
    tail.poll()
    path.write_text("n\n")
    tail.poll()
    assert kept(spool, "logs/rank0") == "old\nnew\nn\n"


def test_links_and_other_files_are_left_alone(tmp_path: Path, spool: LogSpool) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (tmp_path / "secret.log").write_text("secret\n")
    (folder / "rank1.log").symlink_to(tmp_path / "secret.log")
    (folder / "model.pt").write_text("weights\n")
    assert LogTail(folder, spool).poll()["received", ""] == 0


def test_odd_names_become_safe_ones(tmp_path: Path, spool: LogSpool) -> None:
    folder = tmp_path / "logs"
    (folder / "job a (1)/node 0").mkdir(parents=True)
    (folder / "job a (1)/node 0/out.log").write_text("x\n")
    assert LogTail(folder, spool).poll()["stored", ""] == 1
    assert kept(spool, "job-a-1/node-0-out") == "x\n"


def test_a_folder_that_is_not_there_is_counted(tmp_path: Path, spool: LogSpool) -> None:
    assert LogTail(tmp_path / "absent", spool).poll()["missing_folders", ""] == 1


def test_a_tail_that_starts_again_reads_on_where_it_stopped(tmp_path: Path, spool: LogSpool) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "rank0.log"
    path.write_text("one\ntwo\nthr")
    assert LogTail(folder, spool).poll()["received", ""] == 2
    with path.open("a") as file:
        file.write("ee\n")
    (folder / "rank1.log").write_text("new\n")
    again = LogTail(folder, spool)
    assert again.poll()["received", ""] == 2
    assert kept(spool, "logs/rank0") == "one\ntwo\nthree\n"
    assert LogTail(folder, spool).poll()["received", ""] == 0


def test_another_file_under_a_known_inode_is_read_from_its_beginning(tmp_path: Path, spool: LogSpool) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "rank0.log"
    path.write_text("one\ntwo\n")
    LogTail(folder, spool).poll()
    path.write_text("another file, longer than the first\n")  # the same inode
    assert LogTail(folder, spool).poll()["received", ""] == 1
