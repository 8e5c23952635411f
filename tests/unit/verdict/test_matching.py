from __future__ import annotations

from dataclasses import replace

import pytest

from llmprism.errors import UsageError
from llmprism.verdict.matching import match_logs
from report_builders import job_report, report_of
from verdict_builders import SECOND, START, job_view, rank_view, step_ends

A, B = step_ends(60, seed=1), step_ends(60, seed=2)
FIRST, SECOND_JOB = ("10.0.0.1", "10.0.0.2"), ("10.0.1.1", "10.0.1.2")


def two_jobs():
    return report_of(job_report("job-a", FIRST, A), job_report("job-b", SECOND_JOB, B))


def log_of(ends, **more):
    return job_view([rank_view(rank, ends, **more) for rank in range(2)])


def test_equal_jobs_are_kept_apart_by_how_their_steps_vary() -> None:
    matches = match_logs([(log_of(B), None), (log_of(A), None)], two_jobs())
    assert [match.job for match in matches] == [1, 0]
    assert all(match.confidence > 0.9 for match in matches)
    assert "lengths of" in matches[0].why


def test_addresses_are_believed_before_the_clock() -> None:
    matches = match_logs([(log_of(A, addresses=("10.0.1.1",)), None)], two_jobs())
    assert (matches[0].job, matches[0].confidence > 0.99) == (1, True)


@pytest.mark.parametrize(("ranks", "job"), [(2, 0), (3, None)])
def test_another_pace_counts_against_a_job_of_another_size(ranks: int, job: int | None) -> None:
    """One or the other alone may be: logs count something else than steps, or some ranks have none."""
    other = step_ends(40, seed=3, step_s=0.73, jitter=0.02)
    view = job_view([rank_view(rank, other) for rank in range(ranks)])
    assert match_logs([(view, None)], report_of(job_report("job-a", FIRST, A)))[0].job == job


def test_hosts_count() -> None:
    report = two_jobs()
    jobs = tuple(replace(job, job=replace(job.job, servers=(f"node{n}",))) for n, job in enumerate(report.jobs))
    view = job_view([rank_view(rank, A[:3], node="node1.cluster") for rank in range(2)])
    assert match_logs([(view, None)], replace(report, jobs=jobs))[0].job == 1


def test_logs_of_another_day_belong_to_nobody() -> None:
    strange = log_of(step_ends(60, seed=7) - 30 * 86_400 * SECOND)
    match = match_logs([(strange, None)], two_jobs())[0]
    assert (match.job, match.confidence) == (None, 0.0)


def test_attempts_of_one_job_share_it_and_copies_do_not() -> None:
    report = report_of(job_report("job-a", FIRST, A))
    attempts = [(log_of(A[:25]), None), (log_of(A[30:], first=1), None)]
    assert [match.job for match in match_logs(attempts, report)] == [0, 0]
    copies = [(log_of(A), None), (log_of(A), None)]
    assert [match.job for match in match_logs(copies, report)] == [0, None]


def test_a_given_job_is_taken_and_must_exist() -> None:
    report = two_jobs()
    assert match_logs([(log_of(A), "job-b")], report)[0].job == 1
    assert match_logs([(log_of(A), "b")], report)[0].job == 1
    with pytest.raises(UsageError, match="job-a, job-b"):
        match_logs([(log_of(A), "job-c")], report)


def test_flows_without_jobs_match_nothing() -> None:
    assert START
    assert match_logs([(log_of(A), None)], report_of())[0].job is None
