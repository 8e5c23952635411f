"""The HTML page in a real browser: it draws, it answers keys, it is silent on console and network, names do nothing."""

from dataclasses import replace

import pytest

from llmprism.report.html import render
from support.browser import chromium
from support.read_reports import read_report
from support.reports import EXAMPLES, HOSTILE, empty_report, report_from_capture, tiny_report


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


class Opened:
    """A page that remembers everything a page should not do."""

    def __init__(self, browser, path, **settings):
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
        self.page = self.context.new_page()
        self.complaints = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._request)
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready=true]")
        self.page.wait_for_timeout(150)

    def _request(self, request):
        if not request.url.startswith(("file:", "data:")):
            self.complaints.append(request.url)


@pytest.fixture
def open_page(browser, tmp_path):
    opened = []

    def opener(report, **settings):
        path = tmp_path / "report.html"
        path.write_bytes(render(report))
        opened.append(Opened(browser, path, **settings))
        return opened[-1]

    yield opener
    for each in opened:
        each.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["slow_nic", "crash", "pp4dp2tp2"])
def test_a_page_opens_without_complaint(open_page, name, scheme):
    opened = open_page(report_from_capture(EXAMPLES / name), color_scheme=scheme)
    assert opened.complaints == []
    page = opened.page
    expected = "Nothing wrong found" if name == "pp4dp2tp2" else "1 problem found"
    assert page.locator("h1").inner_text() == expected
    assert page.locator(".gpu").count() == (16 if name == "pp4dp2tp2" else 8)
    assert page.locator(".member").count() == page.locator(".gpu:not(.unused)").count()
    assert page.locator(".step-bar").count() > 20
    assert page.locator(".finding-band, .finding-mark").count() == (0 if name == "pp4dp2tp2" else 1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_hostile_names_are_text(open_page):
    opened = open_page(tiny_report(HOSTILE))
    assert opened.complaints == []
    assert opened.page.evaluate("window.pwned") is None
    assert opened.page.locator("img").count() == 0
    assert "<img src=x onerror" in opened.page.locator(".finding h3").inner_text()


def test_an_empty_report_opens(open_page):
    opened = open_page(empty_report())
    assert opened.complaints == []
    assert opened.page.locator("h1").inner_text() == "No training job recognised"


def pixels(page):
    return page.evaluate("document.querySelector('canvas').toDataURL()")


def test_the_timeline_draws_zooms_pans_and_tells(open_page):
    opened = open_page(report_from_capture(EXAMPLES / "slow_nic"))
    page = opened.page
    shown = [pixels(page)]
    page.locator("canvas").focus()
    for key in ("0", "+", "ArrowRight", "-"):
        page.keyboard.press(key)
        page.wait_for_timeout(80)
        shown.append(pixels(page))
    assert len(set(shown)) == len(shown)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("n")
    status = page.locator(".timeline .hint").inner_text()
    assert "step" in status
    assert "lasts" in status
    page.mouse.wheel(0, 0)
    box = page.locator("canvas").bounding_box()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 60)
    before = pixels(page)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_timeout(80)
    assert pixels(page) != before
    assert opened.complaints == []


def test_a_finding_leads_to_its_place_in_the_timeline(open_page):
    opened = open_page(report_from_capture(EXAMPLES / "slow_nic"))
    opened.page.get_by_role("button", name="Show in timeline").click()
    opened.page.wait_for_timeout(80)
    assert "10.13.0.1" in opened.page.locator(".timeline .hint").inner_text()
    assert opened.page.evaluate("document.activeElement.tagName") == "CANVAS"


def test_keys_reach_jobs_layout_steps_and_theme(open_page):
    one = report_from_capture(EXAMPLES / "slow_nic")
    other = replace(one.jobs[0], job=replace(one.jobs[0].job, id="second"))
    opened = open_page(replace(one, jobs=(one.jobs[0], other)))
    page = opened.page
    page.get_by_role("tab").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".job-title").inner_text() == "Job second"
    page.locator(".chart").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".chart-frame + .hint").inner_text().startswith("Step 1: ")
    page.locator(".member").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.innerText") == "10.10.1.1"
    theme = page.locator("#theme")
    theme.click()
    theme.click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert opened.complaints == []


def test_events_that_were_left_out_are_stated(open_page, monkeypatch):
    monkeypatch.setattr("llmprism.report.html.data.MAX_EVENTS", 3000)
    monkeypatch.setattr("llmprism.report.html.page.page_data", _capped)
    opened = open_page(report_from_capture(EXAMPLES / "slow_nic"))
    assert "A page holds at most 3,000 events" in opened.page.locator("#jobs").inner_text()
    assert opened.complaints == []


def _capped(report):
    from llmprism.report.html.data import page_data

    return page_data(report, max_events=3000)


def test_a_narrow_window_needs_no_sideways_scrolling(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_bytes(render(report_from_capture(EXAMPLES / "slow_nic")))
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=true]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_lines_of_logs_lead_to_the_timeline_and_back(open_page):
    opened = open_page(read_report())
    page = opened.page
    assert opened.complaints == []
    assert "out of GPU memory" in page.locator(".why").first.inner_text()
    assert page.locator("#nav a[href='#logs']").count() == 1
    assert "1 of 1 rank matched" in page.locator("#logs").inner_text()
    page.locator(".log-line").first.click()
    assert "CUDA out of memory" in page.locator(".timeline .hint").inner_text()
    assert page.evaluate("document.activeElement.tagName") == "CANVAS"
    assert opened.complaints == []


def test_hostile_lines_are_text(open_page):
    opened = open_page(read_report(HOSTILE, HOSTILE))
    assert opened.complaints == []
    assert opened.page.evaluate("window.pwned") is None
    assert opened.page.locator("img").count() == 0
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 1280
