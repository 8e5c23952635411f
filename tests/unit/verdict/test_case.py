from __future__ import annotations

from dataclasses import replace

from llmprism.logs.notable import NotableLine
from llmprism.model.log import CauseClass
from llmprism.model.verdict import Owner
from llmprism.verdict.case import JobCase, owner_of
from llmprism.verdict.log_clock import fit_clock
from report_builders import job_report, report_of
from verdict_builders import SECOND, job_view, rank_view, step_ends

ENDS = step_ends(40)
MEMBERS = ("10.0.0.1",)


def case() -> JobCase:
    report = report_of(job_report("job-a", MEMBERS, ENDS), end_s=10)
    view = job_view([rank_view(0, ENDS)])
    fit = fit_clock(view, report.jobs[0].timeline.steps)
    return JobCase(0, "x", view, report, report.jobs[0], fit, hosts=("a",))


def line(time_ns: int, iteration: int | None) -> NotableLine:
    made = NotableLine("rank0.log", 9, "Error", 1, "root", None, 0, time_ns, None, False, False)
    return replace(made, iteration=iteration)


def test_a_line_is_written_after_the_iteration_before_it_ended() -> None:
    one = case()
    cut = int(ENDS[29]) // SECOND * SECOND
    assert one.line_time(line(cut, 30)) == int(ENDS[29])
    assert one.line_time(line(int(ENDS[29]) + 3 * SECOND, 30)) != int(ENDS[29])
    assert one.line_time(line(0, 30)) == int(ENDS[29])
    assert one.line_time(line(0, None)) is None
    early = one.line_time(line(cut, None))
    assert early is not None
    assert early < int(ENDS[29])


def test_steps_after_a_moment_leave_room_for_the_clock() -> None:
    one = case()
    assert one.steps_after(int(ENDS[-1])) == 0
    assert one.steps_after(int(ENDS[0])) > 20


def test_logs_cover_their_own_time_only() -> None:
    one = case()
    assert one.covers(int(ENDS[10]))
    assert not one.covers(int(ENDS[-1]) + 60 * SECOND)


def test_owners_of_causes() -> None:
    assert owner_of(CauseClass.HARDWARE_GPU) is Owner.OPERATOR
    assert owner_of(CauseClass.USER_DATA) is Owner.JOB_OWNER
    assert owner_of(CauseClass.FRAMEWORK) is Owner.FRAMEWORK
    assert owner_of(CauseClass.UNKNOWN) is Owner.UNKNOWN


def test_a_log_whose_clock_could_not_be_compared_is_less_sure_of_its_time() -> None:
    fitted, last = case(), int(ENDS[-1])
    unfitted = replace(fitted, fit=None)
    assert not fitted.covers(last + 4 * SECOND)
    assert unfitted.covers(last + 4 * SECOND)
    assert not unfitted.covers(last + 20 * SECOND)


def test_iterations_without_times_leave_the_time_open_by_a_minute_at_most() -> None:
    one = case()
    assert one.fit is not None
    untimed = replace(one, fit=replace(one.fit, error_ns=2**62))
    assert untimed.covers(int(ENDS[-1]) + 30 * SECOND)
    assert not untimed.covers(int(ENDS[-1]) + 90 * SECOND)
