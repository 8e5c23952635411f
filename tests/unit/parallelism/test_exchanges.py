"""A ring of six members, neighbours of which exchange in every pass: 10 steps of 100 ms."""

import numpy as np
import pytest

from llmprism.model import PairKind, StepClock
from llmprism.parallelism.channels import amounts_of
from llmprism.parallelism.exchanges import find_exchanges, reduced_apart, routed
from llmprism.parallelism.features import links_of, pair_features
from llmprism.parallelism.link_evidence import evidence_of
from llmprism.parallelism.open_rings import shared_hops
from unit.builders import MS, Flow, transfer_table

STEPS = 10
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 100 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)
RING = "abcdef"
HOPS = [RING[i] + RING[(i + 1) % 6] for i in range(6)]
EXCHANGING = ("ab", "cd", "ef")


def flow(ends, step, at_ms, size):
    start = step * 100 * MS + int(at_ms * MS)
    return Flow(ends[0], ends[1], start, start + 2 * MS, int(size))


def records(exchanging=EXCHANGING, skew=0.0, hops=HOPS, seed=1):
    """Gradients go round at 80 ms; the neighbours exchange at 10, 30 and 50 ms."""
    rng = np.random.default_rng(seed)
    flows = [flow(ends, step, 80, 3_000_000) for step in range(STEPS) for ends in hops]
    for step in range(STEPS):
        for ends in exchanging:
            for way in (ends, ends[::-1]):
                flows += [flow(way, step, at, 2_000_000 * (1 + skew * rng.uniform(-1, 1))) for at in (10, 30, 50)]
    return flows


def seen(flows):
    transfers = transfer_table(flows)
    links = links_of(transfers, np.ones(transfers.pair_count, dtype=np.bool_))
    features = pair_features(transfers, CLOCK)
    return transfers, links, features, evidence_of(transfers, links, features, CLOCK).one_way


def found(flows):
    transfers, links, features, one_way = seen(flows)
    return transfers, find_exchanges(transfers, links, features, one_way, CLOCK)


def names(transfers, members):
    return "".join(sorted(transfers.addresses[member] for member in members))


def test_the_hops_that_a_ring_lacks_are_the_links_of_an_exchange():
    transfers, links, features, one_way = seen(records())
    shared = shared_hops(links, amounts_of(links, features), one_way)
    marked = {names(transfers, (links.low[i], links.high[i])) for i in np.flatnonzero(shared.links)}
    assert marked == set(EXCHANGING)
    assert np.allclose(shared.ring[shared.links], 3_000_000)


def test_a_ring_of_its_own_and_pipelines_next_to_it_lack_nothing():
    pipelines = [flow(way, step, at, 2_000_000) for step in range(STEPS) for k in range(6)
                 for way, at in ((RING[k] + "ABCDEF"[k], 10), ("ABCDEF"[k] + RING[k], 40))]  # fmt: skip
    assert found(records(exchanging=()) + pipelines)[1].groups == ()


def test_one_end_that_finds_no_other_leaves_all_as_they_are():
    without = [hop for hop in HOPS if hop != "de"]
    assert found(records(hops=without, exchanging=("ab", "ef")))[1].groups == ()


def test_what_a_few_members_exchange_is_no_axis_of_the_mesh():
    pipelines = [flow(way, step, at, 2_000_000) for step in range(STEPS) for k in range(6) for mate in "AGM"
                 for way, at in ((RING[k] + chr(ord(mate) + k), 10), (chr(ord(mate) + k) + RING[k], 40))]  # fmt: skip
    assert len(found(records())[1].groups) == 3
    assert found(records() + pipelines)[1].groups == ()


def test_rows_of_the_exchange_are_those_while_the_ring_is_silent():
    transfers, exchanges = found(records())
    own = transfers.rows_of(exchanges.pairs)
    assert (exchanges.rows[own] == (transfers.bytes[own] == 2_000_000)).all()
    assert not exchanges.rows[~own].any()


@pytest.mark.parametrize(("skew", "kind"), [(0.0, PairKind.CP), (0.001, PairKind.CP), (0.3, PairKind.EP)])
def test_routed_tokens_are_uneven_and_contexts_are_not(skew, kind):
    transfers, exchanges = found(records(skew=skew))
    assert {(names(transfers, group.members), group.kind) for group in exchanges.groups} == {
        (ends, kind) for ends in EXCHANGING
    }


