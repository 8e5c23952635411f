from __future__ import annotations

import os
from pathlib import Path

import pytest

from llmprism.errors import ConfigError
from llmprism.service.joblogs.names import is_name
from llmprism.service.joblogs.spool import MAX_LINE_BYTES, LogSpool


def spool(folder: Path, **more: object) -> LogSpool:
    return LogSpool(folder, **{"writer_bytes": 1000, "total_bytes": 5000, **more})  # type: ignore[arg-type]


def text(folder: Path, name: str = "a/rank0") -> str:
    parts = [folder / f"{name}.1.log", folder / f"{name}.log"]
    return "".join(part.read_text() for part in parts if part.exists())


def test_lines_are_kept_and_counted(tmp_path: Path) -> None:
    taken = spool(tmp_path).append("a", "rank0", b"one\ntwo\n")
    assert (taken.received, taken.stored, dict(taken.dropped)) == (2, 2, {})
    assert text(tmp_path) == "one\ntwo\n"


def test_the_last_lines_of_a_writer_stay_within_its_room(tmp_path: Path) -> None:
    one = spool(tmp_path)
    for number in range(500):
        taken = one.append("a", "rank0", f"line {number}\n".encode())
        assert taken.received == taken.stored + sum(taken.dropped.values())
    assert one.size <= 1000
    assert text(tmp_path).endswith("line 499\n")
    assert len(text(tmp_path)) >= 480
    assert one.size == sum(path.stat().st_size for path in tmp_path.rglob("*.log"))


def test_what_does_not_fit_is_dropped_and_counted(tmp_path: Path) -> None:
    one = spool(tmp_path, total_bytes=60)
    full = one.append("a", "rank0", b"x" * 50 + b"\n")
    assert full.stored == 1
    more = one.append("a", "rank1", b"y" * 50 + b"\n" + b"z" * 20 + b"\n")
    assert (more.received, more.stored, dict(more.dropped)) == (2, 0, {"no_room": 2})
    long = spool(tmp_path / "x").append("a", "r", b"y" * (MAX_LINE_BYTES + 1) + b"\nok\n")
    assert (long.stored, dict(long.dropped)) == (1, {"too_long": 1})
    flood = spool(tmp_path / "y").append("a", "r", b"0123456789\n" * 100)
    assert flood.received == flood.stored + flood.dropped["writer_full"] == 100


def test_secrets_never_reach_the_disk(tmp_path: Path) -> None:
    one = spool(tmp_path, redactions=(r"token=\S+", r"hf_[A-Za-z0-9]+"))
    one.append("a", "rank0", b"login token=abc123 with hf_SECRET done\n")
    assert text(tmp_path) == "login *** with *** done\n"
    with pytest.raises(ConfigError):
        spool(tmp_path, redactions=("(",))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "a..b", ".hidden", "x" * 65, "a\0b", "é"])
def test_names_cannot_lead_out(tmp_path: Path, name: str) -> None:
    assert not is_name(name)
    with pytest.raises(ValueError, match="names"):
        spool(tmp_path).append(name, "rank0", b"x\n")
    with pytest.raises(ValueError, match="names"):
        spool(tmp_path).append("a", name, b"x\n")


def test_a_spool_that_is_opened_again_knows_its_size_and_forgets_what_is_old(tmp_path: Path) -> None:
    spool(tmp_path).append("a", "rank0", b"one\n")
    again = spool(tmp_path, keep_s=100.0, now_s=lambda: 10_000.0)
    assert again.size == 4
    os.utime(tmp_path / "a/rank0.log", (1, 1))
    again.append("b", "rank0", b"2\n")
    assert again.size == 2
    assert not (tmp_path / "a/rank0.log").exists()


def test_the_greediest_job_makes_room_for_the_others(tmp_path: Path) -> None:
    one = spool(tmp_path, total_bytes=1000, writer_bytes=400)
    assert one.append("small", "rank0", b"s" * 99 + b"\n").stored == 1
    for number in range(20):
        taken = one.append("big", f"rank{number}", b"b" * 99 + b"\n")
        os.utime(tmp_path / f"big/rank{number}.log", (number, number))
        assert taken.stored == 1
    assert one.size <= 1000
    assert (tmp_path / "small/rank0.log").exists()
    assert (tmp_path / "big/rank19.log").exists()
    assert not (tmp_path / "big/rank0.log").exists()
    assert one.size == sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
