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
