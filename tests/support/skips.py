"""Which tests did not run, and why: a summary at the end. On CI the set-up may not be the reason.

A test may skip on CI because of what the machine cannot do: the real captures are not there, a program is missing that
`scripts/install-test-deps` could not install, there is no PyTorch for the lab. It may not skip because a package of the
extra `dev` is missing: then the set-up is broken.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

THE_SETUPS = ("could not import", "needs llmprism[", "the extra [", "Arrow", "needs httpx", "needs schemathesis")
"""What the reasons of `pytest.importorskip` say."""

_reasons: Counter[str] = Counter()


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _count(report)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _count(report)


def _count(report: pytest.CollectReport | pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple) and not hasattr(report, "wasxfail"):
        _reasons[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1


def avoidable(reasons: list[str]) -> list[str]:
    """The reasons that are the set-up's and not the machine's."""
    return [reason for reason in reasons if any(known in reason for known in THE_SETUPS)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI") and avoidable(list(_reasons)) and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _reasons:
        return
    terminalreporter.section("skipped")
    for reason, count in _reasons.most_common():
        terminalreporter.write_line(f"{count:4} {reason}")
    if os.environ.get("CI") and avoidable(list(_reasons)):
        terminalreporter.write_line("on CI these may not be skipped: " + "; ".join(avoidable(list(_reasons))))
