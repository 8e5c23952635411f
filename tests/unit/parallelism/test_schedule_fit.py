"""Messages at the moments of a schedule, with noise: the schedule and its micro-batches come out."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from llmprism.model import Schedule, StepClock
from llmprism.parallelism import batches, schedule_fit
from llmprism.parallelism.batches import batches_and_schedule
from llmprism.parallelism.features import pair_features
from llmprism.parallelism.rules import RULES
from llmprism.parallelism.schedule_fit import ScheduleFit, _if_folded, fitting_schedule, order_price
from llmprism.parallelism.schedules import PassOrder, gpipe, interleaved, message_times, one_f_one_b, v_shaped
from llmprism.parallelism.stage_links import Pipelines
from unit.builders import MS, Flow, transfer_table

STEPS = 12


def played(order, *, jitter=0.1, backward=2.0, lost=0.0):
    """Transfers, pipelines and clock of two pipelines that follow an order, each message off by some of a pass."""
    random = np.random.default_rng(7)
    times = message_times(order, backward, delay=0.2)
    period = int((max(moments[-1] for moments in times.values()) + 6) * 10 * MS)
    flows = []
    for step in range(STEPS):
        for name in "ab":
            for (here, there), moments in times.items():
                for moment in moments:
                    start = int(step * period + (moment + random.normal(0, jitter)) * 10 * MS)
                    if random.random() >= lost:
                        flows.append(Flow(f"{name}{here}", f"{name}{there}", start, start + MS, 1_000_000))
    transfers = transfer_table(flows)
    number = {name: i for i, name in enumerate(transfers.addresses)}
    stages = max(order.rank_of) + 1
    pipelines = tuple(tuple(number[f"{name}{rank}"] for rank in range(stages)) for name in "ab")
    ticks = np.arange(STEPS + 1, dtype=np.int64) * period
    messages = times[0, 1].size
    return transfers, pipelines, StepClock(ticks, np.ones(STEPS, dtype=np.bool_), 1.0), messages


@pytest.mark.parametrize(
    ("order", "schedule"),
    [
        (one_f_one_b(2, 18), Schedule.ONE_F_ONE_B),
        (one_f_one_b(4, 16), Schedule.ONE_F_ONE_B),
        (gpipe(2, 6), Schedule.GPIPE),
        (gpipe(4, 8), Schedule.GPIPE),
        (interleaved(2, 6, 2), Schedule.INTERLEAVED),
        (interleaved(2, 2, 3), Schedule.INTERLEAVED),
        (interleaved(2, 8, 4), Schedule.INTERLEAVED),
        (v_shaped(4, 8), Schedule.UNKNOWN),
    ],
    ids=lambda value: f"{value.name}-{value.micro_batches}" if isinstance(value, PassOrder) else value.value,
)
@pytest.mark.parametrize("backward", [1.5, 2.0, 2.5])
def test_the_schedule_that_was_played_is_found(order, schedule, backward):
    fit = fitting_schedule(*played(order, backward=backward))
    assert fit is not None
    assert (fit.schedule, fit.micro_batches) == (schedule, order.micro_batches)


def test_moments_without_order_stay_one_micro_batch_per_message():
    transfers, pipelines, clock, messages = played(interleaved(2, 6, 2), jitter=30.0)
    fit = fitting_schedule(transfers, pipelines, clock, messages)
    assert fit is None or fit.micro_batches == messages


def test_steps_with_lost_messages_are_left_out():
    order = interleaved(2, 6, 2)
    fit = fitting_schedule(*played(order, lost=0.01))
    assert fit is not None
    assert fit.micro_batches == 6


def test_nothing_is_said_of_one_message_or_of_pipelines_that_are_not_seen():
    transfers, pipelines, clock, _ = played(one_f_one_b(2, 4))
    assert fitting_schedule(transfers, pipelines, clock, 1) is None
    assert fitting_schedule(transfers, (), clock, 4) is None
    assert fitting_schedule(transfers, ((0, 0),), clock, 4) is None


@pytest.mark.parametrize(
    ("order", "number", "folded"), [(interleaved(4, 8, 2), 8, True), (one_f_one_b(4, 16), 8, False)]
)
def test_moments_tell_interleaved_stages_from_something_else_between_first_and_last(order, number, folded):
    transfers, pipelines, clock, messages = played(order)
    assert messages == 16
    seen = ScheduleFit(Schedule.INTERLEAVED, number, played=False)
    assert (_if_folded(transfers, pipelines, clock, messages, seen, RULES) is not None) is folded


@pytest.mark.parametrize("order", [gpipe(2, 16), interleaved(2, 6, 2), one_f_one_b(4, 8)])
@pytest.mark.parametrize("early", [0.3, 0.7])
def test_a_clock_that_ticks_among_the_passes_hides_no_schedule(order, early):
    transfers, pipelines, clock, messages = played(order)
    moved = StepClock(clock.boundary_ns - int(early * clock.period_ns), clock.regular, 1.0)
    found = fitting_schedule(transfers, pipelines, moved, messages)
    assert found is not None
    assert (found.micro_batches, found.misfit < 0.3) == (order.micro_batches, True)


def test_messages_that_a_collector_joined_start_at_their_share_of_the_row():
    transfers, pipelines, clock, messages = played(gpipe(2, 16), jitter=0.0)
    joined = []
    for pair in range(transfers.pair_count):
        ends = tuple(transfers.addresses[end[pair]] for end in (transfers.pair_src, transfers.pair_dst))
        rows = np.arange(transfers.pair_offsets[pair], transfers.pair_offsets[pair + 1])
        forward = ends[0] < ends[1]
        parts = np.split(rows, np.arange(8, rows.size, 8)) if forward else np.split(rows, rows.size)
        joined += [
            Flow(*ends, int(transfers.start_ns[own[0]]), int(transfers.end_ns[own[-1]]), 10**6 * own.size)
            for own in parts
        ]
    found = fitting_schedule(transfer_table(joined), pipelines, clock, messages)
    assert found is not None
    assert found.misfit < 0.3


def with_counts(monkeypatch, counts, messages=None, *, by_bytes=False):
    """Micro-batches and schedule of two interleaved stages, or of what is given, where silences tell these numbers, and
    bytes (or not) what they do."""
    transfers, pipelines, clock, _ = messages or played(interleaved(2, 12, 2))
    number = {ends: i for i, ends in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))}
    forward = [(number[first, second], number[second, first]) for first, second in pipelines]
    monkeypatch.setattr(batches, "message_counts", lambda *_: iter(counts))
    if not by_bytes:
        monkeypatch.setattr(batches, "likely_messages", lambda *_, ring: [])
    pipes = Pipelines(pipelines, forward, forward, [], rings=False)
    found = batches_and_schedule(transfers, pipes, pair_features(transfers, clock, RULES), clock)
    return found.micro_batches, found.schedule, round(found.misfit, 1)


def test_numbers_of_messages_that_no_schedule_explains_give_way_to_one_that_does(monkeypatch):
    assert with_counts(monkeypatch, [35, 31, 36]) == (12, Schedule.INTERLEAVED, 0.1)


def test_pieces_of_messages_give_way_to_messages_that_a_schedule_explains_better(monkeypatch):
    """Each message is sent in two pieces, half a pass apart."""
    transfers, pipelines, clock, messages = played(one_f_one_b(2, 12), jitter=0.02)
    pieces = [
        Flow(*(transfers.addresses[end] for end in ends), int(start) + late, int(start) + late + MS, 500_000)
        for ends, first, after in zip(
            zip(transfers.pair_src, transfers.pair_dst, strict=True),
            transfers.pair_offsets[:-1], transfers.pair_offsets[1:], strict=True,
        )
        for start in transfers.start_ns[first:after]
        for late in (0, 2 * MS)
    ]  # fmt: skip
    assert with_counts(monkeypatch, [24, 12], (transfer_table(pieces), pipelines, clock, 24))[0] == messages == 12


def test_messages_at_moments_that_no_schedule_explains_are_not_counted(monkeypatch):
    """In bunches that are far apart, the two directions in turn."""
    flows = [
        Flow(*ends, start, start + MS // 2, 1_000_000)
        for step in range(STEPS) for k in range(36) for ends, first in (("ab", 0), ("ba", 500))
        for start in [(step * 8000 + k // 12 * 1000 * (k // 12 + 1) + first + k % 12) * MS]
    ]  # fmt: skip
    ticks = np.arange(STEPS + 1, dtype=np.int64) * 8000 * MS - 100 * MS
    clock = StepClock(ticks, np.ones(STEPS, dtype=np.bool_), 1.0)
    messages = transfer_table(flows), ((0, 1),), clock, 36
    assert with_counts(monkeypatch, [36], messages) == (None, Schedule.UNKNOWN, 2.9)


def test_where_nothing_is_counted_nothing_is_said(monkeypatch):
    assert with_counts(monkeypatch, []) == (None, Schedule.UNKNOWN, 0.0)


@pytest.mark.parametrize("counts", [[], [35]])
def test_where_silences_tell_nothing_the_bytes_of_bursts_do(monkeypatch, counts):
    assert with_counts(monkeypatch, counts, by_bytes=True) == (12, Schedule.INTERLEAVED, 0.1)


@pytest.mark.parametrize(
    ("fit", "bits"),
    [
        (ScheduleFit(Schedule.GPIPE, 8, RULES.stages.schedule_chance - np.log(2.0)), 16.0),
        (ScheduleFit(Schedule.GPIPE, 8, RULES.stages.schedule_chance + np.log(2.0)), -16.0),
        (ScheduleFit(Schedule.GPIPE, 8, played=False), 0.0),
        (ScheduleFit(Schedule.UNKNOWN, None), 0.0),
    ],
)
def test_a_schedule_explains_more_the_more_messages_pass_when_it_has_them_pass(fit, bits):
    assert fit.bits_over_chance() == pytest.approx(bits)


@pytest.mark.parametrize(("share", "batches"), [(0.75, 8), (1.5, None)])
def test_virtual_stages_stay_open_where_the_closing_link_carries_more_and_nothing_can_be_played(
    monkeypatch, share, batches
):
    """Four virtual stages on each rank, or something else besides on the link from the last stage to the first."""
    monkeypatch.setattr(schedule_fit, "_closing_share", lambda *_: share)
    monkeypatch.setattr(schedule_fit, "fitting_schedule", lambda *_: None)
    transfers, pipelines, clock, _ = played(one_f_one_b(4, 4))
    pipes = Pipelines(pipelines, [(0, 1)], [(0, 1)], [(0, 1)], rings=True)
    fit = schedule_fit.fit_of_messages(transfers, pipes, pair_features(transfers, clock), clock, 32, RULES)
    assert fit.micro_batches == batches


@pytest.mark.parametrize("order", [one_f_one_b(4, 2), one_f_one_b(8, 4), gpipe(3, 8), interleaved(4, 8, 2)])
def test_pipelines_that_a_schedule_explains_the_other_way_round_are_turned(order):
    transfers, pipelines, clock, _ = played(order)
    features = pair_features(transfers, clock, RULES)
    number = {ends: i for i, ends in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))}

    def found(members, clear=0.2):
        links = [(number[a, b], number[b, a]) for path in members for a, b in pairwise(path)]
        pipes = Pipelines(members, links, links[-1:], [], rings=False, clear=clear)
        return batches_and_schedule(transfers, pipes, features, clock)

    assert found(pipelines).turned == 0.0
    backwards = found(tuple(path[::-1] for path in pipelines))
    assert (backwards.turned > 0.5, backwards.micro_batches) == (True, order.micro_batches)
    assert found(tuple(path[::-1] for path in pipelines), clear=1.0).turned == 0.0  # rests are surer


def test_stages_whose_ends_send_each_other_nothing_are_not_interleaved(monkeypatch):
    """Their moments are those of interleaved stages, but the link from the last stage to the first is missing."""
    transfers, pipelines, clock, messages = played(interleaved(4, 8, 2))
    features = pair_features(transfers, clock, RULES)
    number = {ends: i for i, ends in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))}
    links = [(number[a, b], number[b, a]) for path in pipelines for a, b in pairwise(path)]
    pipes = Pipelines(pipelines, links, links[-1:], [], rings=False)
    seen = (transfers, pipes, features, clock, messages, RULES)
    assert schedule_fit.fit_of_messages(*seen).micro_batches == 8
    monkeypatch.setattr(schedule_fit, "_may_be_folded", lambda *_: False)
    assert schedule_fit.fit_of_messages(*seen).micro_batches == 16


def test_interleaved_stages_show_without_their_closing_link():
    """Tied embeddings a thousand times as large hide it."""
    fit = fitting_schedule(*played(interleaved(4, 8, 4)), folded=True)
    assert fit is not None
    assert (fit.schedule, fit.micro_batches) == (Schedule.INTERLEAVED, 8)


def closed_to_rings(transfers, pipelines):
    """Pipelines whose last stages send to the first ones, too."""
    number = {ends: i for i, ends in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))}
    links = [(number[a, b], number[b, a]) for path in pipelines for a, b in pairwise(path)]
    closing = [(number[path[-1], path[0]], number[path[0], path[-1]]) for path in pipelines]
    return Pipelines(pipelines, links, links[-1:], closing, rings=True)


@pytest.mark.parametrize("counts", [[16], [32, 16]])
def test_pieces_of_messages_of_interleaved_stages_are_no_messages(monkeypatch, counts):
    """Two chunks on each of four stages, by the bytes of the closing link."""
    transfers, pipelines, clock, _ = played(interleaved(4, 8, 2))
    monkeypatch.setattr(batches, "message_counts", lambda *_: iter(counts))
    pipes = closed_to_rings(transfers, pipelines)
    found = batches_and_schedule(transfers, pipes, pair_features(transfers, clock, RULES), clock)
    assert (found.schedule, found.micro_batches, found.misfit < 0.3) == (Schedule.INTERLEAVED, 8, True)


def test_where_moments_are_hopeless_the_closing_link_alone_says_how_many_micro_batches(monkeypatch):
    transfers, pipelines, clock, _ = played(interleaved(4, 8, 2), jitter=4.0)
    monkeypatch.setattr(batches, "message_counts", lambda *_: iter([16]))
    monkeypatch.setattr(batches, "likely_messages", lambda *_, ring: [])
    strict = replace(RULES, stages=replace(RULES.stages, schedule_hopeless=0.5))
    pipes = closed_to_rings(transfers, pipelines)
    found = batches_and_schedule(transfers, pipes, pair_features(transfers, clock, RULES), clock, strict)
    assert (found.schedule, found.micro_batches, found.misfit > 0.5) == (Schedule.INTERLEAVED, 8, True)


@pytest.mark.parametrize(("count", "said"), [(63, 64), (32, 32)])
def test_where_no_moments_can_be_compared_bytes_decide_about_a_number_that_nobody_sets(monkeypatch, count, said):
    transfers, pipelines, clock, _ = played(one_f_one_b(4, 8))
    monkeypatch.setattr(schedule_fit, "fitting_schedule", lambda *_, **__: None)
    monkeypatch.setattr(batches, "message_counts", lambda *_: iter([count, count + 1]))
    monkeypatch.setattr(batches, "likely_messages", lambda *_, ring: [(64, 0.0), (63, -5.0)])
    number = {ends: i for i, ends in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))}
    links = [(number[a, b], number[b, a]) for path in pipelines for a, b in pairwise(path)]
    pipes = Pipelines(pipelines, links, links[-1:], [], rings=False)
    found = batches_and_schedule(transfers, pipes, pair_features(transfers, clock, RULES), clock)
    assert (found.micro_batches, found.played) == (said, False)


def test_few_messages_at_random_moments_are_nearer_to_a_schedule_than_many():
    """Chance is half of the root of the number away, and no nearer than rules say for two."""
    few, some, many = (schedule_fit.chance_of(messages) for messages in (2, 18, 72))
    assert (few, some) == (RULES.stages.few_random, RULES.stages.schedule_random)
    assert many - some == pytest.approx(np.log(2.0))
    fits = [ScheduleFit(Schedule.UNKNOWN, count, some, messages=count) for count in (2, 18, 72)]
    assert fits[0].over_chance() > fits[1].over_chance() == 1.0 > fits[2].over_chance()
    assert ScheduleFit(Schedule.UNKNOWN, 2, 5.0, played=False, messages=2).over_chance() == 0.0


def test_few_messages_that_are_no_nearer_than_chance_give_way_to_many_that_a_schedule_explains(monkeypatch):
    """64 messages each way, two passes from their places; three would be half a nat from theirs."""
    transfers, pipelines, clock, _ = played(gpipe(3, 64), jitter=2.0)
    number = {ends: i for i, ends in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))}
    links = [(number[a, b], number[b, a]) for path in pipelines for a, b in pairwise(path)]
    pipes = Pipelines(pipelines, links, links[-1:], [], rings=False)
    monkeypatch.setattr(batches, "message_counts", lambda *_: iter([3, 64]))
    found = batches_and_schedule(transfers, pipes, pair_features(transfers, clock, RULES), clock)
    assert (found.micro_batches, found.schedule, found.over_chance() < 0.3) == (64, Schedule.GPIPE, True)


def test_numbers_that_nobody_sets_are_dearer_than_chunks():
    unusual = RULES.stages.unusual_order
    assert order_price(one_f_one_b(2, 32), 2) == 0.0
    assert order_price(interleaved(2, 64, 4), 2) + unusual < order_price(one_f_one_b(2, 448), 2)
    assert order_price(interleaved(4, 12, 2), 4) > order_price(interleaved(4, 16, 2), 4) > 0.0
