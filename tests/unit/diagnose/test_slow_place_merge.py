"""One finding per cause, whatever the signs."""

from dataclasses import replace

from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.diagnose.slow_place_merge import (
    FittingPlace,
    best_fitting,
    comes_and_goes_with,
    findings_of,
    unless_doubtful,
    with_broken_up,
    with_held_back,
    with_lagging,
    without_rings_that_wait,
)
from llmprism.model import Alternative, Finding, FindingKind, Where, WhereType
from unit.diagnose.evidence_builder import evidence_of, ring_pairs

SECOND = 1_000_000_000


def nic(name, start, end, confidence=0.9, rival=None):
    others = (Alternative(FindingKind.SLOW_NIC, Where(WhereType.NIC, rival), 0.4),) if rival else ()
    return Finding(
        FindingKind.SLOW_NIC, "job", Where(WhereType.NIC, name), start * SECOND, end * SECOND, 0.5, confidence, 1.0,
        "summary", (), others,
    )  # fmt: skip


def merged(slow, held):
    return with_held_back(slow, held, step_ns=0.5 * SECOND)


def test_what_is_held_back_is_reported_where_nothing_is_slow():
    slow, held = nic("a", 0, 10), nic("b", 20, 30)
    assert merged([slow], [held]) == [slow, held]


def test_it_decides_between_a_doubtful_place_and_its_rival():
    held = nic("b", 2, 8)
    assert merged([nic("a", 0, 10, confidence=0.4, rival="b")], [held]) == [held]


def test_it_says_nothing_against_a_place_that_is_sure_or_that_has_another_rival():
    sure, doubtful = nic("a", 0, 10, rival="b"), nic("a", 0, 10, confidence=0.4, rival="c")
    assert merged([sure], [nic("b", 2, 8)]) == [sure]
    assert merged([doubtful], [nic("b", 2, 8)]) == [doubtful]


def test_the_same_place_right_before_is_the_same_finding():
    slow = nic("a", 10, 20)
    assert merged([slow], [nic("a", 5, 10)]) == [replace(slow, start_ns=5 * SECOND)]
    assert merged([slow], [replace(nic("a", 18, 25), end_ns=None)]) == [replace(slow, end_ns=None)]


def test_of_several_at_one_time_the_first_is_kept_and_groups_never():
    group = replace(nic("a", 0, 10), kind=FindingKind.SLOW_GROUP, where=Where(WhereType.GROUP, ("a", "b")))
    best, next_best = nic("c", 0, 10), nic("d", 0, 10)
    assert merged([], [group, best, next_best]) == [best]


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


def test_a_place_lags_behind_only_where_nothing_else_is_found_and_never_a_card():
    switch = replace(nic("s", 10, 20), kind=FindingKind.SLOW_SWITCH, where=Where(WhereType.SWITCH, "s"))
    assert with_lagging([], [switch], SECOND) == [switch]
    assert with_lagging([nic("a", 0, 9)], [switch], SECOND) == [nic("a", 0, 9)]
    assert with_lagging([], [nic("a", 10, 20)], SECOND) == []
    assert with_lagging([], [switch, replace(switch, where=Where(WhereType.SWITCH, "t"))], SECOND) == []


def test_a_place_breaks_messages_up_only_where_nothing_else_is_found():
    slow = nic("a", 0, 10)
    assert with_broken_up([slow], [nic("b", 5, 15)], 0.5 * SECOND) == [slow]
    assert with_broken_up([slow], [nic("b", 20, 30)], 0.5 * SECOND) == [slow, nic("b", 20, 30)]


def test_a_group_breaks_messages_up_only_if_it_fits_and_others_are_healthy():
    group = replace(nic("b", 20, 30), where=Where(WhereType.GROUP, ("b", "c")))
    one, alone, loose = (
        FittingPlace(group, 1.0, healthy=12),
        FittingPlace(group, 1.0),
        FittingPlace(group, 0.8, healthy=12),
    )
    card = FittingPlace(nic("b", 20, 30), 0.3)
    assert without_rings_that_wait([one, card]) == [one, card]
    assert without_rings_that_wait([alone]) == [], "nobody shows that the job does not wait"
    assert without_rings_that_wait([loose]) == [], "a ring that waits looks alike"


def test_of_several_signs_the_place_that_fits_best_is_believed():
    loose, tight, later = (
        FittingPlace(nic("a", 0, 10), 0.4),
        FittingPlace(nic("b", 5, 15), 0.9),
        FittingPlace(nic("c", 20, 30), 0.2),
    )
    assert best_fitting([loose, later], [tight]) == [[later], [tight]], "at another time nothing fits later better"
    assert best_fitting([loose, tight]) == [[loose, tight]], "two places by one sign do not outdo each other"
    assert best_fitting([replace(loose, fit=0.9)], [tight]) == [[replace(loose, fit=0.9)], [tight]]


def test_a_doubtful_slow_place_gives_way_to_a_likelier_one_that_fits_better():
    doubtful, sure = (FittingPlace(nic("a", 0, 10, confidence), 0.5) for confidence in (0.4, 0.6))
    rival = FittingPlace(nic("b", 5, 15, 0.6), 0.9)
    assert unless_doubtful([doubtful], [rival]) == []
    assert unless_doubtful([sure], [rival]) == [sure]
    for weak in (
        replace(rival, fit=0.4),
        replace(rival, finding=nic("b", 5, 15, 0.4)),
        FittingPlace(nic("b", 11, 15), 1),
    ):
        assert unless_doubtful([doubtful], [weak]) == [doubtful]
    group = replace(rival, finding=replace(rival.finding, where=Where(WhereType.GROUP, ("b", "c"))))
    same = replace(rival, finding=nic("a", 5, 15, 0.6))
    assert unless_doubtful([doubtful], [group, same]) == [doubtful]
    assert findings_of([doubtful, sure]) == [doubtful.finding, sure.finding]
