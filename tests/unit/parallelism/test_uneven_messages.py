"""Two members that exchange 2 MB every 10 ms, gradients of 500 MB every 100 ms between them."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.uneven_messages import both_ways, take_turns, uneven_messages, unevenness
from unit.builders import MS, Flow, transfer_table

EXCHANGES = 60


def sent(way, at_ms, size, length_ms=1.0):
    return Flow(way[0], way[1], int(at_ms * MS), int((at_ms + length_ms) * MS), int(size))


def exchanged(skew, miscounted=0.0, *, late_ms=0.0, seed=1):
    """Each way of each exchange is off by as much as tokens are skewed and counters wrong; one end is late."""
    rng = np.random.default_rng(seed)
    flows = []
    for number in range(EXCHANGES):
        for way in ("ab", "ba"):
            size = 2e6 * (1 + skew * rng.uniform(-1, 1)) * (1 + miscounted * rng.uniform(-1, 1))
            flows.append(sent(way, 10 * number + (late_ms if way == "ba" else 0.0), size))
    return flows


def gradients(miscounted, seed=2):
    rng = np.random.default_rng(seed)
    return [sent(way, 10 * number + 4, 5e8 * (1 + miscounted * rng.uniform(-1, 1)))
            for number in range(0, EXCHANGES, 10) for way in ("ab", "ba")]  # fmt: skip


def steps():
    """A step holds ten exchanges."""
    ticks = np.arange(EXCHANGES // 10 + 1, dtype=np.int64) * 100 * MS - MS
    return StepClock(ticks, np.ones(EXCHANGES // 10, dtype=np.bool_), 1.0)


def judged(flows, others=()):
    transfers = transfer_table(flows)
    marked = transfers.bytes < 1e8
    links = both_ways(transfers, np.ones(transfers.pair_count, dtype=np.bool_))
    names = [transfers.addresses[transfers.pair_src[one]] for one, _ in links]
    own = [link for link, name in zip(links, names, strict=True) if name in "ab"]
    return uneven_messages(
        transfers, marked, own, [link for link in links if link not in own] if others else [], steps()
    )


def test_tokens_are_uneven_and_contexts_are_not():
    assert judged(exchanged(skew=0.3)) is True
    assert judged(exchanged(skew=0.0)) is False


def test_gradients_that_are_miscounted_by_more_than_all_tokens_do_not_matter():
    assert judged(exchanged(skew=0.3) + gradients(miscounted=0.03)) is True
    assert judged(exchanged(skew=0.0) + gradients(miscounted=0.03)) is False


def test_an_end_that_is_late_does_not_cut_an_exchange_in_two():
    assert judged(exchanged(skew=0.0, late_ms=1.5)) is False
    assert judged(exchanged(skew=0.3, late_ms=1.5)) is True


def test_what_is_a_little_uneven_is_left_open_unless_other_links_are_miscounted_too():
    flows = exchanged(skew=0.0, miscounted=0.03)
    assert judged(flows) is None
    renamed = {"a": "c", "b": "d"}
    others = [flow._replace(src=renamed[flow.src], dst=renamed[flow.dst]) for flow in exchanged(0.0, 0.01, seed=3)]
    assert judged(flows + others, others=others) is False


def test_exchanges_of_which_some_lost_a_record_are_even():
    flows = exchanged(skew=0.0)
    lost = [flow._replace(bytes=flow.bytes // 2) if number % 6 == 0 else flow for number, flow in enumerate(flows)]
    assert judged(lost) is False


def test_a_constant_ratio_of_the_two_ways_is_even():
    flows = [sent(way, 10 * k, 2e6 if way == "ab" else 1e6) for k in range(EXCHANGES) for way in ("ab", "ba")]
    assert judged(flows) is False


def test_a_few_exchanges_say_nothing():
    transfers = transfer_table(exchanged(skew=0.3)[:20])
    assert unevenness(transfers, np.ones(transfers.start_ns.size, dtype=np.bool_), [(0, 1)]) is None


@pytest.mark.parametrize(("apart_ms", "turns"), [(0.0, False), (0.3, False), (5.0, True)])
def test_stages_take_turns_and_members_of_a_collective_do_not(apart_ms, turns):
    flows = [sent(way, 10 * k + (apart_ms if way == "ba" else 0.0), 2e6) for k in range(EXCHANGES)
             for way in ("ab", "ba")]  # fmt: skip
    transfers = transfer_table(flows)
    assert take_turns(transfers, np.ones(2, dtype=np.bool_)) is turns


def in_turn(size, packets_of, seed=3):
    """Activations of one size between two others, and their gradients in turn, some packets of each seen."""
    rng = np.random.default_rng(seed)
    return [sent(way, 10 * number + late, packets_of(rng, size))
            for number in range(EXCHANGES) for way, late in (("cd", 2), ("dc", 7))]  # fmt: skip


def packets(rng, size, each=2e5):
    """Bytes by the packets that were sampled, each of which stands for so many bytes."""
    return max(rng.poisson(size / each), 1) * each


def test_samples_of_a_collector_are_not_tokens_where_activations_are_miscounted_as_far():
    """A message of ten sampled packets is off by a third, one of forty by a sixth, and both for the same reason."""
    rng = np.random.default_rng(4)
    flows = [sent(way, 10 * number, packets(rng, 2e6)) for number in range(EXCHANGES) for way in ("ab", "ba")]
    assert judged(flows) is True
    assert judged(flows + in_turn(8e6, packets), others="cd") is not True
    tokens = exchanged(skew=0.5)
    assert judged(tokens + in_turn(8e6, lambda _, size: size), others="cd") is True
    assert judged(tokens + in_turn(8e6, lambda rng, size: packets(rng, size, 1e4)), others="cd") is True


def test_messages_of_many_lengths_do_not_hide_tokens():
    """What a micro-batch hands on comes back in the same length."""
    lengths = iter(np.repeat(np.random.default_rng(5).uniform(4e6, 12e6, EXCHANGES), 2))
    assert judged(exchanged(skew=0.3) + in_turn(8e6, lambda *_: next(lengths)), others="cd") is True


def test_exchanges_that_are_a_little_uneven_are_contexts_where_activations_are_miscounted_as_far():
    def counted(rng, size):
        return size * (1 + 0.03 * rng.uniform(-1, 1))

    flows = exchanged(skew=0.0, miscounted=0.03)
    assert judged(flows + in_turn(2e6, lambda _, size: size), others="cd") is None
    assert judged(flows + in_turn(2e6, counted), others="cd") is False
