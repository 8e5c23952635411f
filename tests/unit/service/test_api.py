"""The routes in one process: answers, ETags, pages, pushes of every kind, tokens, limits."""

import gzip
import hashlib
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

pytest.importorskip("httpx", reason="the test client needs httpx")
from fastapi.testclient import TestClient

from llmprism.service.api.app import STATIC, Live, create_app
from llmprism.service.api.guard import RateLimit
from llmprism.service.config import HttpSettings, ServerSettings, Token
from llmprism.service.evaluator import Evaluator
from llmprism.service.intake import Intake, clear_incoming

S = 1_000_000_000
NOW = 1_790_000_000 * S
NDJSON = {"content-type": "application/x-ndjson"}


def lines(count=10):
    rows = [
        {"start_ns": NOW + k * 1000, "end_ns": NOW + k * 1000 + 500, "src": "a", "dst": "b", "bytes": 100 + k}
        for k in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def live(store, config):
    clear_incoming(store)
    intake = Intake(store, config)
    thread = threading.Thread(target=intake.run)
    thread.start()
    with ThreadPoolExecutor(1) as workers:
        yield Live(config, store, intake, workers, list)
        intake.stop()
        thread.join()


@pytest.fixture
def client(live):
    return TestClient(create_app(live), base_url="http://localhost")


def test_an_empty_service_answers_everywhere(client):
    for path in ("overview", "jobs", "findings", "windows", "topology", "transitions", "sources", "admin/dead-letters"):
        assert client.get(f"/api/v1/{path}").status_code == 200, path
    assert client.get("/healthz").json()["status"] == "ok"
    assert client.get("/readyz").json() == {"ready": True, "troubles": []}
    assert client.get("/openapi.json").json()["info"]["title"] == "LLMPrism"
    assert "event: revision" in client.get("/api/v1/events?once=true").text


def test_every_file_of_the_page_is_served_and_strict(client):
    page = client.get("/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    for name in STATIC:
        answer = client.get(f"/web/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
    assert client.get("/web/..%2fstore.py").status_code == 404


def test_unknown_things_are_404_and_bad_questions_422(client):
    assert client.get("/api/v1/jobs/none").json()["error"]["message"] == "there is no such job"
    assert client.get("/api/v1/findings/none").status_code == 404
    assert client.get("/api/v1/jobs/none/timeline").status_code == 404
    for query in ("limit=0", "limit=99999", "from_ns=-1", "after=x", "from_ns=99999999999999999999", "phase=odd"):
        assert client.get(f"/api/v1/findings?{query}").status_code == 422, query


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
def test_records_are_stored_when_the_push_answers(client, coding):
    body = lines()
    if coding == "gzip":
        body = gzip.compress(body)
    elif coding == "zstd":
        body = pytest.importorskip("zstandard").compress(body)
    answer = client.post("/api/v1/flows", content=body, headers=NDJSON | {"content-encoding": coding})
    assert answer.json() == {"duplicate": False, "records": 10, "stored": 10, "late": 0, "dropped": {}}
    (source,) = client.get("/api/v1/sources").json()["items"]
    assert source["received"] == source["stored"] == 10


def test_parquet_and_arrow_are_taken(client):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.Table.from_pylist([json.loads(line) for line in lines().splitlines()])
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    answer = client.post(
        "/api/v1/flows", content=sink.getvalue(), headers={"content-type": "application/vnd.apache.parquet"}
    )
    assert answer.json()["stored"] == 10
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arrow = {"content-type": "application/vnd.apache.arrow.stream"}
    assert client.post("/api/v1/flows", content=sink.getvalue(), headers=arrow).json()["stored"] == 10
    assert client.post("/api/v1/flows", content=b"rubbish", headers=arrow).status_code == 400
    short = pa.table({"start_ns": [1]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, short.schema) as writer:
        writer.write_table(short)
    assert (
        "no column" in client.post("/api/v1/flows", content=sink.getvalue(), headers=arrow).json()["error"]["message"]
    )


def test_a_numbered_push_counts_once(client):
    headers = NDJSON | {"llmprism-producer": "tap-1", "llmprism-sequence": "7"}
    assert client.post("/api/v1/flows", content=lines(), headers=headers).json()["duplicate"] is False
    assert client.post("/api/v1/flows", content=lines(), headers=headers).json()["duplicate"] is True
    (source,) = client.get("/api/v1/sources").json()["items"]
    assert source["received"] == 10
    bad = headers | {"llmprism-sequence": "x"}
    assert client.post("/api/v1/flows", content=lines(), headers=bad).status_code == 400


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"", NDJSON, 400),
        (b"\0\1\2", NDJSON, 400),
        (b"{}", NDJSON, 400),
        (b"x", {"content-type": "image/png"}, 415),
        (b"x", NDJSON | {"content-encoding": "br"}, 415),
        (b"not gzip", NDJSON | {"content-encoding": "gzip"}, 400),
        (b"not zstd", NDJSON | {"content-encoding": "zstd"}, 400),
        (b"PAR1rubbishPAR1", {"content-type": "application/vnd.apache.parquet"}, 400),
    ],
)
def test_bad_bodies_are_refused_and_leave_nothing(client, live, content, headers, status):
    answer = client.post("/api/v1/flows", content=content, headers=headers)
    assert answer.status_code == status
    assert str(live.store.folder) not in answer.text
    assert list((live.store.folder / "bodies").iterdir()) == []


def test_a_bomb_is_stopped_at_the_cap(live):
    live.config = replace(live.config, http=HttpSettings(max_body_mb=1.0))
    client = TestClient(create_app(live), base_url="http://localhost")
    bomb = gzip.compress(b"\n" * 50_000_000)
    assert len(bomb) < 100_000
    answer = client.post("/api/v1/flows", content=bomb, headers=NDJSON | {"content-encoding": "gzip"})
    assert answer.status_code == 413
    assert client.post("/api/v1/flows", content=b"x" * 1_000_001, headers=NDJSON).status_code == 413


def test_overload_is_shed_counted_and_shown(client, live, monkeypatch):
    from llmprism.service.intake import QueueFullError

    def full(*_):
        raise QueueFullError

    monkeypatch.setattr(live.intake, "put", full)
    answer = client.post("/api/v1/flows", content=lines(), headers=NDJSON)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "2"
    live.intake._write_counts()
    overview = client.get("/api/v1/overview").json()
    assert overview["shedding"] is True
    assert overview["sources"][0]["received"] == overview["sources"][0]["dropped"]["overload"] == 10


def test_a_full_disk_turns_bodies_away_and_says_so(client, live, monkeypatch):
    from llmprism.service.api import ingest

    async def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ingest, "receive_body", full)
    answer = client.post("/api/v1/flows", content=lines(), headers={**NDJSON, "llmprism-records": "10"})
    assert answer.status_code == 503
    assert "No space left" in answer.json()["error"]["message"]
    live.intake._write_counts()
    (source,) = client.get("/api/v1/sources").json()["items"]
    assert source["received"] == source["dropped"]["no_disk"] == 10
    assert live.intake.troubles() == ["bodies cannot be kept: No space left on device"]


