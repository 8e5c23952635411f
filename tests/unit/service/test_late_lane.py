"""What late files say of jobs that streams report on is left out."""

from __future__ import annotations

from llmprism.service.late_lane import without_streamed
from llmprism.service.rules import RULES


def test_a_job_of_which_half_is_streamed_is_left_to_the_streams(cluster):
    report = cluster.report(0, 60, [cluster.job(0, 60)], [cluster.finding(8)])
    names = cluster.addresses
    assert without_streamed(report, frozenset(names[:3]), RULES) is report, "three of eight: members come and go"
    left = without_streamed(report, frozenset(names[:5]), RULES)
    assert (left.jobs, left.findings) == ((), ())
