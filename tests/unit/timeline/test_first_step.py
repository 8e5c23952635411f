import numpy as np
import pytest

from llmprism.model import Group, Job, JobLayout, Layout, PairKind, PairRoles, Sharding, StepClock
from llmprism.timeline.first_step import with_first_steps
from unit.builders import MS, Flow, transfer_table

STEP = 100 * MS
MB = 1_000_000


def job_of(flows, ticks, kind=PairKind.DP, sharding=Sharding.UNKNOWN):
    transfers = transfer_table(flows)
    members = tuple(range(len(transfers.addresses)))
    clock = StepClock(np.array(ticks, dtype=np.int64), np.ones(len(ticks) - 1, dtype=np.bool_), 1.0)
    kinds = np.full(transfers.start_ns.size, kind, dtype=np.int8)
    groups = (Group(PairKind.DP, members),) if kind == PairKind.DP else ()
    pipelines = (members,) if kind == PairKind.PP else ()
    layout = JobLayout(Layout(sharding=sharding), groups, pipelines, PairRoles.empty(), kinds, clock=clock)
    return Job("job", members, (), 1.0, transfers), layout, clock


def gathers(begin, late_ms=0, size=MB):
    """One step of two sharded ranks, the second of which begins later."""
    return [
        Flow("a", "b", begin + 5 * MS, begin + 90 * MS, size),
        Flow("b", "a", begin + (5 + late_ms) * MS, begin + 90 * MS, size),
    ]


def test_a_whole_step_before_the_first_tick_is_a_step():
    ticks = np.arange(1, 7) * STEP
    flows = [flow for begin in [0, *ticks[:-1]] for flow in gathers(begin)]
    found = with_first_steps(*job_of(flows, ticks, sharding=Sharding.FSDP))
    assert found.boundary_ns.tolist() == [5 * MS, *ticks]
    assert found.regular.all()


def test_part_of_a_step_before_the_first_tick_began_before_the_window():
    ticks = np.arange(1, 7) * STEP
    flows = gathers(0, size=900_000) + [flow for begin in ticks[:-1] for flow in gathers(begin)]
    found = with_first_steps(*job_of(flows, ticks, sharding=Sharding.FSDP))
    assert found.boundary_ns.tolist() == ticks.tolist()


def test_a_window_that_begins_in_a_step_leaves_its_tick_though_some_pairs_lack_bytes_after_it():
    """Most of a step before the tick and all of one after it, but for a record that was lost."""
    ticks = np.arange(1, 7) * STEP
    flows = gathers(0, size=900_000) + [flow for begin in ticks[:-1] for flow in gathers(begin)]
    lost = [flow._replace(bytes=900_000) if flow.start_ns // STEP == 1 else flow for flow in flows]
    found = with_first_steps(*job_of(lost, ticks, sharding=Sharding.FSDP))
    assert found.boundary_ns.tolist() == ticks.tolist()


def test_a_tick_in_the_middle_of_the_jobs_first_step_is_none():
    ticks = np.array([60 * MS, *(np.arange(1, 7) * STEP)])
    halves = [*gathers(0, size=MB // 2), *(flow._replace(start_ns=flow.start_ns + 60 * MS, end_ns=95 * MS) for flow in
              gathers(0, size=MB // 2))]  # fmt: skip
    flows = [flow._replace(end_ns=min(flow.end_ns, 50 * MS)) for flow in halves[:2]] + halves[2:]
    flows += [flow for begin in ticks[1:-1] for flow in gathers(begin)]
    found = with_first_steps(*job_of(flows, ticks, sharding=Sharding.FSDP))
    assert found.boundary_ns.tolist() == [5 * MS, *ticks[1:]]


def test_replicas_may_have_handed_out_their_parameters_before_the_first_tick():
    ticks = np.arange(1, 7) * STEP
    flows = [flow for begin in [0, *ticks[:-1]] for flow in gathers(begin)]
    found = with_first_steps(*job_of(flows, ticks))
    assert found.boundary_ns.tolist() == ticks.tolist()


def test_a_first_step_with_the_bytes_of_two_is_two():
    ticks = np.array([0, 9, 10, 11, 12, 13]) * STEP
    flows = [flow for begin in [0, *(ticks[1:] - STEP)] for flow in gathers(begin)]
    found = with_first_steps(*job_of(flows, ticks, PairKind.PP))
    assert (found.boundary_ns // STEP).tolist() == [0, 8, 9, 10, 11, 12, 13]


def test_the_first_step_ends_when_the_last_rank_begins_the_second():
    """The optimizer's first run takes one rank 60 ms longer than the other."""
    ticks = np.array([0, 9, 11, 12, 13, 14]) * STEP
    flows = gathers(0) + gathers(ticks[1], late_ms=60) + [flow for begin in ticks[2:-1] for flow in gathers(begin)]
    found = with_first_steps(*job_of(flows, ticks, sharding=Sharding.FSDP))
    assert found.boundary_ns[1] == ticks[1] + 60 * MS
    assert found.boundary_ns[2:].tolist() == ticks[2:].tolist()


@pytest.mark.parametrize("size", [4_600, 30_000])
def test_what_ranks_say_when_they_connect_begins_no_step(size):
    ticks = np.array([0, 9, 11, 12, 13, 14]) * STEP
    late = [Flow(*pair, ticks[1] + 65 * MS, ticks[1] + 190 * MS, MB) for pair in ("ab", "ba")]
    connect = [Flow(*pair, ticks[1] + MS, ticks[1] + 2 * MS, size) for pair in ("ab", "ba")]
    flows = gathers(0) + connect + late + [flow for begin in ticks[2:-1] for flow in gathers(begin)]
    found = with_first_steps(*job_of(flows, ticks, sharding=Sharding.FSDP))
    assert found.boundary_ns[1] == ticks[1] + 60 * MS


def test_one_rank_of_two_that_is_late_in_every_step_moves_nothing():
    """Now one rank, now the other begins 20 ms later: the last one does so in every step, in the second one as well."""
    ticks = np.array([0, 9, 10, 11, 12, 13, 14]) * STEP
    flows = gathers(0)
    for number, begin in enumerate(ticks[1:-1].tolist()):
        first, second = gathers(begin, late_ms=20)
        swapped = [Flow("b", "a", first.start_ns, first.end_ns, MB), Flow("a", "b", second.start_ns, second.end_ns, MB)]
        flows += swapped if number % 2 else [first, second]
    found = with_first_steps(*job_of(flows, ticks, sharding=Sharding.FSDP))
    assert found.boundary_ns[1] == ticks[1]