def test_answers_are_304_until_something_changes(client, live, cluster):
    first = client.get("/api/v1/findings")
    assert client.get("/api/v1/findings", headers={"if-none-match": first.headers["etag"]}).status_code == 304
    live.store.put_state("revision", "5")
    assert client.get("/api/v1/findings", headers={"if-none-match": first.headers["etag"]}).status_code == 200


def test_tokens_have_scopes(live):
    def token(name, *scopes):
        return Token(name, hashlib.sha256(name.encode()).hexdigest(), scopes)

    live.config = replace(live.config, token=(token("r", "read"), token("i", "ingest"), token("a", "admin")))
    client = TestClient(create_app(live), base_url="http://localhost")

    def status(method, path, name):
        headers = NDJSON | ({"authorization": f"Bearer {name}"} if name else {})
        return client.request(method, path, headers=headers, content=lines() if method == "POST" else None).status_code

    assert [status("GET", "/api/v1/jobs", name) for name in ("", "x", "r", "i", "a")] == [401, 401, 200, 403, 200]
    assert [status("POST", "/api/v1/flows", name) for name in ("", "r", "i", "a")] == [401, 403, 200, 200]
    assert [status("GET", "/api/v1/admin/dead-letters", name) for name in ("r", "a")] == [403, 200]
    assert [status("GET", "/metrics", name) for name in ("", "r")] == [401, 200]
    assert status("GET", "/healthz", "") == status("GET", "/", "") == 200


