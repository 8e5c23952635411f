"""A step that is slow all along, one that stands still once, and one that is two."""

from dataclasses import replace
from string import ascii_letters

import numpy as np
import pytest

from llmprism.diagnose.rules import RULES
from llmprism.diagnose.throughout import slow_throughout, stand_out
from llmprism.diagnose.unexplained import find_unexplained
from unit.builders import MS, Flow, transfer_table
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs, slow_all_along, with_transfers

MESSAGES = 20
LONG = 12


def moments(kind: str, step: int) -> np.ndarray:
    """When the messages of a step are sent, as shares of a usual step."""
    even = np.arange(MESSAGES) / MESSAGES
    if step != LONG:
        return even
    if kind == "all along":
        return 3.0 * even
    if kind == "stands still":
        return even + np.where(even < 0.5, 0.0, 2.0)
    if kind == "waits":
        return even + np.where(even < 0.6, 0.0, 2.0)
    return np.concatenate([even, even + 1.0, even + 2.0])  # the clock lost two ends


def job(kind: str):
    evidence = evidence_of(ring_pairs("ab"), groups=("ab",), duration=during(LONG, LONG + 1, 3.0 * STEP, STEP))
    flows = [
        Flow(a, b, start, start + 2 * MS, 1_000_000)
        for step in range(STEPS)
        for at in moments(kind, step)
        for start in [int(evidence.timeline.steps.start_ns[step] + at * STEP)]
        for a, b in ("ab", "ba")
    ]
    return with_transfers(evidence, transfer_table(flows))


@pytest.mark.parametrize(("kind", "slow"), [("all along", True), ("stands still", False), ("three steps", False)])
def test_only_what_is_slow_from_one_message_to_the_next_is_slow_all_along(kind, slow):
    evidence = job(kind)
    usual = evidence.duration_ns < 1.1 * STEP
    found = slow_throughout(evidence, evidence.counted, usual, RULES.members.long_step)
    assert np.flatnonzero(found).tolist() == ([LONG] if slow else [])
    assert not slow_throughout(evidence, usual, usual, RULES.members.long_step).any()


def test_one_member_whose_own_messages_are_slow_all_along_is_enough_where_that_is_looked_for():
    """Of many pipelines one is slow: the others run ahead and wait, and the job stands still at one point."""
    members = ascii_letters
    pairs = ring_pairs(members)
    evidence = evidence_of(pairs, groups=(members,), duration=during(LONG, LONG + 1, 3.0 * STEP, STEP))
    flows = [
        Flow(pair[0], pair[1], start, start + 2 * MS, 1_000_000)
        for step in range(STEPS)
        for pair in pairs
        for at in moments("all along" if pair == "ab" else "waits", step)
        for start in [int(evidence.timeline.steps.start_ns[step] + at * STEP)]
    ]
    evidence = with_transfers(evidence, transfer_table(flows))
    usual = evidence.duration_ns < 1.1 * STEP
    for one_member, found in ((True, [LONG]), (False, [])):
        slow = slow_throughout(evidence, evidence.counted, usual, 2.0, one_member=one_member)
        assert np.flatnonzero(slow).tolist() == found
    still = job("stands still")
    assert not slow_throughout(still, still.counted, usual, 2.0, one_member=True).any()


def test_the_passes_of_a_pipeline_are_slow_all_along_although_they_hold_few_bytes():
    evidence = job("all along")
    transfers = evidence.job.transfers
    last = np.isin(np.arange(transfers.bytes.size) % (STEPS * MESSAGES) % MESSAGES, MESSAGES - 1)
    heavy = replace(transfers, bytes=np.where(last, 1_000 * transfers.bytes, transfers.bytes))
    evidence = replace(evidence, job=replace(evidence.job, transfers=heavy))
    usual = evidence.duration_ns < 1.1 * STEP
    assert np.flatnonzero(slow_throughout(evidence, evidence.counted, usual, 2.0)).tolist() == [LONG]


def test_one_step_that_is_slow_all_along_is_news_where_it_takes_much_of_what_was_seen():
    last = slice(8, STEPS - 1)  # eleven steps of which one takes three
    for kind, count in (("all along", 1), ("stands still", 0), ("three steps", 0)):
        evidence = job(kind)
        counted = np.zeros(STEPS, dtype=np.bool_)
        counted[last] = True
        steps = evidence.timeline.steps
        seen = replace(steps, start_ns=steps.start_ns[last], end_ns=steps.end_ns[last], setup=steps.setup[last])
        part = replace(
            evidence,
            timeline=replace(evidence.timeline, steps=seen, member_end_ns=evidence.timeline.member_end_ns[:, last]),
            duration_ns=evidence.duration_ns[last],
            counted=counted[last],
            lateness_ns=evidence.lateness_ns[:, last],
        )
        assert len(find_unexplained(part, [], {})) == count, kind


def test_two_in_a_row_stand_out_or_one_of_twice_the_length():
    for long, times, count in (((4, 5), 1.4, 2), ((4,), 1.4, 0), ((4, 6), 1.4, 0), ((4,), 2.2, 1), ((4, 5), 1.12, 0)):
        evidence = slow_all_along(*long, times=times)
        assert stand_out(evidence, evidence.counted).sum() == count, (long, times)
    rest = slow_all_along(elsewhere=(4, 5))
    assert not stand_out(rest, rest.counted).any()
