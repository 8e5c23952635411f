import io
import sys
import time

from llmprism.cli import screen


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(monkeypatch, *, seconds, quiet=False, stream=None):
    stream = stream if stream is not None else Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    now = time.monotonic()
    with screen.progress_bar(quiet=quiet) as progress:
        monkeypatch.setattr(screen.time, "monotonic", lambda: now + seconds)
        if progress is not None:
            progress("reading", 0.5)
    monkeypatch.undo()
    return progress, stream.getvalue()


def test_a_long_run_on_a_terminal_shows_its_stage(monkeypatch):
    _, shown = run(monkeypatch, seconds=30)
    assert "reading" in shown


def test_a_short_run_shows_nothing(monkeypatch):
    assert run(monkeypatch, seconds=0.1)[1] == ""


def test_no_terminal_or_quiet_means_no_bar(monkeypatch):
    assert run(monkeypatch, seconds=30, stream=io.StringIO()) == (None, "")
    assert run(monkeypatch, seconds=30, quiet=True) == (None, "")
