from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.errors import FormatError
from llmprism.logs.library import load_library
from llmprism.logs.pattern import PatternSet, check_pattern, without_numbers

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
ALL = PatternSet(PATTERNS)


@given(st.text(alphabet="abcdefxz :79,=123.Xid outofmemry\t$", max_size=60))
@settings(max_examples=300, deadline=None)
def test_finds_what_re_finds(text: str) -> None:
    assert ALL.matches(text.encode()) == {n for n, pattern in enumerate(PATTERNS) if re.search(pattern, text)}


@pytest.mark.parametrize(
    "line", ["Xid (PCI): 79, off", "CUDA Out Of Memory", "srun: error: x", "exited with exit code 137"]
)
def test_finds_real_lines(line: str) -> None:
    assert ALL.matches(line.encode())


def test_a_pattern_that_hangs_re_is_linear() -> None:
    evil = PatternSet([r"(a+)+$|(a|a)*b"])
    assert evil.matches(b"a" * 20_000 + b"!") == set(), "a backtracking matcher would not come back from this"


@pytest.mark.parametrize(
    "bad", ["(", "a)", "[a", "(?=x)", "*a", "a{1,9999}", "((a{1,100}){1,100}){1,100}", "x" * 2000, r"(\w)\1"]
)
def test_what_is_not_in_the_language_is_refused(bad: str) -> None:
    with pytest.raises(FormatError):
        check_pattern(bad)


def test_numbers_can_be_loosened() -> None:
    loose, named = without_numbers(r"Xid .*: 79,")
    assert named
    assert PatternSet([loose]).matches(b"Xid (PCI:0): 3, x") == {0}
    for without in (r"Xid \d+", "[0-9]x{2,3}", "(?i)abc"):
        assert without_numbers(without) == (without, False)


def test_every_shipped_pattern_loosens_to_a_pattern() -> None:
    for fault in load_library().faults:
        for pattern in fault.patterns:
            check_pattern(without_numbers(pattern)[0])


def test_nothing_matches_nothing() -> None:
    assert PatternSet([]).matches(b"anything") == set()
