"""What a healthy job says for the links and switches that it passes."""

from dataclasses import replace

import numpy as np

from llmprism.diagnose.bystanders import bystander_of
from llmprism.model import WhereType
from unit.diagnose.evidence_builder import STEP, STEPS, evidence_of, ring_pairs

LEAF = (WhereType.SWITCH, "leaf")
PATHS = {"ab": ("leaf",), "bc": ("leaf",), "ca": ("other",)}


def job(**options):
    return evidence_of(ring_pairs("abc"), paths=PATHS, **options)


def all_healthy(evidence):
    return np.ones(evidence.rate.shape, dtype=np.bool_)


def test_healthy_cells_are_counted_in_steps_that_lie_within_the_time():
    evidence = job()
    witness = bystander_of(evidence, all_healthy(evidence))
    assert witness.healthy_cells(LEAF, [(4 * STEP, 9 * STEP)]) == 2 * 5
    assert witness.healthy_cells(LEAF, [(4 * STEP + 1, 9 * STEP - 1)]) == 2 * 3, "steps that are cut do not count"
    assert witness.healthy_cells(LEAF, [(STEP // 4, STEP // 2)]) == 0
    assert witness.healthy_cells(LEAF, [(0, STEP), (4 * STEP, 6 * STEP)]) == 2 * 2, "of two times the longer one"
    assert witness.healthy_cells((WhereType.SWITCH, "elsewhere"), [(0, 9 * STEP)]) == 0


def test_slower_steps_sick_cells_and_small_messages_say_nothing():
    duration = np.full(STEPS, float(STEP))
    duration[5] = 2.0 * STEP
    evidence = job(duration=duration)
    healthy = all_healthy(evidence)
    healthy[0, 7] = False
    whole = [(0, 100 * STEP)]
    assert bystander_of(evidence, healthy).healthy_cells(LEAF, whole) == 2 * (STEPS - 1) - 1
    small = replace(evidence, timed=np.zeros(3, dtype=np.bool_))
    assert bystander_of(small, healthy) is None


def test_without_paths_nobody_is_a_bystander():
    evidence = evidence_of(ring_pairs("abc"))
    assert bystander_of(evidence, all_healthy(evidence)) is None
