"""Pairs that an exporter hides for a while leave the counting to the others; a job that pauses hides nobody."""

import numpy as np

from llmprism.model import StepClock
from llmprism.parallelism.dark_pairs import without_dark_pairs
from unit.builders import MS, Flow, transfer_table

PERIOD_MS = 100


def kept(dark, steps=40, members="abcdef"):
    """Names of the senders that remain; `dark(member, step)` says which messages are missing."""
    flows = [
        Flow(src, members[i - 1], step * PERIOD_MS * MS, (step * PERIOD_MS + 20) * MS, 1_000_000)
        for step in range(steps)
        for i, src in enumerate(members)
        if not dark(src, step)
    ]
    transfers = transfer_table(flows)
    every = np.ones(transfers.pair_count, dtype=np.bool_)
    ticks = np.arange(1, steps + 1, dtype=np.int64) * PERIOD_MS * MS
    steady = without_dark_pairs(transfers, every, StepClock(ticks, np.ones(steps - 1, dtype=np.bool_), 1.0))
    return {transfers.addresses[src] for src in transfers.pair_src[steady]}


def test_a_pair_that_is_dark_for_ten_steps_is_left_out():
    assert kept(lambda src, step: src == "b" and 10 <= step < 20) == set("acdef")


def test_a_pause_of_all_leaves_all():
    assert kept(lambda _src, step: 10 <= step < 20) == set("abcdef")


def test_a_message_lost_now_and_then_is_no_darkness():
    assert kept(lambda src, step: src == "c" and step % 9 == 4) == set("abcdef")


def test_when_most_are_dark_nobody_is_left_out():
    assert kept(lambda src, step: src in "abcd" and 10 <= step < 20) == set("abcdef")


def test_pairs_that_seldom_send_do_not_speak_for_the_others():
    """A stall silences all who train; a dozen pairs that said something once were not seen to be silent."""
    assert kept(lambda src, step: (src in "ab" and 10 <= step < 20) or (src in "cdef" and step > 0)) == set("abcdef")
