"""Hooks of all tests."""

from __future__ import annotations

from support.skips import pytest_collectreport, pytest_runtest_logreport, pytest_sessionfinish, pytest_terminal_summary

__all__ = ["pytest_collectreport", "pytest_runtest_logreport", "pytest_sessionfinish", "pytest_terminal_summary"]
