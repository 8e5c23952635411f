"""The layout of small jobs whose truth is known, from recognition on."""

import dataclasses
import importlib
import itertools

import numpy as np
import pytest

from llmprism.model import Job, PairKind, Schedule, Sharding
from llmprism.parallelism import identify_layout
from llmprism.parallelism.composed import Composed
from llmprism.parallelism.schedule_fit import ScheduleFit
from support.stages import recognize
from unit.builders import SECOND, Flow, build_job, chatter, cut_in_pieces, transfer_table

SHAPES = [
    {"pp": 2, "dp": 2},
    {"pp": 2, "dp": 3, "order": "gpipe"},
    {"pp": 3, "dp": 3, "order": "gpipe", "micro_batches": 6},
    {"pp": 4, "dp": 2, "tp": 2, "micro_batches": 8},
    {"pp": 1, "dp": 4},
    {"pp": 1, "dp": 2},
    {"pp": 1, "dp": 3, "tp": 2},
    {"pp": 2, "dp": 1},
    {"pp": 4, "dp": 4, "micro_batches": 8},
]


def layout_of(job, records=None):
    (found,) = recognize(transfer_table(records or job.records), job.topology).jobs
    return found, identify_layout(found)


def names(found, members):
    return tuple(found.transfers.addresses[member] for member in members)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("cut", [False, True])
def test_the_layout_is_the_one_that_was_built(shape, cut):
    job = build_job(**shape)
    records = (cut_in_pieces(job.records) if cut else job.records) + chatter(
        job.members, job.shape.start_ns, job.step_ends_ns[-1]
    )
    found, result = layout_of(job, records)
    layout = result.layout
    assert (layout.tp, layout.pp, layout.dp) == (job.shape.tp, job.shape.pp, job.shape.dp)
    assert {frozenset(names(found, group.members)) for group in result.groups} == job.groups
    assert {names(found, pipeline) for pipeline in result.pipelines} == set(job.pipelines)
    assert layout.micro_batches == (job.shape.micro_batches if job.shape.pp > 1 else None)
    if job.shape.pp > 1:
        assert layout.schedule is (Schedule.GPIPE if job.shape.order == "gpipe" else Schedule.ONE_F_ONE_B)
    else:
        assert layout.schedule is Schedule.UNKNOWN
    assert layout.sharding is (Sharding.NONE if job.shape.dp > 1 else Sharding.UNKNOWN)
    assert 0.5 < result.confidence <= 1.0


def test_a_long_pipeline_without_data_parallelism():
    job = build_job(pp=4, dp=1)
    found, result = layout_of(job)
    assert {names(found, pipeline) for pipeline in result.pipelines} == set(job.pipelines)
    assert (result.layout.pp, result.layout.dp, result.layout.micro_batches) == (4, 1, 4)


def test_rings_are_listed_in_their_order():
    job = build_job(pp=2, dp=4)
    found, result = layout_of(job)
    assert all(group.ring for group in result.groups)
    assert {names(found, group.members) for group in result.groups} == set(job.rings)


def test_every_pair_with_real_traffic_has_its_kind_and_heartbeats_have_none():
    job = build_job(pp=2, dp=3)
    found, result = layout_of(job, job.records + chatter(job.members, job.shape.start_ns, job.step_ends_ns[-1]))
    pairs = result.pairs
    said = {
        names(found, (src, dst)): PairKind(kind)
        for src, dst, kind in zip(pairs.src, pairs.dst, pairs.kind, strict=True)
    }
    rings = {(ring[i], ring[(i + 1) % len(ring)]): PairKind.DP for ring in job.rings for i in range(len(ring))}
    stages = {pair: PairKind.PP for p in job.pipelines for a, b in itertools.pairwise(p) for pair in ((a, b), (b, a))}
    assert said == rings | stages
    assert ((pairs.confidence > 0.5) & (pairs.confidence <= 1.0)).all()


def test_each_transfer_has_the_kind_of_its_pair():
    job = build_job()
    found, result = layout_of(job, job.records + chatter(job.members, job.shape.start_ns, job.step_ends_ns[-1]))
    assert result.transfer_kind.size == found.transfers.start_ns.size
    assert found.bulk is not None
    large = np.repeat(found.bulk, np.diff(found.transfers.pair_offsets))
    assert (result.transfer_kind[large] != PairKind.UNKNOWN).all()
    assert (result.transfer_kind[~large] == PairKind.UNKNOWN).all()


@pytest.mark.parametrize("shape", SHAPES[:6], ids=str)
def test_the_clock_ticks_at_the_end_of_every_step(shape):
    job = build_job(**shape)
    _, result = layout_of(job)
    assert result.clock is not None
    ends = result.clock.boundary_ns[1:][result.clock.regular]
    assert ends.tolist() == job.step_ends_ns


def test_without_steps_everything_is_unknown_and_a_note_says_so():
    flows = [Flow("a", "b", 0, 60 * SECOND, 10**9), Flow("b", "a", 0, 60 * SECOND, 10**9)]
    (found,) = recognize(transfer_table(flows)).jobs
    result = identify_layout(found)
    layout = result.layout
    assert (layout.tp, layout.pp, layout.dp, layout.micro_batches) == (None, None, None, None)
    assert (layout.sharding, layout.schedule) == (Sharding.UNKNOWN, Schedule.UNKNOWN)
    assert (result.groups, result.pipelines, result.clock, result.confidence) == ((), (), None, 0.0)
    assert set(result.pairs.kind.tolist()) == {PairKind.UNKNOWN}
    assert len(result.notes) == 1


