"""Claims of a report, and how well their confidence agrees with the truth."""

from __future__ import annotations

from typing import Any

import pytest

from claims import Claim, claims_of, reliability
from llmprism.score import Truth
from llmprism.score.truth import parse_truth
from support.perfect_report import truth_as_report


def a_truth() -> Truth:
    steps = [{"start_ns": i * 10**9, "end_ns": (i + 1) * 10**9} for i in range(5)]
    job = {"job": 0, "members": ["a", "b", "c", "d"], "tp": 1, "pp": 2, "dp": 2, "micro_batches": 4, "steps": steps}
    groups = {"dp_groups": [["a", "b"], ["c", "d"]], "pipelines": [["a", "c"], ["b", "d"]]}
    fault = {"kind": "slow_nic", "job": 0, "where": "a", "t_start": 2 * 10**9, "t_end": None}
    return parse_truth({"jobs": [{**job, **groups}], "faults": [fault]})


def a_report() -> dict[str, Any]:
    report = truth_as_report(a_truth())
    report["jobs"][0]["layout"]["confidence"] = 0.8
    return report


def right(claims: list[Claim], kind: str) -> list[bool]:
    return [claim.right for claim in claims if claim.kind == kind]


def test_a_perfect_report_claims_only_truths() -> None:
    claims = claims_of(a_report(), a_truth())
    assert {claim.kind for claim in claims} == {"job", "layout", "group", "pipeline", "pair", "finding"}
    assert all(claim.right for claim in claims)
    assert sum(claim.weight for claim in claims if claim.kind == "pair") == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("job", lambda job: job["members"].pop()),
        ("layout", lambda job: job["layout"].update(pp=4)),
        ("layout", lambda job: job["layout"].update(micro_batches=8)),
        ("layout", lambda job: job["pipelines"].pop()),
        ("group", lambda job: job["groups"][0].update(members=["a", "c"])),
        ("pipeline", lambda job: job["pipelines"].__setitem__(0, ["c", "a"])),
        ("pair", lambda job: job["pairs"][0].update(kind="ep")),
    ],
)
def test_a_wrong_statement_is_a_wrong_claim(kind: str, change: Any) -> None:
    report = a_report()
    change(report["jobs"][0])
    assert False in right(claims_of(report, a_truth()), kind)


def test_what_is_left_open_is_not_a_claim() -> None:
    report = a_report()
    report["jobs"][0]["layout"].update(tp=None, micro_batches=None)
    report["jobs"][0]["pairs"][0].update(kind="unknown")
    claims = claims_of(report, a_truth())
    assert right(claims, "layout") == [True]
    assert all(right(claims, "pair"))
    assert len(right(claims, "pair")) == len(report["jobs"][0]["pairs"]) - 1


def test_a_finding_without_its_fault_is_wrong() -> None:
    report = a_report()
    report["findings"][0]["where"]["id"] = "b"
    assert right(claims_of(report, a_truth()), "finding") == [False]


def test_calibration_error_is_the_weighted_distance_of_confidence_and_share_right() -> None:
    claims = [Claim("pair", 0.95, i < 15) for i in range(20)] + [Claim("pair", 0.55, i < 11) for i in range(20)]
    found = reliability(claims)
    assert found.error == pytest.approx(0.5 * (0.95 - 0.75) + 0.0)
    assert found.sure_and_wrong == pytest.approx(5 / 40)
    assert found.right == pytest.approx(26 / 40)
    assert [round(b.right, 2) for b in found.bins] == [0.55, 0.75]
    assert reliability([]).error is None
