"""Which rules change something: each is changed in place and the same input is looked at again.

Used by `stage_rules.py`, `logs_rules.py`, `verdict_rules.py` and `tested_rules.py`. A case whose run does not read a
rule is not run with another value of it. Every try runs in a copy of this process, because a value may make it long
or large.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any, Final

Outcome = Callable[[Any], Any]
"""What must not change, of a case."""

NOT_TRIED: Final = {
    "burst_gap_ns": "packets only",
    "carrying": "the live service only",
    "fitness": "`inspect` only",
}
"""Rules of these stages that these outcomes cannot show."""

EXTREMES: Final = (1e-6, 1e6)
"""A rule that changes nothing at these factors changes nothing."""

SAME, OTHER, FAILS = 0, 1, 2
"""How a copy ends."""

SMALL_TIME_NS: Final = 10**7
"""Whole numbers from here on are times in nanoseconds; smaller ones are counts, which arrays of 32 bits may hold."""

COPY_BYTES: Final = 16 << 30
MOST_TIMES: Final = 5
MOST_SECONDS: Final = 5
"""A value with which a stage takes so many times as much processor time, and so many seconds more, bounds its work."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One field of one of the shipped rules."""

    name: str
    group: Any
    field: str

    @property
    def value(self) -> Any:
        return getattr(self.group, self.field)

    @contextmanager
    def changed_to(self, value: Any) -> Iterator[None]:
        """The shipped rules with another value: they are what every function uses that is given none."""
        usual = self.value
        object.__setattr__(self.group, self.field, value)
        try:
            yield
        finally:
            object.__setattr__(self.group, self.field, usual)


def rules_in(group: Any, prefix: str = "", left_out: Collection[str] = NOT_TRIED.keys()) -> Iterator[Rule]:
    """Every rule, those of groups inside with the name of the group."""
    for field in fields(group):
        value = getattr(group, field.name)
        if field.name in left_out:
            continue
        if is_dataclass(value):
            yield from rules_in(value, f"{field.name}.", left_out)
        else:
            yield Rule(prefix + field.name, group, field.name)


def values_of(value: Any, factors: tuple[float, ...]) -> list[Any]:
    """The value times each factor; whole numbers move by one at least and stay above 0, of a tuple each part moves."""
    return [one for one in dict.fromkeys(_scaled(value, factor) for factor in factors) if one != value]


def _scaled(value: Any, factor: float) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        step = max(1, round(abs(value) * abs(factor - 1)))
        most = 2**31 - 1 if value < SMALL_TIME_NS else 2**62
        return max(1, min(value + step if factor > 1 else value - step, most))
    if isinstance(value, tuple):
        return tuple(_scaled(one, factor) for one in value)
    return value * factor


@contextmanager
def reads_noted(rules: list[Rule]) -> Iterator[set[str]]:
    """The names of the rules that are read inside, also in copies; making a copy (`replace`) reads none."""
    names = {(type(rule.group).__name__, rule.field): rule.name for rule in rules}
    read: set[str] = set()
    usual = {id(rule.group): (rule.group, type(rule.group)) for rule in rules}

    def noted(group: Any, field: str) -> Any:
        if sys._getframe(1).f_globals.get("__name__") != "dataclasses":
            read.add(names.get((type(group).__name__, field), ""))
        return object.__getattribute__(group, field)

    for group, kind in usual.values():
        watched = type(kind.__name__, (kind,), {"__slots__": (), "__getattribute__": noted})
        object.__setattr__(group, "__class__", watched)
    try:
        yield read
    finally:
        for group, kind in usual.values():
            object.__setattr__(group, "__class__", kind)


def outcome_of(outcome: Outcome, case: Any) -> Any:
    """What is said of the case, or how that fails."""
    try:
        return outcome(case)
    except (ValueError, IndexError, ZeroDivisionError, FloatingPointError, OverflowError, MemoryError) as error:
        return type(error).__name__


def changes(outcome: Outcome, case: Any, usual: Any, seconds: float) -> str | None:
    """How the outcome differs now, found out in a copy of this process: a value may make it long or large."""
    child = os.fork()
    if child == 0:
        code = FAILS
        try:
            limit = int(MOST_TIMES * seconds) + MOST_SECONDS
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            resource.setrlimit(resource.RLIMIT_AS, (COPY_BYTES, COPY_BYTES))
            code = SAME if outcome(case) == usual else OTHER
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {SAME: None, OTHER: "changes", -signal.SIGKILL: "takes longer", -signal.SIGXCPU: "takes longer"}.get(
        code, "fails"
    )


def first_changes(
    cases: Iterable[tuple[str, Any]], outcome: Outcome, rules: list[Rule], factors: tuple[float, ...], together: int = 1
) -> None:
    """Cases one after the other, each with the rules that no case before it has shown to matter."""
    tried = dict.fromkeys((rule.name for rule in rules), 0)
    waiting = {rule.name: rule for rule in rules}
    order = random.Random(1)
    for name, case in cases:
        begin = time.process_time()
        with reads_noted(list(waiting.values())) as seen:
            usual = outcome_of(outcome, case)
        seconds = time.process_time() - begin
        read = [one for one in waiting if one in seen]
        for one in read:
            tried[one] += 1
        for factor in factors:
            left = [waiting[one] for one in read if one in waiting]
            order.shuffle(left)
            for group in (left[i : i + together] for i in range(0, len(left), together)):
                for rule, how in changes_by(group, factor, partial(changes, outcome, case, usual, seconds)):
                    print(f"{rule.name} = {values_of(rule.value, (factor,))[0]}: {how} {name}", flush=True)
                    del waiting[rule.name]
        print(f"# {name}: {len(waiting)} rules left ({seconds:.1f} s)", flush=True)
    print(f"{len(waiting)} of {len(rules)} rules change nothing:")
    print(*(f"  {one} ({tried[one]} cases read it)" for one in waiting), sep="\n")


def changes_by(group: list[Rule], factor: float, how: Callable[[], str | None]) -> list[tuple[Rule, str]]:
    """The rules of a group that change something: all of it at the same time first, which mostly changes nothing."""
    with ExitStack() as changed:
        for rule in group:
            for value in values_of(rule.value, (factor,)):
                changed.enter_context(rule.changed_to(value))
        found = how()
    if found is None or len(group) == 1:
        return [(rule, found) for rule in group if found]
    half = len(group) // 2
    return changes_by(group[:half], factor, how) + changes_by(group[half:], factor, how)
