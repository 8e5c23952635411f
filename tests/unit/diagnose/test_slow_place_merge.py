"""One finding per cause, whatever the signs."""

from dataclasses import replace

from llmprism.diagnose.place_signs import CellSign, PlaceSigns, chance_of
from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.diagnose.slow_place_merge import (
    SuspectedPlace,
    as_second,
    comes_and_goes_with,
    one_per_cause,
    without_rings_that_wait,
)
from llmprism.model import Finding, FindingKind, Where, WhereType
from unit.diagnose.evidence_builder import evidence_of, ring_pairs

SECOND = 1_000_000_000
SIGNS = PlaceSigns(CellSign.SLOW, lead=0.9, of_cells=1.0, of_sick=1.0, of_slower=1.0, alone=False, clock=0.9)


def nic(name, start, end, confidence=0.9):
    return Finding(
        FindingKind.SLOW_NIC, "job", Where(WhereType.NIC, name), start * SECOND, end * SECOND, 0.5, confidence, 1.0,
        "summary", (), (),
    )  # fmt: skip


def suspected(name, start, end, confidence=0.9, job="job", sign=CellSign.QUEUED):
    return SuspectedPlace(nic(name, start, end, confidence), replace(SIGNS, sign=sign), frozenset([(job, 0)]))


def broken(*given, **named):
    return suspected(*given, **named, sign=CellSign.BROKEN)


def named(*suspects):
    return one_per_cause(suspects, 100 * SECOND)


def test_of_places_at_one_time_the_likeliest_is_named():
    doubtful, sure = suspected("a", 0, 10, 0.5), broken("b", 2, 8, 0.7)
    assert named(doubtful, sure) == named(sure, doubtful) == [sure.finding]
    assert named(suspected("c", 2, 8, 0.7), sure)[0].where.id == "c", "of equally likely ones the first sign's"


def test_what_is_likely_by_its_own_rates_is_believed_first():
    slow, inferred = suspected("a", 0, 10, 0.6, sign=CellSign.SLOW), suspected("b", 2, 8, 0.8)
    assert named(inferred, slow) == [slow.finding]
    doubtful = suspected("a", 0, 10, 0.4, sign=CellSign.SLOW)
    assert named(inferred, doubtful) == [inferred.finding]


def test_another_time_or_another_job_is_another_cause():
    first, later = suspected("a", 0, 10), broken("b", 9, 20, 0.8)
    assert named(first, later) == [first.finding, later.finding], "a tenth of the time is shared"
    assert named(first, broken("b", 4, 14, 0.8)) == [first.finding], "six tenths are"
    elsewhere = broken("b", 0, 10, 0.8, job="another")
    assert named(first, elsewhere) == [first.finding, elsewhere.finding]


def test_bytes_that_are_sent_again_elsewhere_are_another_cause():
    slow = suspected("a", 0, 10, sign=CellSign.SLOW)
    lost = suspected("b", 0, 10, 0.8, sign=CellSign.RESENT)
    assert named(slow, lost) == [slow.finding], "the same pair passes both"
    lost = replace(lost, pairs=frozenset([("job", 1)]))
    first, second = named(slow, lost)
    assert (first, second.where) == (slow.finding, lost.finding.where)
    assert second.confidence == chance_of(replace(lost.signs, second=True))


def test_two_places_by_one_sign_explain_different_cells_but_the_second_is_less_likely():
    first, second = suspected("a", 0, 10), suspected("b", 0, 10, 0.8)
    assert named(first, second) == [first.finding, second.finding]
    assert as_second(second, [first], 0).finding.confidence == chance_of(replace(second.signs, second=True))
    assert as_second(second, [suspected("a", 0, 10, job="another"), suspected("a", 20, 30)], 0) == second


def test_what_has_not_ended_shares_the_time_until_the_end():
    lasting = replace(suspected("a", 0, 1), finding=replace(nic("a", 0, 1), end_ns=None))
    assert named(lasting, broken("b", 90, 100, 0.5)) == [lasting.finding]


def test_the_same_place_by_another_sign_is_the_same_finding_for_the_time_of_both():
    (found,) = named(suspected("a", 5, 20), broken("a", 0, 10, 0.6))
    assert (found.start_ns, found.end_ns, found.confidence) == (0, 20 * SECOND, 0.9)
    open_end = replace(broken("a", 18, 25, 0.6), finding=replace(nic("a", 18, 25, 0.6), end_ns=None))
    assert [found.end_ns for found in named(suspected("a", 10, 90), open_end)] == [None]


def test_what_comes_and_goes_with_a_place_that_explains_more_is_the_same_cause():
    about = [judge_transfers(evidence_of(ring_pairs("abc")))]  # 20 steps of 1 s
    first = nic("a", 5, 10)
    assert comes_and_goes_with([first], nic("b", 6, 9), about)
    assert not comes_and_goes_with([first], nic("b", 8, 10), about)
    assert not comes_and_goes_with([first], replace(nic("b", 5, 10), end_ns=None), about)
    assert comes_and_goes_with([replace(first, end_ns=None)], replace(nic("b", 5, 10), end_ns=None), about)


def test_what_is_always_slow_does_not_come_and_go_and_neither_do_lanes():
    about = [judge_transfers(evidence_of(ring_pairs("abc")))]
    always = [replace(nic(name, 1, 10), end_ns=None) for name in "ab"]
    assert not comes_and_goes_with(always[:1], always[1], about)
    group, lane = (replace(nic("a", 5, 10), where=Where(WhereType.GROUP, tuple(name))) for name in ("ab", "cd"))
    assert not comes_and_goes_with([group], lane, about)
    assert comes_and_goes_with([group], replace(lane, job="another"), about)


def test_a_group_breaks_messages_up_only_if_it_fits_and_others_are_healthy():
    group = replace(nic("b", 20, 30), where=Where(WhereType.GROUP, ("b", "c")))
    one = SuspectedPlace(group, SIGNS, frozenset([("job", 0)]), healthy=12)
    loose = replace(one, signs=replace(SIGNS, of_sick=0.7))
    card = replace(suspected("b", 20, 30), signs=replace(SIGNS, of_sick=0.2))
    assert without_rings_that_wait([one, card]) == [one, card]
    assert without_rings_that_wait([replace(one, healthy=0)]) == [], "nobody shows that the job does not wait"
    assert without_rings_that_wait([loose]) == [], "a ring that waits looks alike"
