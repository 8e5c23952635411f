"""Pieces that leave their senders at full rate and wait behind the exporter."""

from dataclasses import replace

import numpy as np

from llmprism.diagnose.queued import queued_cells
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.diagnose.slow_transfer import suspected_places
from llmprism.model import FindingKind, Where, WhereType
from support.stages import find_slow_transfers
from unit.diagnose.evidence_builder import ring_pairs
from unit.diagnose.ring_builder import NAMES, SLOW_STEPS, STEPS, USUAL, pair_names, ring, ring_evidence

LEAF = {name: "leaf0" if name in "abc" else "leaf1" for name in NAMES}
PATHS = {
    one + other: (LEAF[one],) if LEAF[one] == LEAF[other] else (LEAF[one], "spine", LEAF[other])
    for one, other in ring_pairs(NAMES)
}


def test_the_hop_that_holds_pieces_back_is_sick_in_the_long_steps_and_the_hops_that_wait_are_healthy():
    job, steps = ring(hops=("bc",))
    cells = queued_cells(ring_evidence(job, steps))
    assert cells is not None
    sick, known, share = cells
    slow = pair_names(job).index("bc")
    assert (sick[slow] == ~USUAL).all()
    assert not np.delete(sick, slow, axis=0).any()
    assert known.all()
    assert share[slow, ~USUAL].min() > 0.4


def test_one_hop_is_the_card_that_receives():
    """What a card sends slowly would be recorded slowly."""
    (finding,) = find_slow_transfers([ring_evidence(*ring(hops=("bc",)))])
    assert (finding.kind, finding.where) == (FindingKind.SLOW_NIC, Where(WhereType.NIC, "c"))
    assert "full rate" in finding.summary


def test_all_hops_over_an_uplink_and_no_others_are_that_uplink():
    (finding,) = find_slow_transfers([ring_evidence(*ring(hops=("cd", "fa"), paths=PATHS))])
    assert finding.kind is FindingKind.SLOW_LINK
    assert "spine" in finding.where.id
    other = ("leaf0", "spine") if finding.where.id == ("leaf1", "spine") else ("leaf1", "spine")
    same = [alternative.where.id for alternative in finding.alternatives if alternative.same_place]
    assert other in same, "no record can tell two cables in series apart"
    assert f"{other[0]} - {other[1]}" in finding.summary


def test_cables_that_other_transfers_pass_too_are_no_names_of_one_place():
    aside = {"de": ("leaf1", "spine", "leaf2"), "ef": ("leaf2", "spine", "leaf1")}
    (finding,) = find_slow_transfers([ring_evidence(*ring(hops=("cd", "fa"), paths=PATHS | aside))])
    same = [alternative.where.id for alternative in finding.alternatives if alternative.same_place]
    assert ("leaf1", "spine") not in (finding.where.id, *same)


def test_all_hops_of_a_leaf_are_that_leaf():
    (finding,) = find_slow_transfers([ring_evidence(*ring(hops=("cd", "de", "ef", "fa"), paths=PATHS))])
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_SWITCH, "leaf1")


def test_a_slow_gpu_holds_nothing_back():
    assert find_slow_transfers([ring_evidence(*ring(slow="c", slow_ms=800))]) == []


def test_nothing_is_said_of_one_short_step_or_of_steps_that_vary_all_the_time():
    brief = queued_cells(ring_evidence(*ring(hops=("bc",), slow_steps=range(8, 9))))
    assert brief is None, "less than a second"
    again = queued_cells(ring_evidence(*ring(hops=("bc",), slow_steps=range(0, STEPS, 4))))
    assert again is None, "five times"
    assert queued_cells(ring_evidence(*ring(hops=("bc",), slow_steps=SLOW_STEPS))) is not None


def test_a_leaf_of_which_all_hops_are_slow_is_no_slow_group_although_most_of_the_ring_is_sick():
    """A further hop of the same ring that holds pieces back now and then does not make the group the cause."""
    job, steps = ring(hops=("bc", "cd", "de", "ef", "fa"), paths=PATHS)
    all_of_them = replace(RULES, trust=replace(RULES.trust, worth_a_look=0.0))
    suspects = suspected_places([judge_transfers(ring_evidence(job, steps))], all_of_them)
    assert {suspect.finding.kind for suspect in suspects} == {FindingKind.SLOW_SWITCH}


def test_a_job_that_becomes_faster_was_not_slow_before():
    faster = queued_cells(ring_evidence(*ring(hops=("bc",), slow_steps=range(12))))
    assert faster is None, "nothing was usual before the long steps"
