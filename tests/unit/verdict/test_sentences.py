"""What an operator reads first."""

from __future__ import annotations

import pytest

from llmprism.model.finding import FindingKind
from llmprism.model.log import Cause, CauseClass
from llmprism.model.verdict import Source
from llmprism.verdict.sentences import ended_sentence, time_text
from llmprism.verdict.suspects import SuspectPlace

SECOND = 1_000_000_000
PLACE = SuspectPlace("10.0.0.3", 2, None, 0.9, Source.BOTH)


def sentence(kind: FindingKind, cause: Cause, lost: float = 0.0, waited_s: int = 0, place: SuspectPlace = PLACE) -> str:
    return ended_sentence(
        kind,
        place,
        cause,
        topology=None,
        iteration=812,
        others=7,
        waited_ns=waited_s * SECOND,
        lost_gpu_seconds=lost,
    )


def test_a_failure_in_one_sentence() -> None:
    oom = Cause(CauseClass.USER_RESOURCE, "cuda.oom", 0.9, "out of GPU memory")
    assert sentence(FindingKind.CRASH, oom, 75_600, 1_800) == (
        "Rank 2 (10.0.0.3) failed in iteration 812: out of GPU memory; the other 7 ranks waited for 30 min; "
        "21 GPU-hours lost"
    )


def test_who_died_without_a_word_is_not_said_twice() -> None:
    silent = Cause(CauseClass.HARDWARE_NODE, None, 0.6, "a rank died without writing an error; the others report it")
    assert sentence(FindingKind.CRASH, silent, 1.2) == (
        "Rank 2 (10.0.0.3) died in iteration 812 without writing an error; the other 7 ranks stopped with it; "
        "1 GPU-second lost"
    )
    nowhere = SuspectPlace(None, None, None, 0.0, Source.LOGS)
    assert "a rank died" in sentence(FindingKind.CRASH, silent, place=nowhere)


def test_the_rank_is_named_once() -> None:
    mismatch = Cause(CauseClass.USER_CODE, None, 0.6, "rank 2 waits in broadcast while the others wait in gradients")
    assert sentence(FindingKind.HANG, mismatch, waited_s=90).startswith(
        "Rank 2 (10.0.0.3) waits in broadcast while the others wait in gradients since iteration 812; the other 7 ranks"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(18, "18 s"), (120, "2 min"), (150, "2.5 min"), (1_800, "30 min"), (7_560, "2.1 h")]
)
def test_times_of_any_length(seconds: int, text: str) -> None:
    assert time_text(seconds * SECOND) == text
