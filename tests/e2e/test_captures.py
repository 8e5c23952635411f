"""How right the whole pipeline is on real captures: the thresholds that the project promises.

The bundled `examples/` are always scored; the seven captures of ../shared/data where that folder is present.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from llmprism.ingest import read_flows, read_topology
from llmprism.pipeline import diagnose
from llmprism.report.json_report import document
from llmprism.score import Score, read_truth, score_report

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CAPTURES = ROOT / "../shared/data/captures"

SETS = [
    pytest.param(EXAMPLES, id="examples"),
    pytest.param(
        CAPTURES,
        id="captures",
        marks=pytest.mark.skipif(
            not CAPTURES.is_dir(), reason="the real captures (../shared/data/captures) are absent"
        ),
    ),
]
FOLDERS = [
    pytest.param(folder, id=f"{root.name}/{folder.name}")
    for root in (EXAMPLES, CAPTURES)
    for folder in sorted(path.parent for path in root.glob("*/truth.json.gz"))
]

MIN_SHARE_RIGHT = 0.95
MIN_MEAN_STEP_F1 = 0.97
MAX_MEAN_PERIOD_ERROR = 0.005
MAX_TOTAL_TIME_ERROR = 0.001

_scores: dict[str, Score] = {}


def score_of(folder: Path) -> Score:
    """The score of one capture, worked out once however many folders hold the same files."""
    files = [folder / name for name in ("flows.parquet", "topology.json", "truth.json.gz")]
    key = hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()
    if key not in _scores:
        report = diagnose(read_flows([str(files[0])]), read_topology(str(files[1])), with_events=False)
        _scores[key] = score_report(document(report), read_truth(files[2]))
    return _scores[key]


def scores_of(root: Path) -> list[Score]:
    return [score_of(path.parent) for path in sorted(root.glob("*/truth.json.gz"))]


def mean(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    assert known, "nothing was scored"
    return sum(known) / len(known)


def test_there_are_examples() -> None:
    assert len(scores_of(EXAMPLES)) >= 2


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_job_is_exact(folder: Path) -> None:
    jobs = score_of(folder).jobs.exact
    assert jobs.expected > 0
    assert (jobs.right, jobs.claimed) == (jobs.expected, jobs.expected)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_layout_is_right(folder: Path) -> None:
    score = score_of(folder)
    accuracy = score.pairs.accuracy
    assert accuracy is not None
    assert accuracy >= MIN_SHARE_RIGHT
    for what in (score.structure.groups, score.structure.pipelines):
        if what.expected or what.claimed:
            assert what.f1 is not None
            assert what.f1 >= MIN_SHARE_RIGHT
    batches = score.structure.micro_batches
    assert batches.right == batches.total


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_total_time_is_right(folder: Path) -> None:
    error = score_of(folder).steps.total_time_error
    assert error is not None
    assert error <= MAX_TOTAL_TIME_ERROR


@pytest.mark.parametrize("folder", FOLDERS)
def test_faults_are_found_and_nothing_else(folder: Path) -> None:
    faults = score_of(folder).faults
    assert faults.exact.right == faults.exact.total
    assert faults.false_alarms == 0
    assert faults.repeats == 0


@pytest.mark.parametrize("root", SETS)
def test_steps_are_right_on_the_mean(root: Path) -> None:
    scores = scores_of(root)
    assert mean([score.steps.boundaries.f1 for score in scores]) >= MIN_MEAN_STEP_F1
    assert mean([score.steps.period_error_median for score in scores]) <= MAX_MEAN_PERIOD_ERROR


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="the real captures (../shared/data/captures) are absent")
def test_the_captures_hold_faults_and_healthy_runs() -> None:
    """Otherwise the tests above would promise less than they say."""
    totals = [score.faults.exact.total for score in scores_of(CAPTURES)]
    assert len(totals) >= 7
    assert 0 in totals
    assert sum(totals) >= 3
