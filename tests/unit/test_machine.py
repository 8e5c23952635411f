"""Cores and memory that may be used, as the system and its container say."""

from __future__ import annotations

import os

import pytest

from llmprism import machine
from llmprism.machine import available_cores, free_bytes, resident_bytes, room_bytes


@pytest.fixture
def group(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("affinity", "quota", "cores"),
    [
        (64, None, 64),
        (64, "max 100000", 64),
        (64, "800000 100000", 8),
        (2, "800000 100000", 2),
        (64, "50000 100000", 1),
    ],
)
def test_cores_are_those_of_the_affinity_and_of_the_quota(affinity, quota, cores, group, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(affinity)))
    if quota is not None:
        (group / "cpu.max").write_text(quota + "\n")
    assert available_cores() == cores


def test_free_memory_ends_where_the_container_ends(group):
    of_machine = free_bytes()
    assert of_machine > 10_000_000
    (group / "memory.max").write_text("5000000\n")
    (group / "memory.current").write_text("3000000\n")
    assert free_bytes() == 1_800_000
    (group / "memory.max").write_text("max\n")
    assert free_bytes() > 10_000_000


def test_a_limit_holds_for_what_the_process_has_already(group, monkeypatch):
    assert 10_000_000 < resident_bytes() < 10**10
    monkeypatch.setattr(machine, "resident_bytes", lambda: 3 * 10**9)
    monkeypatch.setattr(machine, "free_bytes", lambda: 10**11)
    assert room_bytes(4 * 10**9) == 10**9
    assert room_bytes(2 * 10**9) == 0
    assert room_bytes(None) == 10**11
