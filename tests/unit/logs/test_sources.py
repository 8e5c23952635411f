"""Hostile and odd input: capped, counted, never fatal."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from pathlib import Path

import pytest

from llmprism import limits
from llmprism.errors import InputError
from llmprism.logs.blocks import read_blocks
from llmprism.logs.diagnose import diagnose_paths
from llmprism.logs.library import Library
from llmprism.logs.sources import Dropped, find_log_paths, open_logs

TEXT = b"".join(b"line %d of the log\n" % n for n in range(5000))
EMPTY = Library([], [])


def read(path: Path) -> tuple[bytes, dict[str, int]]:
    dropped = Dropped()
    data = b"".join(
        block.buffer[: block.size].tobytes()
        for log in open_logs([path], dropped)
        for block in read_blocks(log, dropped)
    )
    return data, dict(dropped.reasons)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress], ids=["plain", "gz", "xz", "bz2"])
def test_packed_files_are_known_by_their_bytes(tmp_path: Path, pack: object) -> None:
    path = tmp_path / "rank0.log"
    path.write_bytes(pack(TEXT))  # type: ignore[operator]
    assert read(path) == (TEXT, {})


def test_zstd(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "rank0.log.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(TEXT))
    assert read(path) == (TEXT, {})


def test_a_tar_is_the_files_in_it(tmp_path: Path) -> None:
    path = tmp_path / "logs.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("job/rank1.log", "job/rank0.log"):
            info = tarfile.TarInfo(name)
            info.size = len(TEXT)
            archive.addfile(info, io.BytesIO(TEXT))
    assert read(path) == (TEXT * 2, {})


def test_globs_directories_and_files_that_are_no_logs(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_bytes(b"a\n")
    (tmp_path / "rank1.log").write_bytes(b"b\n")
    (tmp_path / "truth.json").write_text("{}")
    assert read(tmp_path)[0] == b"a\nb\n"
    assert read(tmp_path / "rank*.log")[0] == b"a\nb\n"
    with pytest.raises(InputError):
        find_log_paths([tmp_path / "nothing*"], Dropped())


def test_a_giant_line_is_cut_and_what_follows_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"before\n" + b"x" * 20_000_000 + b"\nafter\n" + b"y" * 9_000_000)
    data, dropped = read(path)
    assert data.startswith(b"before\n")
    assert b"\nafter\n" in data
    assert len(data) < 4 * limits.MAX_LOG_LINE_BYTES + 100
    assert dropped["lines cut at the cap"] == 2


def test_binary_files_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(bytes(range(256)) * 100)
    assert read(tmp_path / "a.log") == (b"", {"binary file": 1})


def test_a_bomb_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_LOG_DECOMPRESSION_RATIO", 20)
    monkeypatch.setattr("llmprism.logs.unpack._RATIO_FREE_BYTES", 1 << 20)
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"boom\n" * 20_000_000))
    data, dropped = read(tmp_path / "a.log.gz")
    assert dropped["decompression bomb"] == 1
    assert len(data) < 50_000_000


@pytest.mark.parametrize("cut", [10, 2000])
def test_a_torn_archive_gives_what_it_has(tmp_path: Path, cut: int) -> None:
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(TEXT)[:cut])
    data, dropped = read(tmp_path / "a.log.gz")
    assert TEXT.startswith(data)
    assert dropped == {"truncated file": 1}


def test_rubbish_is_diagnosed_without_an_error(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_bytes(
        b"\xff\xfe\x80 rubbish \xc3\x28\n\x1b[31m<script>alert(1)</script>\x07\nTraceback\n"
    )
    (tmp_path / "rank1.log").write_bytes(b"")
    found = diagnose_paths([tmp_path], library=EMPTY)
    assert found.input.files == 2
    assert found.outcome.value == "unknown"


def test_shapes_and_rows_are_capped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_LOG_SHAPES", 50)
    monkeypatch.setattr(limits, "MAX_LOG_EVENT_ROWS", 10)
    words = ["".join(chr(97 + (n >> s) % 26) for s in (0, 3, 6, 9)) for n in range(400)]
    (tmp_path / "rank0.log").write_text("\n".join(f"ERROR {word} broke" for word in words))
    found = diagnose_paths([tmp_path], library=EMPTY)
    reasons = dict(found.input.dropped)
    assert reasons["lines of shapes beyond the cap"] > 100
    assert reasons["event lines beyond the cap (counted only)"] > 0
