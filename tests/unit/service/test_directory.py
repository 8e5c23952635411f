"""Files that collectors drop: torn ones are refused, and taken once they are whole."""

import os
import threading

import pytest

from llmprism.service.config import DirectorySettings
from llmprism.service.history import History
from llmprism.service.intake import Intake
from llmprism.service.sources.directory import DirectorySource
from support.reports import EXAMPLES

WHOLE = (EXAMPLES / "crash" / "flows.parquet").read_bytes()


@pytest.fixture
def source(store, config, tmp_path):
    drop = tmp_path / "drop"
    drop.mkdir()
    intake = Intake(store, config)
    thread = threading.Thread(target=intake.run)
    thread.start()
    yield DirectorySource(DirectorySettings(str(drop), settle_s=0.0), store, intake), drop
    intake.stop()
    thread.join()


def test_a_file_torn_by_a_crash_of_its_collector_counts_once_when_it_is_whole(source, store):
    directory, drop = source
    file = drop / "flows.parquet"
    file.write_bytes(WHOLE[: len(WHOLE) // 2])
    (drop / "growing.parquet.tmp").write_bytes(WHOLE[:100])
    assert directory.poll() == 1
    assert directory.poll() == 0, "a bad file is looked at once"
    (before,) = History(store).sources()
    assert before["refused"] == {"format": 1}
    assert "stored" not in before
    file.write_bytes(WHOLE)
    os.utime(file, (1, 1))
    assert directory.poll() == 1
    assert directory.poll() == 0
    (after,) = History(store).sources()
    assert after["received"] == after["stored"] == 25_090


def test_a_name_that_sorts_after_very_many_kept_files_is_taken(source, store, monkeypatch):
    from llmprism.service import schema
    from llmprism.service.sources import directory as module

    directory, drop = source
    names = [f"a{number:05}.parquet" for number in range(3_000)]
    for name in names:
        (drop / name).touch()
        os.utime(drop / name, (1, 1))
    rows = [{"source": directory.name, "name": name, "value": "0:1000000000", "wall_ns": 0} for name in names]
    with store.writing() as connection:
        connection.execute(schema.positions.insert(), rows)
    (drop / "z.parquet").write_bytes(WHOLE)
    os.utime(drop / "z.parquet", (1, 1))
    assert directory.poll() == 1
    stats = []
    real = os.scandir
    monkeypatch.setattr(module.os, "scandir", lambda folder: stats.append(folder) or real(folder))
    for _ in range(20):
        assert directory.poll() == 0
    assert len(stats) <= 1, "a folder that does not change is not listed twice a second"
    assert len(store.positions(directory.name)) == 3_001
