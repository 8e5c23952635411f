"""Messages of GPUs of one stage, compared one by one: peers send together, replicas as those of other servers do."""

import numpy as np
import pytest

from llmprism.model import Job
from llmprism.parallelism.peer_sends import sends_apart
from unit.builders import MS, US, Flow, transfer_table

MESSAGES = 200
EVERY = 20 * MS


def build(apart_us, *, servers=3, queue_us=0.0, unit=1, lost=0.0, skew=0):
    """Two stages of one GPU pair on each of `servers` servers. Servers are 2 ms apart, and the GPUs of each `apart_us`;
    activations wait in a queue of `queue_us` besides. Stamps are multiples of `unit`, some records are `lost`, and the
    clock of each server is `skew` off that of the one before."""
    random = np.random.default_rng(1)
    flows = []
    for message in range(MESSAGES):
        for way, queue in ((0, queue_us), (1, 0.0)):
            for server in range(servers):
                late = random.uniform(0, 2_000)
                for gpu in range(2):
                    here, there = (f"{stage}{server}g{gpu}" for stage in ("ab" if way == 0 else "ba"))
                    off = late + random.uniform(0, apart_us) + random.uniform(0, queue)
                    when = message * EVERY + way * EVERY // 2 + int(off * US) + server * skew
                    if random.uniform() >= lost:
                        when -= when % unit
                        flows.append(Flow(here, there, when, when + MS, 1_000_000))
    transfers = transfer_table(flows)
    names = transfers.addresses
    number = {name: i for i, name in enumerate(names)}
    job = Job("job", tuple(range(len(names))), (), 1.0, transfers, places=tuple(name[:2] for name in names))
    pipelines = tuple((number[f"a{s}g{g}"], number[f"b{s}g{g}"]) for s in range(servers) for g in range(2))
    pairs = [(number[f"{stage}{s}g0"], number[f"{stage}{s}g1"]) for stage in "ab" for s in range(servers)]
    return job, pairs, pipelines


def apart(*job, **records):
    return sends_apart(*job, **records)[0]


@pytest.mark.parametrize("records", [{}, {"unit": MS}, {"lost": 0.1}, {"skew": 3 * MS}])
def test_peers_are_closer_than_gpus_of_other_servers(records):
    assert (apart(*build(20.0, **records)) < -1.0).all()


@pytest.mark.parametrize("records", [{}, {"unit": MS}, {"lost": 0.1}])
def test_replicas_are_as_far_apart_as_gpus_of_other_servers(records):
    job, pairs, pipelines = build(8_000.0, **records)
    assert np.abs(apart(job, pairs, pipelines)).max() < 0.3


def test_a_queue_disturbs_one_direction_only():
    job, _, pipelines = build(20.0, queue_us=4_000.0)
    (first, last), (other_first, other_last) = pipelines[:2]
    assert apart(job, [(last, other_last)], pipelines)[0] < -3.0
    assert apart(job, [(first, other_first)], pipelines)[0] > -1.0


def test_a_stage_that_sends_both_ways_is_judged_by_the_nearer_one():
    job, _, pipelines = build(20.0, queue_us=4_000.0)
    turned = [(b, a, b) for a, b in pipelines]  # the middle stage sends what is queued, both ways
    both = [(a, b, a) for a, b in pipelines]
    assert apart(job, [(turned[0][1], turned[1][1])], tuple(turned))[0] > -1.0
    assert apart(job, [(both[0][1], both[1][1])], tuple(both))[0] < -3.0


def test_without_another_server_nothing_is_said():
    assert np.isnan(apart(*build(20.0, servers=1))).all()
    job, pairs, _ = build(20.0)
    assert np.isnan(apart(job, pairs, ())).all()


def test_too_few_messages_say_nothing():
    job, pairs, pipelines = build(20.0, lost=0.99)
    assert np.isnan(apart(job, pairs, pipelines)).all()


@pytest.mark.parametrize("apart_us", [20.0, 8_000.0])
def test_stamps_that_hide_what_other_servers_differ_by_say_nothing(apart_us):
    """Servers of a stage are 2 ms apart, stamps of 100 ms show none of that."""
    assert np.isnan(apart(*build(apart_us, unit=100 * MS), rounding_ns=28.0 * MS)).all()


def test_what_stamps_make_of_gpus_that_send_together_is_said_in_the_same_unit():
    """Servers of a stage are 2 ms apart, so half of a millisecond's rounding is a sixth of that."""
    job, pairs, pipelines = build(20.0, unit=MS)
    (fine, of_fine), (coarse, of_coarse) = (
        sends_apart(job, pairs, pipelines, rounding_ns=rounding) for rounding in (0.28 * MS, 0.35 * MS)
    )
    assert (fine == coarse).all()
    assert -2.5 < of_fine < -0.3
    assert of_coarse - of_fine == pytest.approx(np.log(1.25))
    assert np.isnan(sends_apart(job, pairs, (), rounding_ns=MS)[1])
