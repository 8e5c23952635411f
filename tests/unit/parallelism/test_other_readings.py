"""How near the next layout is that says the same of the bytes of all pairs."""

import numpy as np
import pytest

from llmprism.model.layout import Layout, PairKind
from llmprism.parallelism.composition import Explanations, compositions_of
from llmprism.parallelism.other_readings import OtherReadings, other_readings
from llmprism.parallelism.rank_mesh import Degrees
from unit.parallelism.test_composed import all_gradients, as_built, said_of
from unit.parallelism.test_composition import AMOUNTS, job_of


def readings(job, said):
    found = compositions_of(job, (job.transfers.pair_bytes.astype(np.float64),))
    return other_readings(found, job.transfers, said)


def test_a_layout_that_bytes_alone_decide_has_no_rival_of_note():
    job = job_of(Degrees(tensors=1, contexts=4, replicas=3, stages=2, experts=1), AMOUNTS)
    found = readings(job, said_of(job, Layout(1, 2, 3, cp=4), as_built))
    assert found.explained == 1.0
    assert found.behind == 0.0
    assert found.share > 0.8
    assert all(degrees != (1, 2, 3, 1, 4) for degrees, _ in found.others)


def test_exchanges_of_two_are_contexts_or_experts():
    job = job_of(Degrees(1, 2, 4, 1, 1), AMOUNTS)

    def experts(a, b):
        ring = [PairKind.DP] if b == (a + 1) % 8 else []
        return (*ring, *([PairKind.EP] if a // 2 == b // 2 else []))

    found = readings(job, said_of(job, Layout(1, 1, 8, ep=2), experts))
    shares = dict(found.others)
    assert (1, 1, 4, 1, 2) in shares
    assert found.share + sum(shares.values()) == pytest.approx(1.0)
    assert found.others == tuple(sorted(found.others, key=lambda it: -it[1]))


def test_a_layout_that_bytes_contradict_is_behind():
    job = job_of(Degrees(tensors=1, contexts=4, replicas=3, stages=2, experts=1), AMOUNTS)
    found = readings(job, said_of(job, Layout(1, 2, 12), all_gradients))
    assert found.behind > 20.0
    assert found.share < 0.05
    assert found.others[0][0] == (1, 2, 3, 1, 4)


def test_a_layout_on_no_mesh_counts_by_the_bits_that_it_saves_itself():
    job = job_of(Degrees(tensors=1, contexts=4, replicas=3, stages=2, experts=1), AMOUNTS)
    found = compositions_of(job, (job.transfers.pair_bytes.astype(np.float64),))
    own = Explanations(found.compositions, found.compositions[0].bits)
    assert other_readings(own, job.transfers, said_of(job, Layout(1, 2, 12), all_gradients)).behind == 0.0


def test_without_compositions_nothing_is_explained():
    job = job_of(Degrees(1, 2, 4, 1, 1), AMOUNTS)
    said = said_of(job, Layout(), all_gradients)
    assert other_readings(Explanations(), job.transfers, said) == OtherReadings()
    assert other_readings(Explanations((), 100.0), job.transfers, said) == OtherReadings(1.0)
