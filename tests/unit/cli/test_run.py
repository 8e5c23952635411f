import os
import subprocess
import sys

import pytest
import typer

from llmprism.cli import main, run
from llmprism.errors import ColumnError, LLMPrismError


@pytest.fixture
def command(monkeypatch):
    """Make the command line end in this way."""

    def end(outcome):
        def invoke(_):
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        monkeypatch.setattr(run, "_invoke", invoke)

    return end


@pytest.mark.parametrize(
    ("outcome", "code", "line"),
    [
        (None, 0, ""),
        (2, 2, ""),
        (ColumnError("flows.csv: no column\nstart_ns"), 1, "error[column]: flows.csv: no column start_ns\n"),
        (LLMPrismError("a\x1b[2Jb"), 1, "error[error]: a\\x1b[2Jb\n"),
        (typer.Exit(2), 2, ""),
        (typer.Abort(), 130, ""),
        (KeyboardInterrupt(), 130, ""),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_every_end_is_a_code_and_at_most_one_line(command, capfd, outcome, code, line):
    command(outcome)
    assert main(["anything"]) == code
    assert capfd.readouterr().err == line


def test_a_bug_is_one_line_unless_the_traceback_is_wanted(command, capfd, monkeypatch):
    command(ZeroDivisionError("oops"))
    assert main(["anything"]) == 1
    error = capfd.readouterr().err
    assert error.startswith("error[internal]: ZeroDivisionError: oops")
    assert error.count("\n") == 1
    monkeypatch.setenv(run.TRACEBACK_VARIABLE, "1")
    with pytest.raises(ZeroDivisionError):
        main(["anything"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["--nonsense"],
        ["diagnose"],
        ["diagnose", "x", "--nonsense"],
        ["diagnose", "x", "--method", "guess"],
    ],
)
def test_bad_arguments_are_one_line_and_code_1(arguments, capsys):
    assert main(arguments) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith("error[usage]: ")
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_a_reader_that_leaves_early_gets_no_complaint():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "llmprism", "diagnose", "--help"], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