def test_rings_both_ways_whose_hops_take_turns_are_shared_at_every_second():
    both_ways = HOPS + [hop[::-1] for hop in HOPS]
    transfers, exchanges = found(records(hops=both_ways))
    assert {names(transfers, group.members) for group in exchanges.groups} == set(EXCHANGING)
    own = transfers.rows_of(exchanges.pairs)
    assert (exchanges.rows[own] == (transfers.bytes[own] == 2_000_000)).all()


def test_two_replicas_of_two_stages_close_a_ring_too_and_are_left_alone():
    square = ["ab", "bc", "cd", "da"]
    flows = records(hops=square + [hop[::-1] for hop in square], exchanging=("ab", "cd"))
    assert found(flows)[1].groups == ()


def test_links_of_two_whose_ways_differ_from_step_to_step_route_tokens():
    for skew, result in ((0.3, True), (0.0, False)):
        transfers, links, _, _ = seen(records(skew=skew, hops=[], exchanging=("ab", "cd")))
        every = np.ones(transfers.pair_count, dtype=np.bool_)
        rows = np.ones(transfers.start_ns.size, dtype=np.bool_)
        assert routed(transfers, rows, every, [], CLOCK) is result
        same = list(zip(links.there.tolist(), links.back.tolist(), strict=True))
        assert not routed(transfers, rows, every, same, CLOCK)  # even traffic varies as much here


def test_the_noise_of_gradients_on_the_same_links_routes_no_tokens():
    """Pipelines show that a link's bytes vary by a thousandth; gradients are a hundred times what contexts exchange."""
    rng = np.random.default_rng(2)

    def noisy(ends, step, at_ms, size):
        return flow(ends, step, at_ms, size * (1.0 + 0.001 * rng.normal()))

    flows = [noisy(way, step, 80, 200_000_000) for step in range(STEPS) for way in ("ab", "ba")]
    flows += [noisy(way, step, at, 1_000_000) for step in range(STEPS) for way in ("ab", "ba") for at in (10, 30)]
    flows += [noisy(way, step, 20, 5_000_000) for step in range(STEPS) for way in ("ac", "ca", "bd", "db")]
    transfers, links, _, _ = seen(flows)
    own = np.isin(transfers.pair_src + transfers.pair_dst, [1])
    others = [two for two in zip(links.there.tolist(), links.back.tolist(), strict=True) if not own[two[0]]]
    exchanged = transfers.rows_of(own) & (transfers.bytes < 100_000_000)
    assert not routed(transfers, exchanged, own, others, CLOCK)
    assert not routed(transfers, exchanged, own, [], CLOCK), "single exchanges are even"


def test_steps_of_which_a_collector_lost_records_route_no_tokens():
    flows = [one for number, one in enumerate(records(exchanging=("ab", "cd", "ef"))) if number % 17 or number < 60]
    assert {group.kind for group in found(flows)[1].groups} == {PairKind.CP}


def test_gradients_of_experts_are_reduced_over_one_member_of_each_exchange():
    apart = [flow(way, step, 90, 1_000_000) for step in range(STEPS) for ends in ("ac", "ce", "ea", "bd", "df", "fb")
             for way in (ends,)]  # fmt: skip
    for extra, result in ((apart, True), ([], False)):
        flows = records() + extra
        transfers, links, features, one_way = seen(flows)
        exchanges = find_exchanges(transfers, links, features, one_way, CLOCK)
        every = np.ones(transfers.pair_count, dtype=np.bool_)
        assert reduced_apart(exchanges, transfers, every, features) is result
        assert exchanges.of_experts().kind is PairKind.EP


def test_other_gradients_between_the_same_members_do_not_hide_those_of_experts():
    """Links across the ring join the groups of experts, but carry another amount: those of a tree, say."""
    apart = [flow(way, step, 90, 1_000_000) for step in range(STEPS) for way in ("ac", "ce", "ea", "bd", "df", "fb")]
    across = [flow(way, step, 95, 4_000_000) for step in range(STEPS) for way in ("ad", "cf", "eb")]
    transfers, links, features, one_way = seen(records() + apart + across)
    exchanges = find_exchanges(transfers, links, features, one_way, CLOCK)
    assert len(exchanges.groups) == 3
    every = np.ones(transfers.pair_count, dtype=np.bool_)
    assert reduced_apart(exchanges, transfers, every, features)
