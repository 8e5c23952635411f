"""Rules that change nothing are found, and those that do are not among them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from rule_changes import EXTREMES, first_changes, reads_noted, rules_in


@dataclass(frozen=True, slots=True)
class MadeUp:
    decides: float = 2.0
    idle: float = 1.0
    unread: int = 3
    loops: int = 2


def outcome(case):
    rules, number = case
    for _ in range(rules.loops):
        number = number / 1.0
    if rules.loops > 1000:
        raise ValueError
    return number > rules.decides or (rules.idle, False)[1]


@pytest.mark.parametrize("together", [1, 4])
def test_what_changes_nothing_is_listed_with_how_many_cases_read_it(capsys, together):
    rules = MadeUp()
    cases = [("small", (rules, 1.0)), ("large", (rules, 3.0))]
    first_changes(cases, outcome, list(rules_in(rules)), EXTREMES, together)
    lines = capsys.readouterr().out.splitlines()
    assert {line for line in lines if " = " in line} == {
        "decides = 2e-06: changes small",
        "loops = 2000000: fails small",
    }
    assert lines[-3:] == [
        "2 of 4 rules change nothing:",
        "  idle (1 cases read it)",
        "  unread (0 cases read it)",
    ]
    assert rules == MadeUp()


def test_a_rule_is_read_where_a_copy_is_and_not_where_one_is_made():
    rules = MadeUp()
    with reads_noted(list(rules_in(rules))) as read:
        copy = replace(rules, loops=5)
        assert not read - {""}
        assert copy.idle
    assert read - {""} == {"idle"}
