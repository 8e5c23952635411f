"""Which cells are sick: pairs whose messages are too small to show that nothing is slow."""

from dataclasses import replace

import numpy as np

from llmprism.diagnose.find_faults import Shared
from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.model import Finding, FindingKind, Where, WhereType
from unit.diagnose.evidence_builder import STEPS, during, evidence_of, ring_pairs

PAIRS = ring_pairs("abcdef")


def small(rate):
    """Cells of pairs with small messages only."""
    evidence = evidence_of(PAIRS, rate=rate)
    return judge_transfers(replace(evidence, timed=np.zeros(len(PAIRS), dtype=np.bool_)))


def test_small_messages_that_are_slow_in_a_row_are_sick():
    cells = small({"ab": during(8, 12, 1.0, 10.0)})
    assert (cells.sick.sum(), cells.known.sum()) == (4, 4), "their fast cells cannot tell"


def test_where_small_messages_are_often_slow_those_in_a_row_are_so_by_chance():
    noisy = {pair: np.where((np.arange(STEPS) + number) % 4 == 0, 1.0, 10.0) for number, pair in enumerate(PAIRS)}
    noisy["ab"] = during(8, 12, 1.0, 10.0)
    assert not small(noisy).sick.any()


def test_a_finding_on_storage_bears_on_the_jobs_of_its_clients():
    finding = Finding(FindingKind.SLOW_STORAGE, None, Where(WhereType.STORAGE, "s"), 0, None, 0.5, 0.9, 0.0, "", ())
    shared = Shared((finding,), (), (0,), ((0, "a"),))
    assert shared.about(evidence_of(ring_pairs("abc")).job).findings == (finding,)
    assert shared.about(evidence_of(ring_pairs("xyz")).job).findings == ()