def test_other_hosts_and_other_sites_are_refused(live):
    client = TestClient(create_app(live), base_url="http://evil.example")
    assert client.get("/api/v1/jobs").status_code == 421
    client = TestClient(create_app(live), base_url="http://localhost")
    cross = NDJSON | {"sec-fetch-site": "cross-site"}
    assert client.post("/api/v1/flows", content=lines(), headers=cross).status_code == 403
    for old in ({"origin": "http://evil.example"}, {"origin": "null"}, {"referer": "http://evil.example/page"}):
        assert client.post("/api/v1/flows", content=lines(), headers=NDJSON | old).status_code == 403, old
    own = NDJSON | {"origin": "http://localhost"}
    assert client.post("/api/v1/flows", content=lines(), headers=own).status_code == 200


def test_requests_are_limited_per_client(live):
    live.config = replace(live.config, server=ServerSettings(requests_per_s=2.0))
    client = TestClient(create_app(live), base_url="http://localhost")
    answers = [client.get("/healthz").status_code for _ in range(15)]
    assert answers.count(200) in (10, 11)
    assert answers[-1] == 429
    limit = RateLimit(1.0)
    assert [limit.allows("a", 0.0) for _ in range(6)].count(True) == 5
    assert limit.allows("b", 0.0)
    assert limit.allows("a", 1.1)


def test_a_capture_goes_all_the_way(client, live):
    from support.reports import EXAMPLES

    live.config = replace(
        live.config, topology=replace(live.config.topology, file=str(EXAMPLES / "slow_nic/topology.json"))
    )
    body = (EXAMPLES / "slow_nic/flows.parquet").read_bytes()
    kind = {"content-type": "application/vnd.apache.parquet"}
    assert client.post("/api/v1/flows", content=body, headers=kind).json()["stored"] == 63_929
    evaluator = Evaluator(live.store, live.config)
    while evaluator.advance():
        pass
    (job,) = client.get("/api/v1/jobs").json()["items"]
    assert job["gpus"] == 8
    assert client.get(f"/api/v1/jobs/{job['id']}/steps").json()["items"]
    findings = client.get("/api/v1/findings").json()["items"]
    assert [(finding["kind"], finding["where"]["id"]) for finding in findings] == [("slow_nic", "10.13.0.1")]
    detail = client.get(f"/api/v1/jobs/{job['id']}").json()
    assert detail["layout"]["dp"] == 4
    timeline = client.get(f"/api/v1/jobs/{job['id']}/timeline")
    assert timeline.status_code == 200
    length = int.from_bytes(timeline.content[:4], "little")
    header = json.loads(timeline.content[4 : 4 + length])
    assert (4 + length) % 8 == 0
    assert len(header["rows"]) == 8
    assert header["offsets"][-1] == header["columns"][0][2] > 1000
    assert 'llmprism_job_gpus{job_id="' in client.get("/metrics").text


def add_runs(store, first, count, state):
    from llmprism.service import schema

    names = range(first, first + count)
    rows = [
        {"id": f"job-{n}", "state": state, "first_ns": 10**18 + n, "seen_ns": 10**18 + n, "document": _run_document(n)}
        for n in names
    ]
    with store.writing() as connection:
        connection.execute(schema.runs.insert(), rows)


def _run_document(number):
    zeros = dict.fromkeys(("recent_ns", "baseline_ns", "steps", "reach_ns"), 0)
    return json.dumps({"members": [f"gpu{number}"], "first_ns": 10**18 + number, **zeros})


def test_old_jobs_do_not_hide_a_running_one(client, live):
    """A job that has run for weeks, behind a thousand that came and went since."""
    add_runs(live.store, 0, 1, "running")
    add_runs(live.store, 1, 1_200, "crashed")
    add_runs(live.store, 2_000, 1_200, "ended")
    assert 'llmprism_job_state{job_id="job-0",state="running"} 1' in client.get("/metrics").text
    assert 'llmprism_jobs{state="crashed"} 1200' in client.get("/metrics").text
    assert "job-0" in [job["id"] for job in client.get("/api/v1/overview").json()["jobs"]]


def test_cursors_lead_through_all_pages(client, live):
    add_runs(live.store, 0, 25, "running")
    found, after = [], ""
    for _ in range(3):
        answer = client.get(f"/api/v1/jobs?limit=10{after}")
        assert answer.status_code == 200, answer.text
        found += [job["id"] for job in answer.json()["items"]]
        after = f"&after={answer.json()['next']}"
    assert len(set(found)) == 25
    assert client.get("/api/v1/windows?after=1790000000000000000:").status_code == 200
    assert client.get("/api/v1/jobs?after=9999999999999999999:x").status_code == 200
