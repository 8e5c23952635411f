"""Verdicts on real runs of the open dataset (split dev): never worse than flows or logs alone, quiet on noise."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import verdict as bench
from llmprism.logs.library import FaultRole, load_library

RUNS = {
    "gloo-ddp4-crash": "crash by the job's own error",
    "gloo-ddp4-restart": "crash, and the job comes back",
    "ds-zero2-oom": "out of memory",
    "fsdp8-badsample": "bad sample; the flows name a neighbour",
    "ds-zero2-mismatch": "mismatched collective",
    "pipe-1f1b-pp8-hangcomm": "hang",
    "gloo-ddp4-delay": "slow NIC",
    "gloo-int-pp2dp3": "slow GPU",
    "gloo-ddp4-storage": "slow storage",
    "gloo-ddp6-leaf": "slow switch",
    "gloo-ddp4-flap": "link lost for a while",
    "gloo-hsdp-2x2": "healthy",
}
HEALTHY = ("gloo-pp2dp2-gpipe", "ddp8-accumulate8", "meg-pp8-deep", "gloo-hf-trainer")
NOISE_LINES = 300


@pytest.fixture(scope="module")
def library():
    return load_library()


def run_of(name: str) -> bench.Run:
    return next(run for run in bench.runs("dev") if run.name == f"dataset/{name}")


def test_twelve_real_runs(library):
    """Kind, place and class of cause right in at least eleven, and never worse than the better of the two parts."""
    right, worse = [], []
    for name in RUNS:
        row = bench.measure(run_of(name), library, noisy=False)
        flows, logs, both = (row.right(part, row.quiet[at]) for at, part in enumerate(bench.parts(row)))
        if both:
            right.append(name)
        if (flows or logs) and not both:
            worse.append(name)
    assert len(right) >= 11, set(RUNS) - set(right)
    assert worse == []


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_with_hundreds_of_error_lines_stays_quiet(name, library, tmp_path: Path):
    """Every rank prints errors of the fault library in the midst of its iterations and trains on."""
    run = run_of(name)
    texts = [text for fault in library.faults if fault.role is not FaultRole.BENIGN for text in fault.examples]
    texts = [text for text in texts if not bench.IDENTITY.search(text) and "\n" not in text]
    errors = (texts * NOISE_LINES)[:NOISE_LINES]
    with tarfile.open(run.folder / "logs.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    for number, path in enumerate(sorted(tmp_path.rglob("*.log"))):
        lines = path.read_text(errors="replace").splitlines()
        middle = [at for at, line in enumerate(lines) if "iteration" in line]
        half = middle[len(middle) // 2] if middle else len(lines) // 2
        path.write_text("\n".join([*lines[:half], *errors[number % 3 :: 3], *lines[half:]]) + "\n")
    report = bench.together(bench.flow_report(run, run.truth), tmp_path, library)
    assert report.findings == ()
    assert report.reading is not None
    assert report.reading.jobs[0].job is not None
    assert any("error lines that the run survived" in note for note in report.reading.notes)
