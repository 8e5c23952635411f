"""The card of a member that everybody waits for, against its GPU."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.blame import WaitedFor
from llmprism.diagnose.blamed_card import card_of, of_gpu_or_card
from llmprism.diagnose.rules import RULES
from llmprism.model import Finding, FindingKind, Where, WhereType
from unit.diagnose.evidence_builder import during, evidence_of, ring_pairs

SLOWER = during(8, 12, 1.0) > 0.0
GPU = Finding(
    FindingKind.SLOW_GPU, "job", Where(WhereType.GPU, "c"), 0, None, severity=0.5, confidence=0.4,
    lost_gpu_seconds=1.0, summary="", evidence=(), alternatives=(),
)  # fmt: skip

BLAMED = WaitedFor(row=2, share=0.8, rival=-1, rival_share=0.0, grown_ns=1.0, confidence=0.4)


def found(**rate):
    """Of a ring of six whose third member, `c`, is to blame: rates of pairs while steps are slower (10 else)."""
    rates = {pair: during(8, 12, value, 10.0) for pair, value in rate.items()}
    return of_gpu_or_card(evidence_of(ring_pairs("abcdef"), rate=rates), GPU, BLAMED, SLOWER, ~SLOWER)


def test_a_member_whose_messages_alone_are_slower_has_a_slow_card():
    card = found(bc=2.0, cd=4.0, ef=9.0)
    assert (card.kind, card.where) == (FindingKind.SLOW_NIC, Where(WhereType.NIC, "c"))
    assert card.confidence == round(RULES.blame.card_sure * BLAMED.share, 3)
    assert "20%" in card.summary


@pytest.mark.parametrize(
    "rate", [{}, {"bc": 9.0}, {"bc": 2.0, "ef": 2.0}, {"ef": 2.0}], ids=["fast", "nearly", "others too", "others only"]
)
def test_one_whose_messages_are_as_fast_as_those_of_others_has_a_slow_gpu(rate):
    assert found(**rate) is GPU


def test_where_nobody_elses_messages_were_timed_nothing_is_known():
    pairs = ring_pairs("abcdef")
    evidence = evidence_of(pairs, rate={"bc": during(8, 12, 2.0, 10.0)})
    assert card_of(evidence, 2, SLOWER, ~SLOWER)[0] == 2
    timed = np.array(["c" in pair for pair in pairs])
    assert card_of(replace(evidence, timed=timed), 2, SLOWER, ~SLOWER) is None