@pytest.mark.parametrize("seed", range(12))
def test_any_traffic_has_some_layout(seed):
    """Random messages between random members, some of them in bursts that repeat, none of them a training job's."""
    random = np.random.default_rng(seed)
    members = [f"m{i}" for i in range(int(random.integers(2, 9)))]
    flows, now = [], 0
    for _ in range(int(random.integers(30, 400))):
        src, dst = random.choice(len(members), 2, replace=False)
        length = int(random.integers(1, 10**7))
        flows.append(Flow(members[src], members[dst], now, now + length, int(random.integers(1, 10**8))))
        now += int(random.choice([0, 1, 10**5, 10**8]) * random.integers(0, 3))
    transfers = transfer_table(flows)
    places = tuple(f"server{i % 2}" for i in range(len(transfers.addresses)))
    job = Job("job", tuple(range(len(transfers.addresses))), (), 0.5, transfers, places=places)
    found = identify_layout(job)
    assert 0.0 <= found.confidence <= 1.0
    assert found.transfer_kind.size == transfers.start_ns.size


def test_ends_of_steps_that_were_seen_before_a_composition_stand_where_it_shows_none(monkeypatch):
    """A composition shares rows by time, and scraps that it leaves to the gradients may hide their end."""
    module = importlib.import_module("llmprism.parallelism.identify_layout")
    found, seen = [], module.step_ends

    def shown_once(job, *others):
        found.append(job.clock)
        return seen(job, *others) if len(found) == 1 else job.clock

    def rings(explained, transfers, *_, **__):
        every, none = np.ones(transfers.pair_count, dtype=np.bool_), np.zeros(transfers.pair_count, dtype=np.bool_)
        carries = {kind: every if kind is PairKind.DP else none for kind in PairKind}
        amount = {kind: carries[kind].astype(np.float64) for kind in PairKind}
        return Composed(carries, amount, (), (), either=False, sharded=False, bits=40.0)

    monkeypatch.setattr(module, "step_ends", shown_once)
    monkeypatch.setattr(module, "better_composition", rings)
    monkeypatch.setattr(module, "slower_rivals", lambda *_: [])
    job = build_job(pp=1, dp=4)
    _, result = layout_of(job)
    assert len(found) == 2
    assert result.clock is not None
    assert set(job.step_ends_ns[1:]) <= set(result.clock.boundary_ns.tolist())


@pytest.mark.parametrize(("scheduled", "turns"), [(True, False), (False, True), (False, False)])
def test_pipelines_in_place_of_shards_stand_where_messages_follow_a_schedule_or_take_turns(
    monkeypatch, scheduled, turns
):
    module = importlib.import_module("llmprism.parallelism.identify_layout")
    job, others = build_job(pp=2, dp=4), []
    (found,) = recognize(transfer_table(job.records), job.topology).jobs
    ends = [names(found, pair) for pair in zip(found.transfers.pair_src, found.transfers.pair_dst, strict=True)]
    passing = np.array([any({*pair} <= {*pipeline} for pipeline in job.pipelines) for pair in ends])
    carries = {kind: np.zeros(passing.size, dtype=np.bool_) for kind in PairKind}
    carries |= {PairKind.PP: passing, PairKind.DP: ~passing}
    amount = {kind: carries[kind].astype(np.float64) for kind in PairKind}
    staged = Composed(carries, amount, (), (), either=False, sharded=False, bits=8.0)
    monkeypatch.setattr(module, "staged_instead", lambda *_: staged)
    monkeypatch.setattr(module, "better_composition", lambda *_, **__: others.append(1))
    monkeypatch.setattr(ScheduleFit, "bits_over_chance", lambda *_: 12.0 if scheduled else 8.0)
    monkeypatch.setattr(module, "take_turns", lambda *_: turns)
    layout = module.identify_layout(found).layout
    assert (layout.pp, layout.dp) == (2, 4)
    assert bool(others) is not (scheduled or turns), "else the other compositions count"


def content(value):
    """All that a value holds, arrays as bytes, without what it keeps of its own calculations."""
    if dataclasses.is_dataclass(value):
        return [content(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return [(content(key), content(one)) for key, one in value.items()]
    return [content(one) for one in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize(
    "shape", [{"pp": 2, "dp": 2}, {"pp": 4, "dp": 2, "tp": 2, "micro_batches": 8}, {"pp": 1, "dp": 4}]
)
def test_no_pass_changes_what_it_is_given(monkeypatch, shape):
    """Every pass hands on a draft of its own: what it was given holds the same bytes afterwards."""
    module = importlib.import_module("llmprism.parallelism.identify_layout")
    looked_at = []

    def watched(one_pass):
        def run(draft):
            before = content(draft)
            found = one_pass(draft)
            assert content(draft) == before
            looked_at.append(one_pass.__name__)
            return found

        return run

    every = module.PASSES
    monkeypatch.setattr(module, "PASSES", tuple(map(watched, every)))
    monkeypatch.setattr(module, "slower_rivals", lambda *_: [])
    layout_of(build_job(**shape))
    assert looked_at == [one_pass.__name__ for one_pass in every]
