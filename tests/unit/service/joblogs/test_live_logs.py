"""Logs through the service: pushed over HTTP, explained in a window, told in an alert."""

from __future__ import annotations

import gzip
import tarfile
from dataclasses import replace

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("httpx", reason="the test client needs httpx")
from fastapi.testclient import TestClient

from llmprism.ingest.accept import TimeBounds, accept_flows
from llmprism.model.finding import FindingKind, Where, WhereType
from llmprism.model.live import Explanation, FindingPhase, TrackedFinding
from llmprism.model.log import Cause, CauseClass
from llmprism.model.verdict import LogQuote, Owner, Source, Verdict
from llmprism.service.api.app import Live, create_app
from llmprism.service.config import AlertSettings, Config, JobLogSettings, StoreSettings, WindowSettings, parse_config
from llmprism.service.evaluator import Evaluator
from llmprism.service.history import History
from llmprism.service.intake import Intake
from llmprism.service.joblogs.settings import JobLogs
from llmprism.service.messages import EXPLAINED, messages_of
from llmprism.service.store import Batch, SourceBatch, Store
from llmprism.service.tracker import Changes
from support.reports import EXAMPLES, tiny_report


@pytest.fixture
def config(tmp_path):
    logs = JobLogSettings(enabled=True, folders=(str(tmp_path / "followed"),), redact=(r"secret\S*",))
    return Config(store=StoreSettings(folder=str(tmp_path / "data")), job_logs=logs)


@pytest.fixture
def store(config):
    made = Store(config.store)
    made.create()
    (made.folder / "bodies").mkdir(exist_ok=True)
    yield made
    made.close()


def quote(text):
    return LogQuote("rank2.log", 7, text, 1, "root", "cuda.oom", 0, 2, "10.0.0.3", 5)


def client_of(config, store):
    return TestClient(create_app(Live(config, store, Intake(store, config), None, list)), base_url="http://localhost")


def test_lines_are_pushed_counted_and_redacted(config, store):
    client = client_of(config, store)
    answer = client.post("/api/v1/logs?job=train&writer=rank3", content=b"step 1\nsecret42 is out\n")
    assert answer.json() == {"received": 2, "stored": 2, "dropped": {}}
    body = gzip.compress(b"step 2\n")
    answer = client.post("/api/v1/logs?job=train&writer=rank3", content=body, headers={"content-encoding": "gzip"})
    assert answer.json()["stored"] == 1
    kept = store.folder / "job_logs/pushed/train/rank3.log"
    assert kept.read_text() == "step 1\n*** is out\nstep 2\n"
    assert ("job_logs:http", "received", "", 3) in store.counters()
    metrics = client.get("/metrics").text
    assert 'llmprism_log_lines_stored_total{source="job_logs:http"} 3' in metrics
    assert 'records_total{source="job_logs:http"}' not in metrics, "lines are no records"


@pytest.mark.parametrize("query", ["job=../x&writer=a", "job=a", "job=a&writer=b/c", "job=a..b&writer=c"])
def test_bad_names_are_refused(config, store, query):
    assert client_of(config, store).post(f"/api/v1/logs?{query}", content=b"x\n").status_code == 422


def test_bodies_are_capped_and_logs_can_be_off(config, store):
    small = replace(config, job_logs=replace(config.job_logs, max_body_mb=0.00001))
    assert client_of(small, store).post("/api/v1/logs?job=a&writer=b", content=b"x" * 100).status_code == 413
    off = replace(config, job_logs=JobLogSettings())
    assert client_of(off, store).post("/api/v1/logs?job=a&writer=b", content=b"x\n").status_code == 404
    assert JobLogs.of(off, store) is None


def test_followed_folders_are_taken_in_and_counted(config, store, tmp_path):
    with tarfile.open(EXAMPLES / "crash/logs.tar.gz") as archive:
        archive.extractall(tmp_path / "followed", filter="data")
    logs = JobLogs.of(config, store)
    assert logs is not None
    logs.poll()
    counts = {(name, reason): value for source, name, reason, value in store.counters() if source == "job_logs:folder"}
    files = list((tmp_path / "followed").rglob("*.log"))
    assert counts["received", ""] == counts["stored", ""] == sum(len(one.read_bytes().splitlines()) for one in files)
    assert (store.folder / "job_logs/tailed/job0/rank6.log").is_file()


