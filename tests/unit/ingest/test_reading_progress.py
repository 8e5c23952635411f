"""Progress while packets are read: it grows with the file, whatever the compression, and ends with 1."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest
import zstandard

import packet_frames as build
from llmprism.ingest import convert_flows, database
from llmprism.ingest.packets import reader

FRAMES = [(10**18 + 1_000 * n, build.tcp_frame(5_000 * n, 5_000)) for n in range(2_000)]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_progress_follows_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: object) -> None:
    monkeypatch.setattr(reader, "CHUNK_BYTES", 1 << 20)
    monkeypatch.setattr(database, "PROGRESS_SECONDS", 0.001)
    seen: list[float] = []
    file = tmp_path / "capture"
    file.write_bytes(pack(build.pcap(FRAMES)))  # type: ignore[operator]

    def watch(share: float) -> None:
        seen.append(share)
        time.sleep(0)

    convert_flows([file], tmp_path / "flows.parquet", progress=watch)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_shares_that_are_known_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PROGRESS_SECONDS", 0.001)
    seen: list[float] = []
    with database.open_database() as (connection, _), database.report_progress(connection, seen.append) as tell:
        for share in (0.25, 0.5):
            tell(share)
            while not seen or seen[-1] < share:
                time.sleep(0.001)
    assert {0.25, 0.5} <= set(seen)
    assert seen[-1] == 1.0


def test_the_database_draws_no_bars_of_its_own():
    with database.open_database() as (connection, _):
        assert database.scalar(connection, "SELECT current_setting('enable_progress_bar_print')::INTEGER") == 0
