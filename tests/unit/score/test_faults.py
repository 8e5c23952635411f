"""Which findings name a fault: places of several names, faults that captures describe, faults too faint to count."""

from __future__ import annotations

from typing import Any

from llmprism.score import Truth, score_report
from llmprism.score.truth import parse_truth
from support.perfect_report import truth_as_report
from unit.score.truths import EMPTY, truth_document


def capture_with(fault: dict[str, Any]) -> Truth:
    job = {"job": 0, "members": ["a", "b", "c"], "dp_groups": [["a", "b", "c"]], "pipelines": [], "steps": []}
    return parse_truth({"jobs": [job], "faults": [{"job": 0, "t_start": 1, "t_end": 2, **fault}]})


def test_a_capture_names_the_member_that_stood_still() -> None:
    (fault,) = capture_with({"kind": "stall", "where": "b"}).faults
    assert (fault.where.type.value, fault.where.id) == ("gpu", "b")
    (fault,) = capture_with({"kind": "stall", "where": None}).faults
    assert (fault.where.type.value, fault.where.id) == ("job", "job0")


def test_a_capture_that_names_several_addresses_means_one_of_them() -> None:
    (fault,) = capture_with({"kind": "slow_gpu", "where": ["a", "b"]}).faults
    assert (fault.where.id, fault.equivalents) == ("a", ("b",))
    (fault,) = capture_with({"kind": "slow_group", "where": ["a", "b"]}).faults
    assert (fault.where.id, fault.equivalents) == (("a", "b"), ())


def on_an_uplink(truth_kind: str, place: dict[str, Any], same_place: object) -> float | None:
    document = truth_document()
    document["faults"][0] |= {"kind": truth_kind, "where": place, "job": None}
    finding = {
        **document["faults"][0],
        "kind": "slow_link",
        "where": {"type": "link", "id": ["leaf1", "spine0"]},
        "alternatives": [
            {"kind": "slow_switch", "where": {"type": "switch", "id": "leaf1"}, "same_place": same_place},
            {"kind": "slow_nic", "where": {"type": "nic", "id": "10.1.0.2"}, "same_place": True},
        ],
    }
    return score_report({**EMPTY, "findings": [finding]}, parse_truth(document)).faults.exact.value


def test_a_switch_and_its_only_cable_are_one_place_where_the_finding_says_so() -> None:
    switch = {"type": "switch", "id": "leaf1"}
    assert on_an_uplink("slow_switch", switch, same_place=True) == 1.0
    assert on_an_uplink("slow_switch", switch, same_place=False) == 0.0
    assert on_an_uplink("slow_switch", {"type": "switch", "id": "leaf2"}, same_place=True) == 0.0


def test_no_other_alternative_counts() -> None:
    assert on_an_uplink("slow_nic", {"type": "nic", "id": "10.1.0.2"}, same_place=True) == 0.0


def with_fault(changes: dict[str, Any], listed: str = "faults") -> Truth:
    document = truth_document()
    fault = {**document["faults"].pop(), **changes}
    return parse_truth({**document, listed: [fault]})


def named(kind: str, place: str, where: str) -> dict[str, Any]:
    report = truth_as_report(parse_truth(truth_document()))
    report["findings"] = [{**report["findings"][0], "kind": kind, "where": {"type": place, "id": where}}]
    return report


def test_the_rank_that_stood_still_is_the_place_of_a_stall_that_the_label_calls_the_jobs():
    stall = with_fault({"kind": "stall", "where": {"type": "job", "id": "a"}, "address": "10.1.0.2"})
    right = score_report(named("stall", "gpu", "10.1.0.2"), stall).faults
    wrong = score_report(named("stall", "gpu", "10.1.0.3"), stall).faults
    assert (right.exact.right, right.false_alarms) == (1, 0)
    assert (wrong.exact.right, wrong.false_alarms) == (0, 1)


def test_to_name_a_faint_fault_is_neither_right_nor_a_false_alarm():
    faint = with_fault({}, listed="faint")
    named_it = score_report(named("slow_nic", "nic", "10.1.0.2"), faint).faults
    another = score_report(named("slow_nic", "nic", "10.1.0.3"), faint).faults
    assert (named_it.exact.total, named_it.false_alarms, named_it.unprompted) == (0, 0, 0)
    assert (another.false_alarms, another.unprompted) == (1, 1)
