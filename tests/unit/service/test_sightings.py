"""When two views of a job are views of one finding."""

from __future__ import annotations

from dataclasses import replace

from llmprism.model.finding import Finding, FindingKind, Where, WhereType
from llmprism.service.sightings import fits
from llmprism.units import SECOND


def slow_group(members: str, start_s: int = 10) -> Finding:
    where = Where(WhereType.GROUP, tuple(members))
    return Finding(FindingKind.SLOW_GROUP, "job-1", where, start_s * SECOND, None, 0.5, 0.5, 0.0, "slow")


def test_groups_are_one_place_where_most_of_their_members_are_the_same():
    assert fits(slow_group("abcd"), slow_group("abce")), "three of five"
    assert not fits(slow_group("abcd"), slow_group("aefg"))
    assert not fits(slow_group("abcd"), slow_group("efgh"))


def test_a_place_of_another_kind_or_another_job_is_another_finding():
    one = slow_group("abcd")
    assert not fits(one, replace(one, kind=FindingKind.SLOW_NIC))
    assert not fits(one, replace(one, job="job-2"))
    assert not fits(one, replace(one, where=Where(WhereType.NIC, "a")))


def test_what_ended_long_before_is_another_finding():
    ended = replace(slow_group("abcd"), end_ns=20 * SECOND)
    assert fits(ended, slow_group("abcd", 25))
    assert not fits(ended, slow_group("abcd", 60))


def test_a_slowdown_whose_cause_shows_later_keeps_its_identity():
    card = replace(slow_group("ab", 12), kind=FindingKind.SLOW_NIC, where=Where(WhereType.NIC, "a"))
    unexplained = replace(card, kind=FindingKind.SLOW_STEP, where=Where(WhereType.JOB, "job-1"), start_ns=10 * SECOND)
    assert fits(unexplained, card)
    assert not fits(card, unexplained), "what is known is not forgotten"
    assert not fits(unexplained, replace(card, start_ns=60 * SECOND)), "another one, within a slowdown that goes on"
    assert not fits(unexplained, replace(card, job="job-2"))
