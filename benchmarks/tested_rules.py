"""Which rules of a package decide something in its tests: each is moved to its extremes and the tests that read it run.

    python benchmarks/tested_rules.py ingest
    python benchmarks/tested_rules.py service --match runs. --without kafka,workers

A rule is moved to a millionth and to a million times its value (`rule_changes.py`), in the rules that are shipped, in
those that tests have made and in those that are made anew. Only the tests run that read it, or share a fixture with one
that does, and none that takes long. Each try is a copy of this process. Printed: the rules at whose extremes a test
fails, with the first such test, and those at whose extremes none does. What other processes do (workers, Spark) is not
seen.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from importlib import import_module
from itertools import zip_longest
from math import inf
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol

from rule_changes import COPY_BYTES, EXTREMES, MOST_SECONDS, MOST_TIMES, Rule, rules_in, values_of

ROOT: Final = Path(__file__).parents[1]
TESTS: Final = {"ingest": ("tests/unit/ingest", "tests/contract/test_readers.py")}
"""Tests of a package, where they are not all in `tests/unit/PACKAGE`."""

NO_TEST: Final = "no test fails"
FAILS: Final = "fails"


@dataclass
class Reads:
    """What each test reads, and how long it takes."""

    rules: dict[str, set[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    current: set[str] = field(default_factory=set)


@contextmanager
def reads_of_classes(rules: list[Rule], reads: Reads) -> Iterator[None]:
    """Notes which rules are read inside, of those that are shipped and of those that are made anew."""
    names = {(type(rule.group), rule.field): rule.name for rule in rules}

    def noted(group: Any, name: str) -> Any:
        if (type(group), name) in names and sys._getframe(1).f_globals.get("__name__") != "dataclasses":
            reads.current.add(names[type(group), name])
        return object.__getattribute__(group, name)

    kinds: set[Any] = {type(rule.group) for rule in rules}
    for kind in kinds:
        kind.__getattribute__ = noted
    try:
        yield
    finally:
        for kind in kinds:
            del kind.__getattribute__


def move(rule: Rule, value: Any, made: list[Any]) -> None:
    """Another value in the rules that are shipped, in those that tests have made, and in those that are made anew."""
    usual = rule.value
    for group in (rule.group, *(one for one in made if type(one) is type(rule.group))):
        if object.__getattribute__(group, rule.field) == usual:
            object.__setattr__(group, rule.field, value)
    make: Any = type(rule.group).__init__
    names = [one.name for one in fields(rule.group) if one.init]
    default = list(make.__defaults__)
    default[names.index(rule.field) - len(names)] = value
    make.__defaults__ = tuple(default)


class Tries:
    """Takes the place of pytest's loop over the tests: once as they are, then rule by rule."""

    def __init__(self, rules: list[Rule], without: list[str], most_seconds: float) -> None:
        self.rules = rules
        self.without = without
        self.most_seconds = most_seconds
        self.reads = Reads()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = [one for one in session.items if not any(word in one.nodeid for word in self.without)]
        with reads_of_classes(self.rules, self.reads):
            self._as_they_are(items)
        self.good = [one for one in items if self.reads.seconds.get(one.nodeid, inf) <= self.most_seconds]
        print(f"{len(self.good)} of {len(items)} tests pass and are short, {len(self.rules)} rules", flush=True)
        gc.collect()
        kinds = {type(rule.group) for rule in self.rules}
        self.made = [one for one in gc.get_objects() if type(one) in kinds]
        gc.freeze()  # what native threads hold must not be thrown away in a copy that lacks them
        self._try_all()
        gc.unfreeze()
        return True

    def _as_they_are(self, items: list[pytest.Item]) -> None:
        for item, following in zip_longest(items, items[1:]):
            begin = time.process_time()
            self.reads.current = set()
            if passed(item, following):
                self.reads.rules[item.nodeid] = self.reads.current
                self.reads.seconds[item.nodeid] = time.process_time() - begin

    def _try_all(self) -> None:
        unmoved = []
        for rule in self.rules:
            readers = [one for one in self.good if rule.name in self.reads.rules[one.nodeid]]
            shared = set().union(*map(wide_fixtures, readers))
            others = [one for one in self.good if one not in readers and wide_fixtures(one) & shared]
            order = sorted(readers, key=self._seconds) + sorted(others, key=self._seconds)
            shown = ""
            for value in values_of(rule.value, EXTREMES):
                if (how := self._try(rule, value, order)) != NO_TEST:
                    shown = f"{rule.name} = {value}: {how}"
                if how.startswith(FAILS):
                    break
            print(shown or f"{rule.name}: {NO_TEST} of {len(readers)} that read it", flush=True)
            if not shown:
                unmoved.append(f"  {rule.name} ({len(readers)} tests read it)")
        print(f"{len(unmoved)} of {len(self.rules)} rules decide nothing in a test:", *unmoved, sep="\n")

    def _seconds(self, item: pytest.Item) -> float:
        return self.reads.seconds[item.nodeid]

    def _try(self, rule: Rule, value: Any, items: list[pytest.Item]) -> str:
        """Runs the tests in a copy of this process, until one fails."""
        limit = int(MOST_TIMES * sum(map(self._seconds, items))) + MOST_SECONDS
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(receive)
            result = NO_TEST
            try:
                silence()
                resource.setrlimit(resource.RLIMIT_AS, (COPY_BYTES, COPY_BYTES))
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
                move(rule, value, self.made)
                failed = next((one for one in items if not passed(one, None)), None)
                if failed is not None:
                    result = f"{FAILS} {failed.nodeid}"
            finally:
                os.write(send, result.encode())
                os._exit(0)
        os.close(send)
        with os.fdopen(receive) as answer:
            result = answer.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        late = code in (-signal.SIGKILL, -signal.SIGXCPU)
        return result or (f"takes more than {limit} s" if late else f"ends with {code}")


def passed(item: pytest.Item, following: pytest.Item | None) -> bool:
    reports = runtestprotocol(item, nextitem=following, log=False)
    return all(report.passed for report in reports)


def wide_fixtures(item: Any) -> set[tuple[Path, str]]:
    """Fixtures of a test that others use as well."""
    known = item._fixtureinfo.name2fixturedefs
    return {(item.path, name) for name, found in known.items() if found[-1].scope != "function"}


def is_number(rule: Rule) -> bool:
    """Or several of them; names and the like have no extremes."""
    parts = rule.value if isinstance(rule.value, tuple) else (rule.value,)
    return bool(parts) and all(isinstance(part, int | float) for part in parts)


def silence() -> None:
    """Nothing that a copy prints is seen."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("tests", nargs="*", help="files or folders; by default those of the package")
    parser.add_argument("--match", default="", help="only rules whose name holds one of these, separated by commas")
    parser.add_argument("--without", default="", help="tests whose path holds one of these are left out")
    parser.add_argument("--most-seconds", type=float, default=2.0, help="of processor time that a test may take")
    options = parser.parse_intermixed_args()
    shipped = import_module(f"llmprism.{options.package}.rules").RULES
    words = options.match.split(",")
    rules = [
        one for one in rules_in(shipped, left_out=()) if any(word in one.name for word in words) and is_number(one)
    ]
    tests = options.tests or TESTS.get(options.package, (f"tests/unit/{options.package}",))
    without = [word for word in options.without.split(",") if word]
    os.chdir(ROOT)
    return int(
        pytest.main([*tests, "-s", "-p", "no:cacheprovider"], plugins=[Tries(rules, without, options.most_seconds)])
    )


if __name__ == "__main__":
    sys.exit(main())
