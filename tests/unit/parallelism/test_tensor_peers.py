"""Tensor peers and replicas on one server: GPUs that differ only in when they send and when their groups end."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.model import Group, Job, PairKind, StepClock
from llmprism.parallelism.tensor_peers import find_tensor_peers, joined_replicas
from unit.builders import MS, US, Flow, transfer_table

STEPS = 20
PERIOD = 200 * MS
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * PERIOD, np.ones(STEPS, dtype=np.bool_), 1.0)


def build(width, gpus=4, servers=2, *, sends_us=(2.0, 1_000.0), ends_us=(5.0, 500.0), visible=True, pipeline=True):
    """Two stages on `servers` servers each, `gpus` GPUs a server, tensor groups of `width` neighbours.

    Peers send their activations within `sends_us[0]` of each other and replicas within `sends_us[1]`; members of one
    data-parallel group end within `ends_us[0]`, others within `ends_us[1]`. `visible`: rings between the servers.
    """
    random = np.random.default_rng(width)
    flows = []
    for step in range(STEPS):
        base = step * PERIOD
        for stage in "ab"[: 2 if pipeline else 1]:
            ends = random.uniform(0, ends_us[1], width)
            for server in range(servers):
                late = random.uniform(0, sends_us[1], gpus // width)
                for gpu in range(gpus):
                    here, there = f"{stage}{server}g{gpu}", f"{'ba'[stage == 'b']}{server}g{gpu}"
                    when = base + (20 if stage == "a" else 60) * MS
                    when += int((late[gpu // width] + random.uniform(0, sends_us[0])) * US)
                    if pipeline:
                        flows.append(Flow(here, there, when, when + MS, 1_000_000))
                    if visible:
                        end = base + 150 * MS + int((ends[gpu % width] + random.uniform(0, ends_us[0])) * US)
                        flows.append(Flow(here, f"{stage}{(server + 1) % servers}g{gpu}", end - 9 * MS, end, 5_000_000))
    transfers = transfer_table(flows)
    names = transfers.addresses
    number = {name: i for i, name in enumerate(names)}
    places = tuple(name[:2] for name in names)
    job = Job(
        "job", tuple(range(len(names))), (), 1.0, transfers, places=places, slots=tuple(int(n[3:]) for n in names)
    )
    same = [names[s][0] == names[d][0] for s, d in zip(transfers.pair_src, transfers.pair_dst, strict=True)]
    kind = np.where(same, PairKind.DP, PairKind.PP).astype(np.int8)
    rails = [[number[f"{stage}{s}g{g}"] for s in range(servers)] for stage in "ab"[: 2 if pipeline else 1]
             for g in range(gpus)]  # fmt: skip
    groups = tuple(Group(PairKind.DP, tuple(rail), ring=True) for rail in rails) if visible else ()
    ends = [(f"a{s}g{g}", f"b{s}g{g}") for s in range(servers) for g in range(gpus)] if pipeline else []
    return job, groups, tuple((number[a], number[b]) for a, b in ends), kind


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize(
    "signs",
    [
        {},
        {"sends_us": (3_000.0, 3_000.0)},  # processes of their own: peers are no closer than replicas
        {"ends_us": (50.0, 50.0)},  # all groups end together
        {"pipeline": False},
        {"visible": False, "servers": 1},
    ],
    ids=str,
)
def test_either_sign_tells_how_many_neighbours_are_peers(width, signs):
    job, groups, pipelines, kind = build(width, **signs)
    peers = find_tensor_peers(job, groups, pipelines, kind, CLOCK)
    assert peers is not None
    assert peers.width == width
    one_sign = width == 1 and (not signs.get("visible", True) or not signs.get("pipeline", True))
    assert peers.confidence > (0.5 if one_sign else 0.8)  # groups without noise end together too: likely, no more
    joined = joined_replicas(groups, peers)
    servers = signs.get("servers", 2)
    replicas = 4 // width * servers
    stages = 1 if signs.get("pipeline", True) is False else 2
    assert sorted(len(group.members) for group in joined) == ([replicas] * width * stages if replicas > 1 else [])


def test_nothing_is_said_without_several_gpus_of_a_stage_on_a_server_or_without_steps():
    job, groups, pipelines, kind = build(1, gpus=1)
    assert find_tensor_peers(job, groups, pipelines, kind, CLOCK) is None
    job, groups, pipelines, kind = build(2)
    few = StepClock(CLOCK.boundary_ns[:4], CLOCK.regular[:3], 1.0)
    assert find_tensor_peers(job, groups, pipelines, kind, few) is None


def test_gpus_that_records_join_are_replicas():
    job, groups, pipelines, kind = build(4)  # sends and ends say that all four are peers
    names = job.transfers.addresses
    by_place = {}
    for group in groups:
        name = names[group.members[0]]
        by_place.setdefault((name[0], int(name[3:]) % 2), []).append(group)
    seen = tuple(
        Group(PairKind.DP, tuple(sorted(m for rail in rails for m in rail.members))) for rails in by_place.values()
    )
    peers = find_tensor_peers(job, seen, pipelines, kind, CLOCK)
    assert peers is not None
    assert peers.width == 2
    assert {len(group.members) for group in joined_replicas(seen, peers)} == {4}


def test_widths_that_other_evidence_rules_out_are_not_taken():
    job, groups, pipelines, kind = build(1)  # sends and ends say that none are peers
    peers = find_tensor_peers(job, groups, pipelines, kind, CLOCK, open_widths=frozenset({4}))
    assert peers is not None
    assert peers.width == 4
    assert peers.others == ()
    impossible = find_tensor_peers(job, groups, pipelines, kind, CLOCK, open_widths=frozenset({3}))
    assert impossible is not None
    assert impossible.width == 1, "what fits no server says nothing"


def test_rails_that_hardly_differ_stay_apart_and_many_pairs_do_not_make_it_sure():
    job, groups, _, kind = build(8, gpus=8, servers=4, ends_us=(300.0, 300.0), pipeline=False)
    peers = find_tensor_peers(job, groups, (), kind, CLOCK)
    assert peers is not None
    assert peers.width == 8
    assert peers.confidence < 0.9


def test_groups_end_once_in_a_step_however_many_servers_show_it():
    """Rails that differ by chance are not surer to differ where ten servers show the same ends."""
    wrong = []
    for servers in (2, 10):
        job, groups, _, kind = build(8, gpus=8, servers=servers, ends_us=(20.0, 30.0), pipeline=False)
        peers = find_tensor_peers(job, groups, (), kind, CLOCK)
        wrong.append(sum(share for width, share in peers.others if width in (2, 4)))
    assert wrong[1] < 1.5 * wrong[0]


@pytest.mark.parametrize("sharded", [False, True])
def test_records_that_join_some_gpus_of_a_server_would_join_all_of_a_group(sharded):
    job, rails, pipelines, kind = build(2, ends_us=(50.0, 50.0), pipeline=False)  # ends of all groups coincide
    names = job.transfers.addresses
    seen = tuple(
        Group(PairKind.DP, tuple(sorted(m for rail in rails for m in rail.members if int(names[m][3:]) % 2 == odd)))
        for odd in (0, 1)
    )
    peers = find_tensor_peers(job, seen, pipelines, kind, CLOCK, sharded=sharded)
    assert peers is not None
    assert peers.width == 2
    assert peers.confidence > 0.9


def coarse(job, unit_ns):
    """The job with time stamps of that unit."""
    transfers = job.transfers
    start, end = (when // unit_ns * unit_ns for when in (transfers.start_ns, transfers.end_ns))
    return replace(job, transfers=replace(transfers, start_ns=start, end_ns=end))


def test_ends_that_time_stamps_are_too_coarse_to_show_leave_what_was_known_before():
    job, groups, pipelines, kind = build(4, ends_us=(5.0, 50.0), pipeline=False)
    shown = find_tensor_peers(job, groups, pipelines, kind, CLOCK)
    hidden = find_tensor_peers(coarse(job, 10 * MS), groups, pipelines, kind, CLOCK)
    assert shown is not None
    assert hidden is not None
    assert (shown.width, hidden.width) == (4, 4)
    assert hidden.confidence < 0.75 < shown.confidence


@pytest.mark.parametrize("ends_us", [(5_000.0, 500.0), (20_000.0, 100.0)])
def test_groups_whose_members_end_far_apart_do_not_look_like_one_because_they_end_no_farther(ends_us):
    peers = find_tensor_peers(*build(4, ends_us=ends_us, pipeline=False), CLOCK)
    assert peers.width == 4
    assert peers.confidence < 0.75  # what is known before decides


def starting(job, late_us):
    """The job whose messages all begin long before they end, on all GPUs of a server at once or `late_us` apart."""
    transfers, random = job.transfers, np.random.default_rng(1)
    step = transfers.start_ns // PERIOD
    late = random.uniform(0.0, late_us, step.size) * US
    return replace(job, transfers=replace(transfers, start_ns=step * PERIOD + 130 * MS + late.astype(np.int64)))


def test_rails_of_shards_that_begin_together_are_those_of_one_collective_though_they_end_apart():
    """The same ends either way, somewhat farther apart than those of the members of a rail."""
    job, groups, pipelines, kind = build(4, ends_us=(15.0, 40.0), pipeline=False)
    together, apart, coarsely = (
        find_tensor_peers(one, groups, pipelines, kind, CLOCK, sharded=True)
        for one in (starting(job, 0.0), starting(job, 500.0), coarse(starting(job, 0.0), MS))
    )
    assert together.width == 1
    assert together.confidence < 0.75, "tensor groups may begin together, too"
    assert apart.width == 4
    assert apart.confidence > coarsely.confidence, "time stamps of a millisecond do not show who begins"
    unsharded = (find_tensor_peers(starting(job, late), groups, pipelines, kind, CLOCK) for late in (0.0, 500.0))
    assert len({one.confidence for one in unsharded}) == 1


def test_clocks_that_are_apart_by_parts_of_a_unit_make_no_peers_differ():
    """Peers send within 2 us, but the clock of half of them is half of a unit ahead."""
    job, groups, pipelines, kind = build(8, gpus=8, sends_us=(2.0, 20_000.0), ends_us=(50.0, 50.0), servers=3)
    transfers = job.transfers
    ahead = np.array([int(name[3:]) >= 4 for name in transfers.addresses]) * MS // 2
    off = ahead[transfers.pair_src[transfers.pair_of_row]]
    start, end = (when + off for when in (transfers.start_ns, transfers.end_ns))
    skewed = coarse(replace(job, transfers=replace(transfers, start_ns=start, end_ns=end)), MS)
    peers = find_tensor_peers(skewed, groups, pipelines, kind, CLOCK)
    assert peers.width == 8
    assert peers.confidence > 0.9


def test_of_shards_whose_rails_end_together_it_stays_open_whether_they_go_over_a_whole_server():
    job = build(1, ends_us=(20.0, 20.0), pipeline=False)
    answers = {sharded: find_tensor_peers(*job, CLOCK, sharded=sharded) for sharded in (False, True)}
    assert answers[True].width == 1
    assert answers[True].confidence < 0.9
    others = {sharded: dict(one.others) | {one.width: one.confidence} for sharded, one in answers.items()}
    assert others[False][4] / others[False][1] > others[True][4] / others[True][1]
