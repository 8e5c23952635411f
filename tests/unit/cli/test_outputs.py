import json
import os
import stat
import threading

import pytest

from llmprism.cli.outputs import Outputs
from llmprism.errors import OutputError, UsageError
from support.reports import tiny_report


def test_every_form_is_written_whole(tmp_path):
    outputs = Outputs(*(str(tmp_path / name) for name in ("r.json", "r.html", "r.pftrace", "r.parquet")))
    outputs.check()
    outputs.write(tiny_report())
    assert json.loads((tmp_path / "r.json").read_bytes())["schema"] == "llmprism.report/1"
    assert (tmp_path / "r.html").read_bytes().startswith(b"<!doctype html>")
    assert (tmp_path / "r.pftrace").read_bytes()[:1] == b"\x0a"
    assert (tmp_path / "r.parquet").read_bytes()[:4] == b"PAR1"
    assert len(list(tmp_path.iterdir())) == 4, "nothing else is left behind"


def test_a_file_has_the_usual_permissions(tmp_path):
    mask = os.umask(0o022)
    try:
        Outputs(json=str(tmp_path / "r.json")).write(tiny_report())
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == 0o644


def test_stdout_gets_the_document_alone(capfdbinary):
    Outputs(json="-").write(tiny_report())
    assert json.loads(capfdbinary.readouterr().out)["schema"] == "llmprism.report/1"


def test_a_named_pipe_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    Outputs(json=str(pipe)).write(tiny_report())
    reader.join(10)
    assert received[0].startswith(b"{")
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_what_cannot_end_well_is_refused_early(tmp_path):
    with pytest.raises(OutputError, match="there is no folder"):
        Outputs(json=str(tmp_path / "missing" / "r.json")).check()
    with pytest.raises(UsageError, match="same path"):
        Outputs(json="-", html="-").check()
    with pytest.raises(UsageError, match="cannot go to stdout"):
        Outputs(timeline="-").check()


def test_a_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch):
    place = tmp_path / "r.json"
    place.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OutputError, match="No space left on device"):
        Outputs(json=str(place)).write(tiny_report())
    assert place.read_text() == "old"
    assert list(tmp_path.iterdir()) == [place]
