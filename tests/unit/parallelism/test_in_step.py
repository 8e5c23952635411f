"""Rings inside the step: 10 steps of 100 ms, one pipeline link a-b, one ring pair a-c; rings without pipelines."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.features import pair_features
from llmprism.parallelism.in_step import _end_with_the_passes, _in_every_pass, _on_axis, _synchronised, find_in_step
from llmprism.parallelism.rules import RULES
from unit.builders import MS, Flow, transfer_table

STEPS = 10
MORE = RULES.exchanges.gradients_besides
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 100 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)
FORWARD_MS, BACKWARD_MS, LAST_MS = 10, 40, 70
"""First activation of a step, first gradient that comes back, end of the last one."""


def message(src, dst, step, at_ms, size):
    start = step * 100 * MS + int(at_ms * MS)
    return Flow(src, dst, start, start + MS, size)


def seen(places, size=1_000_000, pipeline=True, heartbeat_ms=None):
    """(inside, gradients, gradient rows) of the pair a-c, which sends `size` bytes at `places(step)` ms of a step.

    Its members have gradient pairs besides.
    """
    flows = [message("a", "c", step, at, size) for step in range(STEPS) for at in places(step)]
    flows += [message(*ends, step, 90, 3_700_000) for step in range(STEPS) for ends in ("ad", "ce")]
    for step in range(STEPS):
        flows += [message("a", "b", step, at, 2_000_000) for at in (FORWARD_MS, 30)]
        flows += [message("b", "a", step, at, 2_000_000) for at in (BACKWARD_MS, LAST_MS - 1)]
        if heartbeat_ms is not None:
            flows += [message(*ends, step, heartbeat_ms, 300) for ends in ("ab", "ba")]
    transfers = transfer_table(flows)
    names = transfers.addresses
    result = [names[s] + names[d] for s, d in zip(transfers.pair_src, transfers.pair_dst, strict=True)]
    pair = result.index("ac")
    forward = [(result.index("ab"), result.index("ba"))] if pipeline else []
    candidates = np.array(sorted([pair, result.index("ad"), result.index("ce")] if pipeline else [pair]))
    found = find_in_step(transfers, candidates, forward, pair_features(transfers, CLOCK), CLOCK)
    assert not np.delete(found.inside, pair).any(), "a pair of gradients, or one that was not asked"
    assert found.gradient_row[transfers.pair_of_row != pair].all()
    return bool(found.inside[pair]), bool(found.gradients[pair]), found.gradient_row[transfers.pair_of_row == pair]


def test_a_ring_that_waits_for_the_backward_pass_carries_gradients():
    inside, gradients, rows = seen(lambda step: [50, 80])
    assert (inside, gradients) == (False, True)
    assert rows.all()


def test_a_ring_between_activations_and_the_first_gradient_is_of_the_forward_pass():
    inside, gradients, rows = seen(lambda step: [20, 40, 60])
    assert (inside, gradients) == (True, False)
    assert not rows.any()


def test_what_a_step_needs_once_at_its_beginning_is_no_exchange_of_the_passes():
    """Parameters that are gathered under the first forward pass after a sharded optimizer."""
    assert seen(lambda step: [12, 15, 18, 80])[0] is False


def test_collectives_through_all_passes_without_a_synchronisation_after_them_gather_sharded_stages():
    """Two pipelines a-b and c-d whose first stages exchange throughout."""
    flows = []
    for step in range(STEPS):
        flows += [message(*ends, step, at, 1_000_000) for at in (20, 40, 60) for ends in ("ac", "ca")]
        flows += [message(*ends, step, at, 2_000_000) for at in (FORWARD_MS, 30) for ends in ("ab", "cd")]
        flows += [message(*ends, step, at, 2_000_000) for at in (BACKWARD_MS, LAST_MS - 1) for ends in ("ba", "dc")]
    transfers = transfer_table(flows)
    names = transfers.addresses
    result = [names[s] + names[d] for s, d in zip(transfers.pair_src, transfers.pair_dst, strict=True)]
    forward = [(result.index("ab"), result.index("ba")), (result.index("cd"), result.index("dc"))]
    candidates = np.array([result.index("ac"), result.index("ca")])
    found = find_in_step(transfers, candidates, forward, pair_features(transfers, CLOCK), CLOCK, batches=2)
    assert found.gathers
    assert not found.any


def first_stages(uneven=0.0, last=True):
    """Two pipelines a-b and c-d both of whose stages exchange in every pass; the last pass of the first stage follows
    its last message, that of the others precedes it (`last`: and its gradients are scattered after it)."""
    rng, flows = np.random.default_rng(3), []
    for step in range(STEPS):
        for ends in ("ac", "bd"):
            moments = (20, 35, 45, 60, 75) if ends == "ac" or last else (20, 35, 45, 60, 65)
            for way in (ends, ends[::-1]):
                sizes = 1_000_000 * (1.0 + uneven * rng.uniform(-1, 1, len(moments)))
                flows += [message(*way, step, at, int(size)) for at, size in zip(moments, sizes, strict=True)]
        flows += [message(*ends, step, at, 2_000_000) for at in (FORWARD_MS, 30) for ends in ("ab", "cd")]
        flows += [message(*ends, step, at, 2_000_000) for at in (BACKWARD_MS, LAST_MS - 1) for ends in ("ba", "dc")]
    transfers = transfer_table(flows)
    names = transfers.addresses
    result = [names[s] + names[d] for s, d in zip(transfers.pair_src, transfers.pair_dst, strict=True)]
    forward = [(result.index("ab"), result.index("ba")), (result.index("cd"), result.index("dc"))]
    candidates = np.array(sorted(result.index(ends) for ends in ("ac", "ca", "bd", "db")))
    return find_in_step(transfers, candidates, forward, pair_features(transfers, CLOCK), CLOCK, batches=2)


def test_tokens_that_are_routed_are_no_parameters_of_sharded_stages():
    assert first_stages().gathers
    tokens = first_stages(uneven=0.3)
    assert not tokens.gathers
    assert tokens.any
    assert not tokens.tensor.any()


def test_collectives_that_end_with_the_passes_of_all_stages_but_the_first_are_of_tensors():
    tensors = first_stages(last=False)
    assert not tensors.gathers
    assert tensors.tensor.sum() == 4


def test_a_pair_may_carry_both_and_its_rows_are_kept_apart():
    inside, gradients, rows = seen(lambda step: [20, 40, 80], size=4_000_000)
    assert inside
    assert rows.tolist() == ([False, False, True] if gradients else [False] * 3) * STEPS


def test_traffic_before_the_first_activation_says_nothing():
    """Gathering of weights, data for the step: it may come before anything is computed."""
    assert seen(lambda step: [5, 80])[0] is False


@pytest.mark.parametrize(("often", "inside"), [(4, False), (5, True)])
def test_it_must_show_in_half_of_the_steps(often, inside):
    assert seen(lambda step: [20, 40, 80] if step < often else [80])[0] is inside


def test_a_trickle_is_not_enough():
    assert seen(lambda step: [20, *np.arange(71.5, 98, 0.25)])[0] is False, "one part in a hundred and eight"


def test_heartbeats_on_pipeline_links_start_no_pass():
    """300 bytes at 2 ms would otherwise be the first activation, and the first gradient too."""
    assert seen(lambda step: [5, 80], heartbeat_ms=2)[0] is False
    assert seen(lambda step: [20, 40, 80], heartbeat_ms=2)[0] is True


def test_without_pipelines_and_contrast_nothing_is_decided():
    inside, gradients, rows = seen(lambda step: [20, 60, 80], pipeline=False)
    assert (inside, gradients) == (False, True)
    assert rows.all()


def found_in(places):
    """What each pair of a job without pipelines carries, given {pair: [(ms of the step, bytes)]}."""
    flows = [
        message(*pair, step, at, size) for step in range(STEPS) for pair, sends in places.items() for at, size in sends
    ]
    transfers = transfer_table(flows)
    names = transfers.addresses
    pairs = [names[s] + names[d] for s, d in zip(transfers.pair_src, transfers.pair_dst, strict=True)]
    found = find_in_step(transfers, np.arange(len(pairs)), [], pair_features(transfers, CLOCK), CLOCK)
    kind = {}
    for i, pair in enumerate(pairs):
        ring = "tp" if found.tensor[i] else "cp"
        kind[pair] = {name for name, result in ((ring, found.inside[i]), ("dp", found.gradients[i])) if result}
    return kind


GRADIENTS = [(85, 4_000_000)]
EXCHANGES = [(at, 1_000_000) for at in (10, 30, 50, 70)]


def test_tensor_parallel_hops_join_members_of_different_gradient_groups():
    result = found_in(
        {"ab": GRADIENTS, "ba": GRADIENTS, "cd": GRADIENTS, "dc": GRADIENTS, "ac": EXCHANGES, "bd": EXCHANGES}
    )
    assert result == {pair: {"dp"} for pair in ("ab", "ba", "cd", "dc")} | {pair: {"tp"} for pair in ("ac", "bd")}


def test_context_parallel_rings_run_partly_over_the_gradients_ring():
    """Gradients a-b-c-d-a, contexts a-b-a and c-d-c."""
    mixed = EXCHANGES + GRADIENTS
    result = found_in({"ab": mixed, "bc": GRADIENTS, "cd": mixed, "da": GRADIENTS, "ba": EXCHANGES, "dc": EXCHANGES})
    assert {pair for pair, kind in result.items() if "cp" in kind} == {"ab", "ba", "cd", "dc"}
    assert {pair for pair, kind in result.items() if "dp" in kind} == {"ab", "bc", "cd", "da"}


@pytest.mark.parametrize(("more", "kind"), [(MORE - 0.05, {"tp"}), (MORE + 0.05, {"cp", "dp"})])
def test_a_hop_that_carries_more_than_the_least_of_its_ring_carries_gradients(more, kind):
    extra = [(84, int(4_000_000 * (more - 1)))]
    result = found_in({"cd": GRADIENTS, "dc": GRADIENTS, "ab": EXCHANGES + extra, "ba": EXCHANGES})
    assert result["ab"] == kind


def test_the_silence_of_gradients_may_go_over_the_clock_s_boundary():
    """A clock that ticks in the middle of the forward pass."""
    late = [((at + 60) % 100, size) for at, size in EXCHANGES]
    gradients = [(45, 4_000_000)]
    result = found_in({"ab": gradients, "ba": gradients, "cd": gradients, "dc": gradients, "ac": late, "bd": late})
    assert (result["ab"], result["ac"]) == ({"dp"}, {"tp"})


def test_parameters_that_go_round_the_other_way_are_no_exchange():
    """A sharded optimizer: gradients go round one way, half as many bytes of parameters the other, before the step."""
    scattered, gathered = [(80, 4_000_000)], [(at, 500_000) for at in (5, 15, 25, 35)]
    hops = ("ab", "bc", "cd", "da")
    result = found_in(dict.fromkeys(hops, scattered) | {hop[::-1]: gathered for hop in hops})
    assert all(kinds == {"dp"} for kinds in result.values())


def test_all_rings_of_an_axis_are_of_one_kind_where_a_tree_takes_some_of_their_links():
    """Five exchanges of two ranks each; gradients pass over one of them, or over none."""
    transfers = transfer_table([Flow(a, b, 0, MS, 1000) for a, b in ("ab", "cd", "ef", "gh", "ij")])
    pairs, ring = np.arange(5), np.arange(5)
    one, none = np.arange(5) == 2, np.zeros(5, dtype=np.bool_)
    assert _on_axis(transfers, pairs, ring, one, RULES).all()
    assert not _on_axis(transfers, pairs, ring, none, RULES).any()


def test_rings_of_another_size_are_another_axis():
    transfers = transfer_table([Flow(a, b, 0, MS, 1000) for a, b in ("ab", "cd", "de", "ec")])
    pairs, ring = np.arange(4), np.array([0, 1, 1, 1])
    assert _on_axis(transfers, pairs, ring, ring == 1, RULES).tolist() == [False, True, True, True]


@pytest.mark.parametrize(("places", "inside"), [((14, 20, 34, 60), True), ((11, 11.5, 12, 60), False)])
def test_what_fills_the_passes_by_its_size_is_not_of_every_pass(places, inside):
    """Two pipelines a-b and c-d of five micro-batches, whose first stages exchange one way round."""
    flows = []
    for step in range(STEPS):
        flows += [message(*ends, step, at, 2_000_000) for at in range(10, 60, 10) for ends in ("ab", "cd", "ba", "dc")]
        flows += [message("a", "c", step, at, 1_000_000) for at in places] + [message("c", "a", step, 90, 1_000_000)]
    transfers = transfer_table(flows)
    names = transfers.addresses
    pair = {names[s] + names[d]: i for i, (s, d) in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))}
    forward = [(pair["ab"], pair["ba"]), (pair["cd"], pair["dc"])]
    busy = np.array(sorted([pair["ac"], pair["ca"]]))
    assert _in_every_pass(transfers, busy, forward, CLOCK, RULES) is inside


@pytest.mark.parametrize(
    ("first", "behind", "batches", "alone"),
    [
        (0.1, [0.0, 0.0, 0.01], 8, True),
        (0.1, [0.0, 0.09, 0.09], 8, False),  # shards are reduced besides
        (0.7, [0.1, 0.1, 0.1], 8, False),  # more than one pass of eight
        (0.7, [0.1, 0.1, 0.1], 1, True),
    ],
)
def test_after_the_passes_the_first_stage_has_one_more_and_the_others_have_none(first, behind, batches, alone):
    transfers = transfer_table([message(*ends, 0, 10, 1000) for ends in ("ab", "ba", "ac", "bd", "be", "bf")])
    names = transfers.addresses
    pair = {names[s] + names[d]: i for i, (s, d) in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))}
    late = np.zeros(transfers.pair_count)
    late[[pair[ends] for ends in ("ac", "bd", "be", "bf")]] = [first, *behind]
    rings = np.array(sorted(pair[ends] for ends in ("ac", "bd", "be", "bf")))
    assert _end_with_the_passes(transfers, rings, late, [(pair["ab"], pair["ba"])], batches, RULES) is alone


def test_members_that_gradients_join_by_a_longer_way_are_synchronised():
    transfers = transfer_table([message(*ends, 0, 10, 1000) for ends in ("ab", "ac", "cb", "de")])
    gradients = np.array([i for i in range(4) if transfers.addresses[transfers.pair_src[i]] + transfers.addresses[
        transfers.pair_dst[i]] in ("ac", "cb")])  # fmt: skip
    others = np.setdiff1d(np.arange(4), gradients)
    found = _synchronised(transfers, others, gradients)
    ends = [transfers.addresses[transfers.pair_src[i]] for i in others]
    assert dict(zip(ends, found.tolist(), strict=True)) == {"a": True, "d": False}
