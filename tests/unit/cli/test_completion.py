"""Completion: the scripts know every command and option, and bash completes with them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from llmprism.cli import main
from llmprism.cli.app import COMMANDS, command_line
from llmprism.cli.completion import words_of


def script(shell: str, capsys) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_sub_command_is_there(shell, capsys):
    text = script(shell, capsys)
    for entry in COMMANDS:
        assert entry.name in text
    for option in ("memory-limit", "fail-on", "reference"):
        assert option in text


def test_words_are_those_of_the_commands():
    words = {one.path: one for one in words_of(command_line())}
    assert [name for name, _ in words[()].commands] == [entry.name for entry in COMMANDS]
    assert {name for name, _ in words["topology",].commands} == {"build", "check"}
    assert "--jobs" in dict(words["diagnose",].options)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["llmprism", "di"], {"diagnose"}),
        (["llmprism", "diagnose", "flows.parquet", "--memory"], {"--memory-limit"}),
        (["llmprism", "topology", ""], {"build", "check", "--help"}),
        (["llmprism", "topology", "build", "--out"], {"--output"}),
    ],
)
def test_bash_completes(line, expected, capsys):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("this machine has no bash")
    words = " ".join(f"'{word}'" for word in line)
    call = f"COMP_WORDS=({words}); COMP_CWORD={len(line) - 1}; _llmprism; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run([bash, "-c", f"{script('bash', capsys)}\n{call}"], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == expected
