"""Public failure reports: none misleads; outcome, class and suspect are right, except where said here."""

from __future__ import annotations

import pytest

from llmprism.logs.library import load_library
from logs_reports import Judged, judge, reports

NOT_BLAMED = frozenset(
    {"rocm-gpu-hang-torchrun", "gaudi-device-acquired", "ascend-hccp-still-running", "rank-7-many-collectives-behind"}
)
"""Logs of one rank alone, of lines without ranks, or of process groups without names: nothing to compare."""

LIBRARY = load_library()
JUDGED = [judge(report, LIBRARY) for report in reports()]


@pytest.mark.parametrize("one", JUDGED, ids=lambda one: str(one.name))
def test_a_public_report_is_read_as_its_thread_ended(one: Judged) -> None:
    assert not one.misleading, one.said
    assert one.outcome, one.said
    assert one.cause, one.said
    assert one.suspect or one.name in NOT_BLAMED, one.said
