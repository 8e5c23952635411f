"""Slower steps that nothing explains, and those that something does or that are only ragged."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.rules import RULES
from llmprism.diagnose.unexplained import _by_chance, find_unexplained
from llmprism.model import Evidence, Finding, FindingKind, Where, WhereType
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs, slow_all_along

SECOND = 1_000_000_000


def job(duration):
    return evidence_of(ring_pairs("abcd"), groups=("abcd",), duration=duration)


def test_a_job_that_is_slower_for_a_while_is_said_to_be_just_that():
    evidence = job(during(8, 15, 1.4 * STEP, STEP))
    (finding,) = find_unexplained(evidence, [], {})
    assert (finding.kind, finding.where) == (FindingKind.SLOW_STEP, Where(WhereType.JOB, evidence.job.id))
    steps = evidence.timeline.steps
    assert (finding.start_ns, finding.end_ns) == (steps.start_ns[8], steps.end_ns[14])
    assert finding.severity == pytest.approx(1.0 - 1.0 / 1.4, abs=0.01)
    assert finding.lost_gpu_seconds == pytest.approx(7 * 0.4 * STEP / SECOND * 4, rel=0.01)


@pytest.mark.parametrize(
    "duration",
    [
        during(8, 10, 1.5 * STEP, STEP),
        during(0, 8, 1.4 * STEP, STEP),
        during(2, 9, 1.4 * STEP, STEP),
        during(8, 15, 1.1 * STEP, STEP),
        STEP * np.where(np.arange(STEPS) % 2, 1.0, 1.6),
        STEP * np.random.default_rng(3).uniform(0.7, 1.6, STEPS),
    ],
    ids=["short", "warming up", "after two steps", "hardly", "alternating", "ragged"],
)
def test_short_slight_and_ragged_steps_are_no_news(duration):
    assert find_unexplained(job(duration), [], {}) == []


def test_steps_that_switch_between_two_lengths_are_no_news():
    """Two thirds of the last steps are longer, in runs; a fault that lasts is seldom interrupted."""
    steps = during(8, STEPS, 1.3 * STEP, STEP)
    assert len(find_unexplained(job(steps), [], {})) == 1
    steps[[11, 14, 17]] = STEP
    assert find_unexplained(job(steps), [], {}) == []


def test_what_something_else_explains_is_not_said_again():
    evidence = job(during(8, 15, 1.4 * STEP, STEP))
    begin, end = int(evidence.timeline.steps.start_ns[8]), int(evidence.timeline.steps.end_ns[12])
    other = Finding(
        FindingKind.SLOW_NIC, None, Where(WhereType.NIC, "a"), begin, end, 0.3, 0.9, 1.0, "slow", (Evidence("x", 1.0),)
    )
    assert find_unexplained(evidence, [other], {}) == []
    assert find_unexplained(evidence, [], {"b": [(begin, end)]}) == [], "a member uses a slow server"
    assert len(find_unexplained(evidence, [], {"elsewhere": [(begin, end)]})) == 1


def test_two_steps_that_take_several_times_as_long_are_news_among_a_few_only():
    (finding,) = find_unexplained(job(during(8, 10, 3.0 * STEP, STEP)), [], {})
    assert finding.end_ns - finding.start_ns == 6 * STEP
    rare = RULES.trust.short_share / 2
    rules = replace(RULES, trust=replace(RULES.trust, short_share=6 / 24 + rare))
    assert find_unexplained(job(during(8, 10, 3.0 * STEP, STEP)), [], {}, rules) == []


def test_four_steps_far_beyond_the_jitter_are_news_and_three_are_not():
    ragged = 0.02 * np.random.default_rng(3).normal(size=STEPS) * STEP
    for last, count in ((12, 1), (11, 0)):
        assert len(find_unexplained(job(during(8, last, 1.6 * STEP, STEP) + ragged), [], {})) == count


def test_steps_at_the_ends_that_are_as_long_as_others_now_and_then_do_not_hide_a_stretch():
    duration = during(8, 14, 2.2 * STEP, STEP)
    duration[[2, 7, 14, 17]] = 1.25 * STEP
    (finding,) = find_unexplained(job(duration), [], {})
    assert finding.end_ns - finding.start_ns == pytest.approx(6 * 2.2 * STEP)


def test_two_steps_that_are_slow_all_along_are_news_and_two_that_rest_once_or_one_are_not():
    assert len(find_unexplained(slow_all_along(4, 5), [], {})) == 1
    assert find_unexplained(slow_all_along(elsewhere=(4, 5)), [], {}) == []
    assert find_unexplained(slow_all_along(4), [], {}) == []
    assert find_unexplained(slow_all_along(4, elsewhere=(5,)), [], {}) == [], "one of two"


def test_two_long_steps_are_no_news_where_another_is_as_long():
    assert find_unexplained(slow_all_along(4, 5, elsewhere=(8,)), [], {}) == []


def test_two_steps_of_three_times_the_length_are_news_among_steps_that_vary_by_a_fifth():
    """A low cut alone joins them to the steps around them, of which too many are as short as ever."""
    duration = STEP * np.array([1.0, 1.17, 1.2, 1.0, 1.25, 1.21, 1.04, 1.2, 1.0, 1.19, 1.0] + [1.0, 1.2, 1.05] * 3)
    assert find_unexplained(job(duration), [], {}) == []
    duration[8:10] = 3.0 * STEP
    (finding,) = find_unexplained(job(duration), [], {})
    assert finding.end_ns - finding.start_ns == 6 * STEP


def test_a_stretch_has_a_past_where_few_steps_are_as_short_as_the_shortest():
    duration = STEP * np.array([1.2] * 6 + [3.0] * 4 + [1.0] * 10)
    assert len(find_unexplained(job(duration), [], {})) == 1
    assert find_unexplained(job(np.delete(np.append(duration, STEP), 0)), [], {}) == [], "five before it"
    duration[2] = 3.0 * STEP
    assert find_unexplained(job(duration), [], {}) == [], "another one as long before it: the job is being set up"


def test_three_steps_in_a_row_beyond_a_cut_are_chance_where_a_third_is_and_none_where_no_other_is():
    worth = np.ones(30)
    for others, chance in ((3, True), (30, False)):
        longer = np.arange(30) % others == 0
        longer[[0, 12]] = [others == 3, True]
        longer[12:15] = True
        assert _by_chance(longer, worth, 12, 15, RULES) is chance
    assert _by_chance(np.isin(np.arange(30), (12, 13)), worth, 12, 14, RULES), "two"
    assert not _by_chance(np.isin(np.arange(30), (12, 13)), 6.0 * worth, 12, 14, RULES), "two, slow all along"


def test_a_tenth_of_the_speed_is_news_where_steps_hardly_vary():
    slower = during(8, 15, 1.13 * STEP, STEP)
    assert len(find_unexplained(job(slower), [], {})) == 1
    ragged = 0.04 * STEP * np.where(np.arange(STEPS) % 2, 1.0, -1.0)
    assert find_unexplained(job(slower + ragged), [], {}) == []


def test_a_stretch_with_many_usual_steps_in_it_is_no_stretch():
    duration = during(6, 18, 1.5 * STEP, STEP)
    assert len(find_unexplained(job(duration), [], {})) == 1
    duration[[8, 10, 12, 14]] = 1.12 * STEP
    duration[[2, 3]] = 0.95 * STEP  # steps that vary: a slower one has 1.15 at least
    assert find_unexplained(job(duration), [], {}) == []
    duration[6:18] = np.where(duration[6:18] > 1.2 * STEP, 2.0 * STEP, duration[6:18])
    assert len(find_unexplained(job(duration), [], {})) == 1, "most of its time is slow"
