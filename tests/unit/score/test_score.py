"""A perfect report scores 1.0 everywhere, an empty one 0, and each planted corruption lowers exactly its own metric."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from llmprism.errors import FormatError, InputError
from llmprism.score import Score, Truth, read_truth, score_report
from llmprism.score.truth import parse_truth
from support.perfect_report import truth_as_report
from unit.score.truths import EMPTY, STEP_NS, pipeline_job, truth_document

CAPTURES = Path(__file__).parents[3] / "../shared/data/captures"


@pytest.fixture
def truth() -> Truth:
    return parse_truth(truth_document())


def headline(score: Score) -> dict[str, float | None]:
    """Every figure of the score that is 1.0 for a perfect report."""
    values = score.to_dict()
    figures = {
        f"{name}.{part}": values[name][part]
        for name in ("jobs", "groups", "pipelines")
        for part in ("precision", "recall")
    }
    figures["ari"] = values["jobs"]["adjusted_rand_index"]
    figures["pairs"] = values["pairs"]["accuracy"]
    for kind, part in values["pairs"]["kinds"].items():
        figures |= {f"{kind}.precision": part["precision"], f"{kind}.recall": part["recall"]}
    for name in ("micro_batches", "degrees", "schedule", "sharding", "state"):
        figures[name] = values[name]["value"]
    figures |= {"steps.precision": values["steps"]["precision"], "steps.recall": values["steps"]["recall"]}
    figures |= {
        f"faults.{name}": values["faults"][name]["value"] for name in ("detected", "kind_right", "located", "exact")
    }
    return figures


def changed(report: dict[str, Any], truth: Truth) -> set[str]:
    return {name for name, value in headline(score_report(report, truth)).items() if value != 1.0}


def test_the_truth_as_a_report_scores_one_everywhere(truth: Truth) -> None:
    score = score_report(truth_as_report(truth), truth)
    assert set(headline(score).values()) == {1.0}
    assert (score.steps.period_error_median, score.steps.period_error_p99, score.steps.total_time_error) == (0, 0, 0)
    assert (score.faults.false_alarms, score.faults.repeats, score.faults.onset_error_s) == (0, 0, 0)


def test_an_empty_report_scores_zero_everywhere(truth: Truth) -> None:
    score = score_report(EMPTY, truth)
    assert set(headline(score).values()) == {0.0}
    assert score.steps.period_error_median is None
    assert score.faults.false_alarms == 0


@pytest.mark.parametrize("name", ["ddp4", "pp4dp2tp2", "fsdp8", "slow_gpu", "slow_nic", "two_jobs", "crash"])
def test_captures_score_one_as_reports_and_zero_when_empty(name: str) -> None:
    path = CAPTURES / name / "truth.json.gz"
    if not path.exists():
        pytest.skip("the real captures (../shared/data/captures) are not here")
    truth = read_truth(path)
    assert truth.jobs
    perfect = headline(score_report(truth_as_report(truth), truth))
    assert {value for value in perfect.values() if value is not None} == {1.0}
    nothing = headline(score_report(EMPTY, truth))
    assert {value for value in nothing.values() if value is not None} == {0.0}


def swap_member(report: dict[str, Any]) -> None:
    report["jobs"][0]["members"][0] = "10.9.9.9"


def wrong_pair(report: dict[str, Any]) -> None:
    next(pair for pair in report["jobs"][0]["pairs"] if pair["kind"] == "dp")["kind"] = "pp"


def lost_pair(report: dict[str, Any]) -> None:
    pairs = report["jobs"][0]["pairs"]
    pairs.remove(next(pair for pair in pairs if pair["kind"] == "pp"))


def unknown_pair(report: dict[str, Any]) -> None:
    next(pair for pair in report["jobs"][0]["pairs"] if pair["kind"] == "pp")["kind"] = "unknown"


def invented_pair(report: dict[str, Any]) -> None:
    report["jobs"][0]["pairs"].append({"src": "10.1.0.0", "dst": "10.1.1.3", "kind": "dp", "confidence": 1.0})


def glued_group(report: dict[str, Any]) -> None:
    first, second = report["jobs"][0]["groups"]
    report["jobs"][0]["groups"] = [{"kind": "dp", "members": first["members"] + second["members"]}]


def reversed_pipeline(report: dict[str, Any]) -> None:
    report["jobs"][0]["pipelines"][0].reverse()


def shifted_step(report: dict[str, Any]) -> None:
    report["jobs"][0]["steps"][5]["end_ns"] += STEP_NS // 4


def invented_step(report: dict[str, Any]) -> None:
    step = report["jobs"][0]["steps"][5]
    report["jobs"][0]["steps"].append(
        {"index": 99, "start_ns": step["start_ns"], "end_ns": step["start_ns"] + STEP_NS // 2}
    )


def lost_step(report: dict[str, Any]) -> None:
    del report["jobs"][0]["steps"][5]


def wrong_micro_batches(report: dict[str, Any]) -> None:
    report["jobs"][0]["layout"]["micro_batches"] = 4


def wrong_degree(report: dict[str, Any]) -> None:
    report["jobs"][0]["layout"]["dp"] = 8


def invented_degree(report: dict[str, Any]) -> None:
    report["jobs"][0]["layout"]["ep"] = 8


def wrong_schedule(report: dict[str, Any]) -> None:
    report["jobs"][0]["layout"]["schedule"] = "gpipe"


def wrong_sharding(report: dict[str, Any]) -> None:
    report["jobs"][0]["layout"]["sharding"] = "fsdp"


def wrong_state(report: dict[str, Any]) -> None:
    report["jobs"][0]["state"] = "hung"


def wrong_fault_kind(report: dict[str, Any]) -> None:
    report["findings"][0]["kind"] = "slow_gpu"


def wrong_fault_place(report: dict[str, Any]) -> None:
    report["findings"][0]["where"]["id"] = "10.1.0.3"


def wrong_fault_time(report: dict[str, Any]) -> None:
    report["findings"][0]["start_ns"] += 9 * STEP_NS
    report["findings"][0]["end_ns"] += 9 * STEP_NS


def wrong_fault_job(report: dict[str, Any]) -> None:
    report["findings"][0]["job"] = "b"


@pytest.mark.parametrize(
    ("corrupt", "lowered"),
    [
        (swap_member, {"jobs.precision", "jobs.recall", "ari"}),
        (wrong_pair, {"pairs", "dp.recall", "pp.precision"}),
        (lost_pair, {"pairs", "pp.recall"}),
        (unknown_pair, {"pairs", "pp.recall"}),
        (invented_pair, {"pairs", "dp.precision"}),
        (glued_group, {"groups.precision", "groups.recall"}),
        (reversed_pipeline, {"pipelines.precision", "pipelines.recall"}),
        (shifted_step, {"steps.precision", "steps.recall"}),
        (invented_step, {"steps.precision"}),
        (lost_step, {"steps.recall"}),
        (wrong_micro_batches, {"micro_batches"}),
        (wrong_degree, {"degrees"}),
        (invented_degree, {"degrees"}),
        (wrong_schedule, {"schedule"}),
        (wrong_sharding, {"sharding"}),
        (wrong_state, {"state"}),
        (wrong_fault_kind, {"faults.kind_right", "faults.exact"}),
        (wrong_fault_place, {"faults.located", "faults.exact"}),
        (wrong_fault_time, {"faults.detected", "faults.kind_right", "faults.located", "faults.exact"}),
        (wrong_fault_job, {"faults.detected", "faults.kind_right", "faults.located", "faults.exact"}),
    ],
)
def test_each_corruption_lowers_its_own_metric(corrupt: Any, lowered: set[str], truth: Truth) -> None:
    report = truth_as_report(truth)
    corrupt(report)
    assert changed(report, truth) == lowered


def test_findings_on_a_healthy_run_are_false_alarms(truth: Truth) -> None:
    report = truth_as_report(truth)
    healthy = Truth(truth.jobs, ())
    score = score_report(report, healthy)
    assert score.faults.false_alarms == 1
    assert score.faults.job_hours == pytest.approx(2 * 20 * 0.5 / 3600)
    assert score.faults.false_alarms_per_job_hour == pytest.approx(1 / (20 / 3600))


def test_a_second_finding_on_the_same_fault_is_a_repeat(truth: Truth) -> None:
    report = truth_as_report(truth)
    report["findings"].append(copy.deepcopy(report["findings"][0]))
    score = score_report(report, truth)
    assert (score.faults.repeats, score.faults.false_alarms) == (1, 0)


def test_a_finding_that_names_no_more_than_the_job_is_true_but_locates_nothing(truth: Truth) -> None:
    report = truth_as_report(truth)
    (finding,) = report["findings"]
    fault = truth.faults[0]
    finding["where"] = {"type": "job", "id": fault.job}
    for kind, vague in ((fault.kind.value, 1), ("slow_step", 1), ("stall", 0)):
        finding["kind"] = kind
        found = score_report(report, truth).faults
        assert (found.vague, found.false_alarms, found.exact.right, found.unprompted) == (vague, 1 - vague, 0, 0)
    finding["end_ns"] = fault.start_ns - 60 * 10**9
    finding["start_ns"] = finding["end_ns"] - 10**9
    found = score_report(report, truth).faults
    assert (found.vague, found.false_alarms, found.unprompted) == (0, 1, 1)


def test_a_constant_delay_of_the_boundaries_does_no_harm(truth: Truth) -> None:
    report = truth_as_report(truth)
    for step in report["jobs"][0]["steps"]:
        step["end_ns"] += STEP_NS // 50
    score = score_report(report, truth)
    assert score.steps.boundaries.f1 == 1.0
    assert score.steps.period_error_p99 == 0


def test_period_error_is_measured_on_the_interval_between_ends(truth: Truth) -> None:
    report = truth_as_report(truth)
    for job in report["jobs"]:
        for i, step in enumerate(job["steps"]):
            step["end_ns"] += (i % 2) * STEP_NS // 100
    score = score_report(report, truth)
    assert score.steps.period_error_median == pytest.approx(0.01)


@pytest.mark.parametrize("listed", [True, False])
def test_a_step_that_began_before_the_window_counts_neither_way(listed: bool) -> None:
    document = truth_document()
    document["jobs"][0]["steps"][0]["partial"] = True
    truth = parse_truth(document)
    report = truth_as_report(truth)
    if not listed:
        del report["jobs"][0]["steps"][0]
    assert changed(report, truth) == set()


def test_other_and_unknown_on_control_chatter_is_not_held_against_the_report(truth: Truth) -> None:
    report = truth_as_report(truth)
    report["jobs"][0]["pairs"].append({"src": "10.1.0.0", "dst": "10.1.1.3", "kind": "other", "confidence": 1.0})
    assert changed(report, truth) == set()


def test_split_and_glued_jobs_keep_the_credit_for_their_pairs(truth: Truth) -> None:
    report = truth_as_report(truth)
    first, second = report["jobs"]
    first["members"] += second["members"]
    first["pairs"] += second["pairs"]
    report["jobs"] = [first]
    score = score_report(report, truth)
    assert score.pairs.accuracy == 1.0
    assert score.jobs.exact.recall == 0.0
    assert (score.jobs.adjusted_rand_index or 0.0) < 0.5


def test_two_jobs_on_the_same_servers_one_after_the_other_stay_apart() -> None:
    early, late = pipeline_job("early", 1, 10**18), pipeline_job("late", 1, 10**18 + 100 * STEP_NS)
    late["pairs"] = [{**pair, "kind": "dp" if pair["kind"] == "pp" else "pp"} for pair in late["pairs"]]
    truth = parse_truth({"schema": "llmprism.truth/1", "jobs": [early, late], "faults": []})
    report = truth_as_report(truth)
    report["jobs"].reverse()
    assert {name for name, value in headline(score_report(report, truth)).items() if value not in {1.0, None}} == set()


@pytest.mark.parametrize(
    "broken",
    [
        {"schema": "something else"},
        {"schema": "llmprism.report/1", "jobs": 3},
        {"schema": "llmprism.report/1", "jobs": [{"id": 4}]},
        {"schema": "llmprism.report/1", "jobs": [{"id": "a", "steps": [{"start_ns": 0, "end_ns": True}]}]},
        {"schema": "llmprism.report/1", "jobs": [{"id": "a", "pairs": [{"src": "a", "dst": "b", "kind": "zz"}]}]},
        {"schema": "llmprism.report/1", "findings": [{"kind": "slow_gpu", "where": {"type": "moon", "id": "a"}}]},
        {"schema": "llmprism.report/1", "findings": [{"kind": "gremlin"}]},
    ],
)
def test_a_document_that_is_no_report_is_refused(broken: dict[str, Any], truth: Truth) -> None:
    with pytest.raises(FormatError):
        score_report(broken, truth)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\x1f\x8b\x00", gzip.compress(b'{"schema": "x"}', mtime=0), b"\xff\xfe"]
)
def test_a_file_that_is_no_truth_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"truth\.json"):
        read_truth(path)


def test_a_missing_truth_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        read_truth(tmp_path / "nowhere.json")


def test_packed_and_unpacked_truths_are_the_same(tmp_path: Path, truth: Truth) -> None:
    data = json.dumps(truth_document()).encode()
    (tmp_path / "plain").write_bytes(data)
    (tmp_path / "packed").write_bytes(gzip.compress(data, mtime=0))
    assert read_truth(tmp_path / "plain") == read_truth(tmp_path / "packed") == truth
