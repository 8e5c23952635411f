"""What is a stall in a job that is even is none in one whose steps wait all the time."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose import stalls
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.stalls import _sent_to_as_late, _who_paused, beyond_jitter, many_as_late
from unit.diagnose.evidence_builder import STEP, STEPS, evidence_of, ring_pairs


def longest_is_news(waits):
    duration = np.full(STEPS, float(STEP))
    duration[::5] += waits * STEP
    duration[7] = 8.0 * STEP
    return bool(beyond_jitter(evidence_of(ring_pairs("abc"), duration=duration))[7])


def test_one_long_step_among_even_ones_stands_out():
    assert longest_is_news(0.0)
    assert longest_is_news(1.0)


def test_one_among_steps_that_often_wait_does_not():
    assert not longest_is_news(3.0)


def named(paused_late):
    """Who is said to have stood still in step 7, of three of which c is the latest and a pauses alone."""
    duration = np.full(STEPS, float(STEP))
    duration[7] = 8.0 * STEP
    evidence = evidence_of(ring_pairs("abc"), duration=duration)
    lateness = np.zeros((3, STEPS))
    lateness[:, 7] = np.array([paused_late, 0.0, 7.0]) * STEP
    paused = np.array([6.5, 0.0, 0.2]) * STEP
    return "abc"[_who_paused(replace(evidence, lateness_ns=lateness), paused, 2, 7, RULES)]


def test_who_pauses_and_is_as_late_as_the_latest_stood_still():
    assert named(6.9) == "a"


def test_who_pauses_and_is_on_time_only_waits_for_what_it_pushed_to_be_taken():
    assert named(0.1) == "c"


def test_what_many_others_are_as_late_by_is_nobodys():
    evidence = evidence_of(ring_pairs("abcdefgh"))
    late = np.where(np.arange(8) == 2, 600.0, 0.0)
    assert not many_as_late(evidence, 2, late)
    late[[5, 7]] = 500.0
    assert many_as_late(evidence, 2, late)


@pytest.mark.parametrize(
    ("sent_to_late", "agreed", "all_stood"), [(7.0, False, True), (0.5, False, False), (7.0, True, False)]
)
def test_one_that_is_sent_to_as_late_did_not_stand_still_alone_where_messages_are_pushed(
    monkeypatch, sent_to_late, agreed, all_stood
):
    evidence = evidence_of(ring_pairs("abcd"), groups=("abcd",))
    lateness, got = np.zeros((4, STEPS)), np.zeros((4, STEPS))
    lateness[2, 7], got[2, 7] = 7.0 * STEP, sent_to_late * STEP
    monkeypatch.setattr(stalls, "first_of_members", lambda *_: got)
    monkeypatch.setattr(stalls, "agrees_on_messages", lambda *_: agreed)
    assert _sent_to_as_late(replace(evidence, lateness_ns=lateness), 2, 7, RULES) is all_stood
