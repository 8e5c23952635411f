"""Logs on the live page, in a real browser: from a finding to its lines in the timeline, and back."""

from __future__ import annotations

import tarfile
import threading
from concurrent.futures import Future
from dataclasses import replace

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")
import uvicorn

from llmprism.ingest.accept import TimeBounds, accept_flows
from llmprism.service.api.app import Live, create_app
from llmprism.service.config import Config, JobLogSettings, StoreSettings, TopologySettings, WindowSettings
from llmprism.service.evaluator import Evaluator
from llmprism.service.intake import Intake
from llmprism.service.store import Batch, SourceBatch, Store
from support.browser import chromium
from support.reports import EXAMPLES
from support.service import free_port

CRASH = EXAMPLES / "crash"
S = 1_000_000_000


class InPlace:
    """Makes timelines in the thread that asks."""

    def submit(self, work, *arguments):
        done = Future()
        done.set_result(work(*arguments))
        return done


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The bundled crash with its logs, as a service has stored it."""
    config = Config(
        store=StoreSettings(folder=str(tmp_path_factory.mktemp("data"))),
        windows=WindowSettings(idle_after_s=3.0),
        topology=TopologySettings(file=str(CRASH / "topology.json")),
        job_logs=JobLogSettings(enabled=True),
    )
    made = Store(config.store)
    made.create()
    with tarfile.open(CRASH / "logs.tar.gz") as archive:
        archive.extractall(made.folder / "job_logs/pushed", filter="data")
    hostile = made.folder / "job_logs/pushed/job0/rank0.log"
    hostile.write_text(hostile.read_text() + "RuntimeError: <img src=x onerror=alert(1)> \x1b[31m\n")
    accepted = accept_flows([CRASH / "flows.parquet"], made.folder / "one.parquet", TimeBounds(0, 2**62))
    target = made.segment_file("one", accepted.end_ns)
    target.parent.mkdir(exist_ok=True)
    (made.folder / "one.parquet").rename(target)
    now = [1_000_000 * S]
    made.commit_batch(Batch("one", (SourceBatch("test", accepted),), target, now[0]))
    evaluator = Evaluator(made, config, lambda: now[0])
    for _ in range(40):
        while evaluator.advance():
            pass
        if evaluator.state.findings:
            break
        now[0] += S
    yield made, config, evaluator.state.findings[0]
    made.close()


@pytest.fixture(scope="module")
def url(store):
    made, config, _ = store
    port = free_port()
    config = replace(config, server=replace(config.server, port=port))
    app = create_app(Live(config, made, Intake(made, config), InPlace(), list))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(20)


@pytest.fixture
def page(store, url):
    with chromium() as browser:
        opened = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        complaints = []
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        opened.goto(f"{url}/#/findings/{store[2].id}")
        opened.wait_for_selector("html[data-ready=true]")
        yield opened
        assert complaints == []


def test_from_a_finding_to_its_lines_in_the_timeline_and_back(page, store):
    tracked = store[2]
    why = page.locator(".why")
    assert "Cause: hardware.node" in why.inner_text()
    lines = page.locator("a.log-line")
    assert lines.count() == len(tracked.why.lines)
    words = lines.first.locator("code").inner_text()
    lines.first.click()
    page.wait_for_selector(".timeline canvas")
    assert f"/jobs/{tracked.finding.job}" in page.url
    canvas = page.locator(".timeline canvas")
    assert int(canvas.get_attribute("data-marks")) >= 1
    status = page.locator(".timeline [role=status]")
    assert words[:40] in status.inner_text()
    status.locator("a").click()
    page.wait_for_selector(".why")
    assert page.url.endswith(f"/findings/{tracked.id}")


def test_a_mark_in_the_timeline_shows_its_line(page):
    page.locator("a.log-line").first.click()
    page.wait_for_selector(".timeline canvas")
    page.wait_for_function("document.querySelector('.timeline canvas').width > 300")
    status = page.locator(".timeline [role=status]")
    said = status.inner_text()
    page.keyboard.press("Escape")
    box = page.locator(".timeline canvas").bounding_box()
    # the line is in the middle of the range that its link shows, on one of the eight rows
    middle = box["x"] + 118 + (box["width"] - 118) / 2
    found = []
    for row in range(8):
        page.mouse.click(middle, box["y"] + 40 + 22 * row + 6)
        found.append(status.inner_text())
    assert any(said[:30] in text for text in found)


def test_the_jobs_page_lists_lines_ranks_and_clocks_and_hostile_lines_are_text(page, store):
    page.goto(f"{page.url.split('#')[0]}#/jobs/{store[2].finding.job}")
    page.wait_for_selector("text=Who is who")  # on the job's page only
    assert "8 of 8 ranks matched" in page.inner_text("main")
    assert "Clocks of the hosts" in page.inner_text("main")
    assert page.locator("a.log-finding").count() >= 1
    assert page.locator("img[src=x]").count() == 0
