from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.errors import FormatError
from llmprism.logs.automaton import Automaton
from llmprism.logs.pattern import parse_pattern, without_numbers

PATTERNS = [
    r"Xid .*: 79,",
    r"(?i)out of memory",
    r"^srun: error",
    r"exit(ed)? with \w+ code \d{1,3}$",
    r"a[b-d]+e?f|zz",
    r"err(or)?=(12|13)",
    r"(a|b)*c.{2,3}d",
    r"[^a-z]x( |$)",
    r"\d+\.\d+",
]
AUTOMATON = Automaton(parse_pattern(pattern) for pattern in PATTERNS)


@given(st.text(alphabet="abcdefxz :79,=123.Xid outofmemry\t$", max_size=60))
@settings(max_examples=300, deadline=None)
def test_finds_what_re_finds(text: str) -> None:
    assert AUTOMATON.matches(text.encode()) == {n for n, pattern in enumerate(PATTERNS) if re.search(pattern, text)}


@pytest.mark.parametrize(
    "line", ["Xid (PCI): 79, off", "CUDA Out Of Memory", "srun: error: x", "exited with exit code 137"]
)
def test_finds_real_lines(line: str) -> None:
    assert AUTOMATON.matches(line.encode())


def test_a_pattern_that_hangs_re_is_linear() -> None:
    evil = Automaton([parse_pattern(r"(a+)+$|(a|a)*b")])
    assert evil.matches(b"a" * 20_000 + b"!") == set(), "a backtracking matcher would not come back from this"


@pytest.mark.parametrize("bad", ["(", "a)", "[a", r"\bword", "(?=x)", "a{3", "*a", "a{1,999}", "x" * 2000, r"(\w)\1"])
def test_what_is_not_in_the_language_is_refused(bad: str) -> None:
    with pytest.raises(FormatError):
        parse_pattern(bad)


def test_numbers_can_be_loosened() -> None:
    loose, named = without_numbers(parse_pattern(r"Xid .*: 79,"))
    assert named
    assert Automaton([loose]).matches(b"Xid (PCI:0): 3, x") == {0}
    assert without_numbers(parse_pattern(r"Xid \d+"))[1] is False


def test_the_table_is_forgotten_when_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmprism.logs.automaton.MAX_STATES", 10)
    small = Automaton(parse_pattern(pattern) for pattern in PATTERNS)
    for line in (b"Xid: 79, error=12 zz", b"abcdef 3.14 out of memory", b"acxxd exit with bad code 7"):
        assert small.matches(line) == AUTOMATON.matches(line)
