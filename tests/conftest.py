"""Hooks of all tests."""

from __future__ import annotations

from hypothesis import settings

from support.skips import pytest_collectreport, pytest_runtest_logreport, pytest_sessionfinish, pytest_terminal_summary

__all__ = ["pytest_collectreport", "pytest_runtest_logreport", "pytest_sessionfinish", "pytest_terminal_summary"]

# Tests never assert on seconds: a loaded machine is no reason to fail.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
