"""Logs among several workers: each takes lines in, and the leader's verdict is the one that a single service gives."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")

from llmprism.engine import RunOptions, engine_named
from llmprism.ingest import read_topology
from llmprism.service.config import Config, JobLogSettings, StoreSettings, WorkerSettings
from llmprism.service.joblogs.explain import LogExplainer
from llmprism.service.joblogs.settings import KAFKA, PUSHED, TAILED, spool_of, spools_folder
from llmprism.service.workers.share_reports import decode_share_report, encode_share_report, merge_reports
from support.reports import EXAMPLES

CRASH = EXAMPLES / "crash"


def worker(folder: Path, name: str) -> Config:
    settings = WorkerSettings(enabled=True, name=name)
    logs = JobLogSettings(enabled=True, redact=("hf_[A-Za-z]+",))
    return Config(store=StoreSettings(folder=str(folder)), workers=settings, job_logs=logs)


def test_every_worker_has_spools_of_its_own_and_followed_folders_one(tmp_path: Path) -> None:
    names = {spool_of(worker(tmp_path, name), way).folder.name for name in ("w1", "w2") for way in (PUSHED, KAFKA)}
    assert names == {"pushed@w1", "pushed@w2", "kafka@w1", "kafka@w2"}
    assert {spool_of(worker(tmp_path, name), TAILED).folder.name for name in ("w1", "w2")} == {"tailed"}
    alone = replace(worker(tmp_path, ""), workers=WorkerSettings())
    assert spool_of(alone, PUSHED).folder.name == "pushed"
    assert spool_of(alone, PUSHED).folder.parent == spools_folder(alone)


def test_the_verdict_of_several_workers_is_that_of_one(tmp_path: Path) -> None:
    """The report travels as shares do, and the ranks' lines lie with two workers."""
    topology = read_topology(str(CRASH / "topology.json"))
    report = engine_named("local", None).diagnose(
        [str(CRASH / "flows.parquet")], topology, RunOptions(with_events=False, jobs=1)
    )
    share = decode_share_report(encode_share_report(report, member_ends=True), topology)
    merged = merge_reports([share], report.window, topology)
    with tarfile.open(CRASH / "logs.tar.gz") as archive:
        archive.extractall(tmp_path / "one/pushed", filter="data")
    for number, path in enumerate(sorted((tmp_path / "one/pushed").rglob("*.log"))):
        spool = spool_of(worker(tmp_path / "two", f"w{number % 2}"), PUSHED)
        spool.append("job0", path.stem, path.read_bytes())
    one = LogExplainer(tmp_path / "one").explain(report).report
    two = LogExplainer(spools_folder(worker(tmp_path / "two", "w1"))).explain(merged).report
    assert two.findings == one.findings
    assert one.reading is not None
    assert two.reading is not None
    assert [job.seats for job in two.reading.jobs] == [job.seats for job in one.reading.jobs]
    assert [job.clocks for job in two.reading.jobs] == [job.clocks for job in one.reading.jobs]
    assert [one.cause for one in two.reading.verdicts] == [one.cause for one in one.reading.verdicts]
    assert two.reading.verdicts[0].rank == 6
