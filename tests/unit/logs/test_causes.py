"""Causes of what no entry of the library knows: the system's own words, Python's own errors, else no claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmprism.logs.diagnose import diagnose_paths
from llmprism.model.log import Cause, CauseClass

NOBODY = 0.5
"""From here on a confidence is a statement."""


def cause(folder: Path, *lines: str) -> Cause:
    (folder / "job.log").write_text("\n".join(lines) + "\n")
    return diagnose_paths([folder]).cause


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("vendor.DeviceError: bind to 0.0.0.0:98 (errno: 13 - Permission denied)", CauseClass.USER_CONFIG),
        ("vendor.FetchError: 429 Client Error: Too Many Requests for url: http://hub/x", CauseClass.NETWORK),
        ("vendor.CacheError: indices.arrow: Stale file handle", CauseClass.STORAGE),
        ("vendor.PoolError: accept: Too many open files", CauseClass.USER_RESOURCE),
    ],
)
def test_words_of_the_system_mean_the_same_in_any_exception(tmp_path: Path, line: str, expected: CauseClass) -> None:
    assert cause(tmp_path, line).cause_class is expected


def test_an_unknown_exception_of_a_library_is_no_statement_about_the_user(tmp_path: Path) -> None:
    frames = ["Traceback (most recent call last):", '  File "/code/train.py", line 9, in <module>', "    step()"]
    assert cause(tmp_path, *frames, "RuntimeError: vendorStatus=31 engine refused").confidence < NOBODY
    assert cause(tmp_path, "RuntimeError: vendorStatus=31 engine refused").cause_class is CauseClass.UNKNOWN
    own = cause(tmp_path, *frames, "TypeError: step() missing 1 required positional argument: 'batch'")
    assert (own.cause_class, own.confidence >= NOBODY) == (CauseClass.USER_CODE, True)


def test_the_rest_of_a_message_explains_its_exception(tmp_path: Path) -> None:
    """Ascend prints what went wrong in the lines after the exception (hiyouga/LlamaFactory#3839)."""
    found = cause(
        tmp_path,
        "RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64",
        "[ERROR] 2024-05-21-11:57:54 (PID:927000, Device:3, RankID:3) ERR02200 DIST call hccl api failed.",
        "EJ0001: Failed to initialize the HCCP process. Reason: Maybe the last training process is running.",
    )
    assert found.signature == "hccl.hccp_busy"


def test_a_process_that_was_killed_from_outside_has_no_known_cause(tmp_path: Path) -> None:
    found = cause(tmp_path, "srun: error: node001: task 2: Killed", "srun: error: node002: task 3: Terminated")
    assert found.cause_class is CauseClass.UNKNOWN
    assert found.confidence < NOBODY