def test_an_alert_says_that_the_cause_is_known():
    report = tiny_report()
    where = Where(WhereType.GPU, "a")
    before = replace(report.findings[0], kind=FindingKind.CRASH, where=where, evidence=())
    after = replace(before, summary="out of GPU memory")
    cause = Cause(CauseClass.USER_RESOURCE, "cuda.oom", 0.9, "out of GPU memory", "Use less.")
    why = Explanation(Verdict(Source.BOTH, cause, Owner.JOB_OWNER), (quote("CUDA out of memory"),))
    old = TrackedFinding("f-1", before, FindingPhase.OPEN)
    new = TrackedFinding("f-1", after, FindingPhase.OPEN, why=why)
    settings = AlertSettings(webhook=("http://x/",))
    ((_, name, event, document),) = messages_of(Changes(findings=(new,)), settings, report.window, None, (old,))
    assert (name, event, document["event"]) == ("f-1", EXPLAINED, "explained")
    assert document["annotations"]["summary"] == "out of GPU memory"
    assert document["annotations"]["cause"] == "user.resource"
    assert document["annotations"]["log_line"] == "CUDA out of memory"
    assert document["ends_at"] is None
    assert messages_of(Changes(findings=(new,)), settings, report.window, None, (new,)) == ()


def test_the_settings_are_checked():
    good = '[job_logs]\nenabled = true\nfolders = ["/var/log/jobs"]\nredact = ["token=.*"]\n'
    assert parse_config(good, {}, "x").job_logs.folders == ("/var/log/jobs",)
    for bad in ('[job_logs]\nfolders = ["a"]\n', "[job_logs]\nwriter_mb = 0\n", "[job_logs]\nmax_body_mb = 999\n"):
        with pytest.raises(Exception, match="job_logs"):
            parse_config(bad, {}, "x")


S = 1_000_000_000


def played_crash(config, store, now):
    """The evaluator of a service that took in the bundled crash."""
    evaluator = Evaluator(store, config, lambda: now[0])
    file = store.folder / "one.parquet"
    accepted = accept_flows([EXAMPLES / "crash/flows.parquet"], file, TimeBounds(0, 2**62))
    target = store.segment_file("one", accepted.end_ns)
    target.parent.mkdir(exist_ok=True)
    file.rename(target)
    store.commit_batch(Batch("one", (SourceBatch("test", accepted),), target, now[0]))
    return evaluator


def until_found(evaluator, now):
    for _ in range(40):
        while evaluator.advance():
            pass
        if evaluator.state.findings:
            break
        now[0] += S
    (tracked,) = evaluator.state.findings
    return tracked


def unpack_logs(folder):
    with tarfile.open(EXAMPLES / "crash/logs.tar.gz") as archive:
        archive.extractall(folder, filter="data")


def test_a_crash_in_the_flows_gains_the_cause_of_the_logs(config, store):
    """The bundled crash, played to the evaluator: its finding names the rank and what its peers wrote."""
    now = [1_000_000 * S]
    config = replace(config, windows=WindowSettings(idle_after_s=3.0))
    unpack_logs(store.folder / "job_logs/pushed")
    tracked = until_found(played_crash(config, store, now), now)
    assert tracked.finding.kind is FindingKind.CRASH
    assert tracked.finding.where.id == "10.10.3.1"
    assert tracked.finding.summary.startswith("Rank 6 (10.10.3.1")
    assert any(item.what == "log lines about it" for item in tracked.finding.evidence)
    found = History(store).finding(tracked.id)
    assert found["why"]["rank"] == 6
    assert found["why"]["lines"]
    client = client_of(config, store)
    read = client.get(f"/api/v1/jobs/{tracked.finding.job}/logs").json()["logs"]
    assert client.get("/api/v1/jobs/nobody/logs").status_code == 404
    assert [seat["address"] for seat in read["ranks"]][6] == "10.10.3.1"
    assert {line["address"] for line in read["lines"]} >= {line["address"] for line in found["why"]["lines"]}


def test_lines_that_come_after_their_window_explain_the_finding_and_the_alert_says_so(config, store):
    now = [1_000_000 * S]
    alerts = AlertSettings(webhook=("http://x/",))
    config = replace(config, windows=WindowSettings(idle_after_s=3.0), alerts=alerts)
    evaluator = played_crash(config, store, now)
    bare = until_found(evaluator, now)
    assert bare.why is None
    assert History(store).finding(bare.id)["why"] is None
    for _ in range(200):  # long after the last window that can show it
        now[0] += S
        while evaluator.advance():
            pass
    unpack_logs(store.folder / "job_logs/pushed")
    late = evaluator._logs.late
    late._looked_s = float("-inf")
    assert not evaluator.advance(), "lines have just come: there may be more"
    late._looked_s = float("-inf")
    assert evaluator.advance()
    (tracked,) = evaluator.state.findings
    assert tracked.id == bare.id
    assert tracked.finding.start_ns == bare.finding.start_ns
    assert tracked.finding.summary.startswith("Rank 6 (10.10.3.1")
    found = History(store).finding(bare.id)
    assert [message["event"] for message in found["messages"]] == ["opened", "explained"]
    assert found["why"]["cause"]["class"] == "hardware.node"
    again = Evaluator(store, config, lambda: now[0])
    assert again.state.findings[0].why == tracked.why
    assert not again.advance(), "nothing is explained twice"
