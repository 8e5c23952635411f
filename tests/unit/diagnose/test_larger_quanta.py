"""Messages that a slow hop breaks up into pieces that are as fast as ever."""

import numpy as np
import pytest

from llmprism.diagnose.evidence import usual_steps
from llmprism.diagnose.larger_quanta import odds_at_larger_quanta
from llmprism.diagnose.own_past import against_own_past
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.model import FindingKind
from support.stages import find_slow_transfers
from unit.builders import MS, Flow, transfer_table
from unit.diagnose.evidence_builder import STEP, during, evidence_of, ring_pairs, with_transfers

LONGER = during(8, 14, 1.0).astype(np.bool_)
MESSAGE, PIECES = 16_000_000, 8


def ring_of_six(broken=(), late=(), waiting=None):
    """Four messages of 16 MB in every step, each in 6 ms; in the longer steps those of `broken` pairs come in eight
    pieces 6 ms apart, and those of `late` ones begin 200 ms later."""
    pairs = ring_pairs("abcdef")
    evidence = evidence_of(pairs, groups=("abcdef",), duration=during(8, 14, 1.5 * STEP, STEP), late=waiting)
    flows = []
    for step, start in enumerate(evidence.timeline.steps.start_ns.tolist()):
        for pair in pairs:
            for number in range(4):
                begin = start + (100 + 150 * number + (200 if LONGER[step] and pair in late else 0)) * MS
                if not LONGER[step] or pair not in broken:
                    flows.append(Flow(*pair, begin, begin + 6 * MS, MESSAGE))
                    continue
                pieces = range(begin, begin + 6 * MS * PIECES, 6 * MS)
                flows += [Flow(*pair, piece, piece + 6 * MS // PIECES, MESSAGE // PIECES) for piece in pieces]
    return with_transfers(evidence, transfer_table(flows))


def at_larger_quanta(evidence):
    past = against_own_past(evidence.rate, usual_steps(evidence, RULES), evidence.group_of_pair)
    return odds_at_larger_quanta(evidence, past)


def test_quanta_of_two_pieces_tell_where_pieces_are_as_fast_as_ever():
    found = at_larger_quanta(ring_of_six(broken=["bc", "cd"]))
    sick = found.odds >= RULES.places.past_sick
    assert (sick.any(axis=1).sum(), sick.sum()) == (2, 2 * LONGER.sum())
    assert np.exp(found.change[sick]) == pytest.approx(np.full(12, 0.2), abs=0.04), "of the smallest quantum that tells"


def test_what_begins_late_takes_no_longer():
    assert at_larger_quanta(ring_of_six(late=["bc", "cd"])) is None


def test_the_card_whose_messages_are_broken_up_is_named_with_its_rate():
    (finding,) = find_slow_transfers([ring_of_six(broken=["bc", "cd"])])
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_NIC, "c")
    assert "pieces with pauses between them" in finding.summary


def test_a_gpu_that_computes_longer_is_a_rival():
    alone = judge_transfers(ring_of_six(broken=["bc", "cd"])).broken
    waiting = {"c": during(8, 14, 500.0)}
    both = judge_transfers(ring_of_six(broken=["bc", "cd"], late=["cd"], waiting=waiting)).broken
    assert both.computing.chance > RULES.trust.likely > alone.computing.chance
