"""Tensor peers and replicas on one server: two servers, one per stage, whose members differ only in when they send."""

import numpy as np
import pytest

from llmprism.model import Group, Job, PairKind, StepClock
from llmprism.parallelism.features import pair_features
from llmprism.parallelism.tensor_peers import join_replicas
from unit.builders import MS, US, Flow, transfer_table

STEPS = 20
PERIOD = 100 * MS
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * PERIOD, np.ones(STEPS, dtype=np.bool_), 1.0)


def joined(sets, jitter_us=1_000.0, within_us=2.0, steps=STEPS, places=True, unit_ns=1, ragged=0.0, drift_ms=0.0):
    """Groups (as lists of rails) after joining; rail r of stage 0 sends to rail r of stage 1, both servers hold all.

    `sets[r]` names the tensor-parallel group of rail r: members of one differ by `within_us`, sets by `jitter_us`.
    Every rail has a group of its own at first, with one more replica somewhere else.
    """
    random = np.random.default_rng(0)
    rails = len(sets)
    flows = []
    for step in range(steps):
        shift = {name: random.uniform(-jitter_us, jitter_us) for name in sorted(set(sets))}
        for rail, name in enumerate(sets):
            when = step * PERIOD + 20 * MS + int((shift[name] + random.uniform(-within_us, within_us)) * US)
            when += int(drift_ms * MS) * rail
            when = when // unit_ns * unit_ns
            size = int(1_000_000 * random.uniform(1.0 - ragged, 1.0 + ragged))
            flows.append(Flow(f"a{rail}", f"b{rail}", when, when + MS, size))
            flows.append(Flow(f"b{rail}", f"a{rail}", when + 40 * MS, when + 41 * MS, size))
    flows += [Flow(f"a{rail}", f"c{rail}", 90 * MS, 91 * MS, 5_000_000) for rail in range(rails)]
    flows += [Flow(f"b{rail}", f"d{rail}", 90 * MS, 91 * MS, 5_000_000) for rail in range(rails)]
    transfers = transfer_table(flows)
    number = {name: i for i, name in enumerate(transfers.addresses)}
    servers = tuple(f"server {name[0]}" if name[0] in "ab" and places else "" for name in transfers.addresses)
    job = Job("job", tuple(range(len(number))), (), 1.0, transfers, places=servers)
    kind = np.where(transfers.bytes[transfers.pair_offsets[:-1]] > 4_000_000, PairKind.DP, PairKind.PP).astype(np.int8)
    clock = StepClock(CLOCK.boundary_ns[: steps + 1], CLOCK.regular[:steps], 1.0)
    groups = tuple(
        Group(PairKind.DP, (number[f"{here}{rail}"], number[f"{there}{rail}"]), ring=True)
        for here, there in ("ac", "bd")
        for rail in range(rails)
    )
    pipelines = tuple((number[f"a{rail}"], number[f"b{rail}"]) for rail in range(rails))
    found = join_replicas(job, groups, pipelines, kind, pair_features(transfers, clock), clock)
    assert sorted(m for group in found for m in group.members) == sorted(m for group in groups for m in group.members)
    names = [[transfers.addresses[m] for m in group.members] for group in found]
    return sorted(sorted(int(name[1:]) for name in group if name[0] == "a") for group in names if group[0][0] == "a")


APART = [[0], [1], [2], [3]]


def test_two_tensor_groups_on_one_server_are_two_replicas():
    assert joined("xxyy") == [[0, 2], [1, 3]]
    assert joined("xyxy") == [[0, 1], [2, 3]]
    assert joined("xxxxyyyy") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert joined("uuvvxxyy") == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_members_that_all_move_together_are_peers():
    assert joined("xxxx") == APART


def test_members_that_each_keep_their_own_time_are_replicas_where_messages_are_seen_whole():
    assert joined("uvxy") == [[0, 1, 2, 3]]
    assert joined("uvxy", ragged=0.2) == APART, "a collector that blurs sizes blurs times"
    assert joined("uvxy", unit_ns=100 * US) == APART, "stamps in tenths of a millisecond"


def test_members_that_do_not_keep_step_are_not_joined():
    assert joined("uvxy", jitter_us=20_000.0) == APART


def test_sets_of_unequal_size_say_nothing():
    assert joined("xxxy") == APART


def test_a_constant_difference_of_two_switches_clocks_is_no_distance():
    assert joined("xxyy", drift_ms=1.5) == [[0, 2], [1, 3]]
    assert joined("xxxx", drift_ms=1.5) == APART


@pytest.mark.parametrize("less", [{"steps": 4}, {"places": False}])
def test_without_enough_steps_or_without_places_nothing_changes(less):
    assert joined("xxyy", **less) == APART


def test_two_or_three_members_are_too_few_to_compare():
    assert joined("xy") == [[0], [1]]
    assert joined("xxy") == [[0], [1], [2]]
