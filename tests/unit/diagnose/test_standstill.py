"""A job that stands still in the middle of a step, as a whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.rules import RULES
from llmprism.diagnose.standstill import DETECTOR, find_standstills
from llmprism.model import Events, FindingKind, Job, Steps, Timeline
from llmprism.model.finding import Where, WhereType
from unit.builders import MS, SECOND, Flow, transfer_table
from unit.diagnose.evidence_builder import STEPS, evidence_of

PERIOD = 2 * SECOND
BURSTS = (200, 400, 1_000, 1_200)
"""Milliseconds after the begin of a step at which all send, for 160 ms."""


def found(silent_steps, after_burst=1, known=(), silent_step=12, times=1.0, clock=1.0, bursts=BURSTS, next_slower=0.0):
    """What is found where a job is silent in its thirteenth step, for so many steps, after a burst; all takes so many
    `times` as long, and the clock is so sure. Each burst of the next step comes so many steps later than usual."""
    flows, ends, shift = [], [], 0
    for step in range(STEPS):
        for burst, at in enumerate(bursts):
            if (step, burst) == (silent_step, after_burst):
                shift = int(silent_steps * PERIOD)
            shift += int(next_slower * PERIOD) if step == silent_step + 1 else 0
            begin = shift + step * PERIOD + at * MS
            flows += [Flow(a, b, begin, begin + 160 * MS, 1_000_000) for a, b in ("ab", "ba")]
        ends.append(shift + (step + 1) * PERIOD)
    flows = [flow._replace(start_ns=int(times * flow.start_ns), end_ns=int(times * flow.end_ns)) for flow in flows]
    end = (times * np.array(ends)).astype(np.int64)
    steps = Steps(np.append(0, end[:-1]), end, np.zeros(STEPS, dtype=np.bool_))
    evidence = evidence_of(["ab", "ba"], duration=np.diff(np.append(0, end)))
    evidence = replace(
        evidence,
        layout=replace(evidence.layout, steps_confidence=clock),
        job=Job("job", (0, 1), (), 1.0, transfer_table(flows)),
        timeline=Timeline(steps, np.tile(end, (2, 1)), Events.empty()),
    )
    return find_standstills(evidence, known)


def test_a_job_that_stands_still_in_the_middle_of_a_step_stalls():
    (finding,) = found(2.0)
    assert finding.kind is FindingKind.STALL
    assert finding.end_ns - finding.start_ns == pytest.approx(2 * PERIOD, rel=0.02)


@pytest.mark.parametrize(("silent_step", "findings"), [(2, 0), (3, 1)])
def test_three_steps_before_it_tell_what_is_usual(silent_step, findings):
    assert len(found(2.0, silent_step=silent_step)) == findings
    assert not DETECTOR.needs_steps


def test_a_silence_of_hardly_more_than_a_step_is_none():
    assert found(1.2) == []


def test_it_is_one_in_a_job_that_is_hardly_ever_silent():
    busy = range(0, 1_999, 200)
    assert len(found(1.2, after_burst=4, bursts=busy)) == 1
    assert found(0.9, after_burst=4, bursts=busy) == []


def test_an_evaluation_between_two_steps_is_none():
    assert found(4.0, after_burst=0) == []


def test_a_server_or_switch_that_is_slow_at_that_time_explains_it():
    (finding,) = found(2.0)
    for kind, place in ((FindingKind.SLOW_STORAGE, WhereType.STORAGE), (FindingKind.SLOW_SWITCH, WhereType.SWITCH)):
        shared = replace(finding, kind=kind, job=None, where=Where(place, "x"))
        assert found(2.0, known=[shared]) == []


@pytest.mark.parametrize(("clock", "sure"), [(0.9, RULES.standstill.sure_standstill), (0.7, 0.7), (0.2, 0.5)])
def test_it_is_as_sure_as_it_is_where_steps_end(clock, sure):
    (finding,) = found(2.0, clock=clock)
    assert finding.confidence == pytest.approx(sure)


@pytest.mark.parametrize(("silent_steps", "findings"), [(2.0, 0), (4.0, 1)])
def test_less_than_a_second_is_clear_after_some_steps(silent_steps, findings):
    assert len(found(silent_steps, times=0.1)) == findings
    assert found(silent_steps, times=0.1, clock=0.4) == [], "the clock does not say where steps end"


def test_one_of_many_silences_of_slower_steps_is_no_stall():
    assert len(found(2.0, next_slower=0.1)) == 1
    assert found(2.0, next_slower=0.6) == []
