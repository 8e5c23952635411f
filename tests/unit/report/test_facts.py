from dataclasses import replace

import numpy as np

from llmprism.model import FindingKind, Layout, Steps
from llmprism.model.layout import LayoutAlternative
from llmprism.report import facts
from support.reports import EXAMPLES, empty_report, report_from_capture, tiny_report


def test_step_times_leave_the_setup_step_out():
    times = facts.step_times(tiny_report().jobs[0].timeline.steps)
    assert (times.count, times.median_ns, times.setup_ns) == (2, 1.5e9, 5 * 10**9)


def test_a_step_lasts_from_the_end_of_the_one_before_to_its_own():
    start, end = np.array([0, 60, 160], np.int64), np.array([50, 150, 250], np.int64)
    seen = Steps(start, end, np.zeros(3, np.bool_))
    assert facts.training_times(seen).tolist() == [100, 100]
    assert facts.step_times(seen).count == 3
    alone = Steps(start[:1], end[:1], np.zeros(1, np.bool_))
    assert facts.training_times(alone).tolist() == [50]


def test_no_steps_give_no_times():
    assert facts.step_times(Steps.empty()) is None


def test_a_lone_setup_step_counts_no_training_step():
    only = Steps(np.array([0], np.int64), np.array([7], np.int64), np.array([True]))
    assert facts.step_times(only).count == 0


def test_degrees_name_only_what_is_known():
    job = tiny_report().jobs[0]
    assert facts.degrees(job) == "dp 2"
    assert facts.degrees(replace(job, layout=replace(job.layout, layout=Layout()))) == "unknown"


def test_alternatives_say_what_differs_how_likely_and_when():
    job = tiny_report().jobs[0]
    said = Layout(tp=2, pp=4, dp=2, micro_batches=8)
    others = (
        LayoutAlternative(replace(said, tp=1, dp=4), 0.21, "if no GPUs are peers"),
        LayoutAlternative(replace(said, micro_batches=16), 0.1, "if a step is twice as long"),
    )
    shown = replace(job, layout=replace(job.layout, layout=said, alternatives=others))
    assert facts.alternative_texts(shown) == [
        "tp 1 x pp 4 x dp 4 (21 %) if no GPUs are peers",
        "16 micro-batches (10 %) if a step is twice as long",
    ]


def test_a_job_that_is_down_comes_before_what_costs_more():
    report = tiny_report()
    slow = replace(report.findings[0], lost_gpu_seconds=1e6)
    crash = replace(report.findings[0], kind=FindingKind.CRASH, lost_gpu_seconds=0.0)
    cheap = replace(report.findings[0], lost_gpu_seconds=1.0)
    ranked = facts.ranked_findings(replace(report, findings=(cheap, slow, crash)))
    assert ranked == (crash, slow, cheap)


def test_a_note_that_a_job_shows_is_not_repeated():
    report = tiny_report()
    assert facts.notes_without_job(replace(report, notes=("10.0.0.1: tp: 10.0.0.1", "else"))) == ("else",)


def test_sick_are_those_that_findings_name():
    assert facts.sick_addresses(report_from_capture(EXAMPLES / "slow_nic")) == {"10.13.0.1"}
    assert facts.sick_addresses(empty_report()) == frozenset()
