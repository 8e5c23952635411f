"""Facts of jobs, from flow records to the terminal and to JSON, on real captures with known parameters."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/pp4dp2tp2"
SHARDED = ROOT / "../shared/data/frameworks/two_same"


def diagnosed(folder: Path, out: Path) -> tuple[str, dict, dict]:
    """What the terminal shows, the JSON document and the truth."""
    files = [str(folder / "flows.parquet"), "--topology", str(folder / "topology.json"), "--json", str(out)]
    shown = subprocess.run(
        [sys.executable, "-m", "llmprism", "diagnose", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
        env={"COLUMNS": "200", "PATH": "", "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"},
    )
    with gzip.open(folder / "truth.json.gz", "rt", encoding="utf-8") as file:
        truth = json.load(file)
    return shown.stdout, json.loads(out.read_text()), truth


def test_an_all_reduce_shows_its_gradient_bytes_and_the_sizes_that_they_fit(tmp_path):
    shown, document, truth = diagnosed(EXAMPLE, tmp_path / "report.json")
    (facts,) = [job["facts"] for job in document["jobs"]]
    parameters = truth["jobs"][0]["parameters_per_rank"]
    assert facts["synchronisation"] == "all_reduce"
    assert facts["gradient_bytes_per_gpu"] == pytest.approx([2 * parameters] * 4, rel=0.05)  # gradients in bf16
    sizes = [facts, *facts["alternatives"]]
    assert any(size["parameters_per_gpu"] == pytest.approx([parameters] * 4, rel=0.05) for size in sizes)
    assert facts["confidence"] <= 0.5
    assert 0.0 < facts["exposed_communication"] < 0.5
    assert 0.15 < facts["pipeline_bubble"] < 0.5  # 3 / 11 for equal stages without jitter
    assert facts["bus_bandwidth_gbps"] > 1.0
    assert "50.4 MB of gradients per GPU all-reduced; 25.2 M parameters per GPU (202 M in all)" in " ".join(
        shown.split()
    )
    assert "of a step is exposed communication, pipeline bubble" in " ".join(shown.split())


@pytest.mark.skipif(not SHARDED.is_dir(), reason="the real captures (../shared/data/frameworks) are absent")
def test_a_sharded_optimizer_decides_the_size(tmp_path):
    shown, document, truth = diagnosed(SHARDED, tmp_path / "report.json")
    wanted = truth["jobs"][0]["parameters_per_rank"]
    assert len(document["jobs"]) == 2
    decided = [job["facts"] for job in document["jobs"] if job["facts"]["synchronisation"] != "unknown"]
    assert decided, "one of the two jobs shows its optimizer's silence; the other one's steps end too late to show it"
    for facts in decided:
        assert facts["synchronisation"] == "sharded_optimizer"
        assert (facts["gradient_element_bytes"], facts["parameter_element_bytes"]) == (4, 2)
        assert facts["parameters_per_gpu"] == pytest.approx([wanted] * 2, rel=0.05)
        assert facts["parameters"] == sum(facts["parameters_per_gpu"])
        assert facts["confidence"] > 0.7
    assert shown.count("of gradients per GPU with a sharded optimizer") == len(decided)
