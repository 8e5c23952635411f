"""The live page in a real browser: it draws, updates, answers keys, keeps its state in its address."""

import json

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")

from llmprism.service.player import HttpTarget, opened, play
from support.browser import chromium
from support.reports import EXAMPLES, HOSTILE
from support.service import RunningService, clock_from_a_minute

SLOW_NIC = EXAMPLES / "slow_nic"


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    running = RunningService(folder, "-t", str(SLOW_NIC / "topology.json"), WINDOWS__IDLE_AFTER_S=1e6).start()
    with opened([str(SLOW_NIC / "flows.parquet")]) as capture:
        play(capture, HttpTarget(running.url, "test"), speed=0, now_ns=clock_from_a_minute())
    running.until(lambda: running.get("/api/v1/findings")["items"], 60)
    yield running
    running.stop()


class Opened:
    def __init__(self, browser, url, **settings):
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
        self.page = self.context.new_page()
        self.complaints = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._request(request, url))
        self.page.goto(url)
        self.page.wait_for_selector("html[data-ready=true]")

    def _request(self, request, url):
        if not request.url.startswith(url.split("/#")[0]):
            self.complaints.append(request.url)


@pytest.fixture
def open_page(browser):
    pages = []

    def opener(url, **settings):
        pages.append(Opened(browser, url, **settings))
        return pages[-1]

    yield opener
    for one in pages:
        one.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_opens_without_complaint(open_page, service, scheme):
    job = service.get("/api/v1/jobs")["items"][0]["id"]
    finding = service.get("/api/v1/findings")["items"][0]["id"]
    opened = open_page(service.url + "/", color_scheme=scheme)
    page = opened.page
    assert page.locator(".gpu").count() == 8
    assert page.locator(".job-card").count() == 1
    for path, wanted in (
        (f"/#/jobs/{job}", ".timeline canvas"),
        (f"/#/findings/{finding}", ".evidence"),
        ("/#/switches", ".switch-table tr"),
        ("/#/history", ".log"),
    ):
        page.goto(service.url + path)
        page.wait_for_selector(wanted, timeout=60_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert opened.complaints == []


DRAWN = "document.querySelector('canvas').toDataURL()"


def test_the_timeline_draws_zooms_and_tells(open_page, service):
    job = service.get("/api/v1/jobs")["items"][0]["id"]
    opened = open_page(f"{service.url}/#/jobs/{job}?span=10000000000")
    page = opened.page
    page.wait_for_selector(".timeline-body[data-events]", timeout=60_000)
    assert int(page.locator(".timeline-body").get_attribute("data-events")) > 1000
    page.locator("canvas").focus()
    page.keyboard.press("0")
    page.wait_for_timeout(100)
    for key in ("+", "ArrowRight", "-"):
        before = page.evaluate(DRAWN)
        page.keyboard.press(key)
        page.wait_for_function(f"before => {DRAWN} !== before", arg=before)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("n")
    page.wait_for_selector(".timeline .hint:has-text('lasts')")
    page.keyboard.press("+")
    page.wait_for_timeout(500)
    page.wait_for_function("location.hash.includes('view=')")
    kept = page.evaluate("location.hash")
    again = open_page(f"{service.url}/{kept}").page
    again.wait_for_selector(".timeline-body[data-events]", timeout=60_000)
    again.wait_for_timeout(500)
    assert again.evaluate("location.hash") == kept, "a link shows the same part again"
    page.get_by_role("button", name="10 s").click()
    page.wait_for_function("location.hash.includes('span=10000000000')")
    assert opened.complaints == []


MILLION = """async () => {
  const { TimelineView } = await import("/web/timeline.js");
  const rows = 64, per = 16000, n = rows * per;
  const numbers = [...Array(rows + 1).keys()];
  const data = {
    rows: numbers.slice(0, rows), names: numbers.map(String), offsets: numbers.map((row) => row * per), steps: [],
    tick_ns: 1000, origin_ns: 0, end_ns: per * 1e6, kinds: ["compute", "pp_send", "pp_recv", "dp", "ep", "cp", "idle"],
    start: new Uint32Array(n), length: new Uint32Array(n).fill(600), peer: new Int32Array(n),
    bytes: new Float32Array(n), kind: new Uint8Array(n),
  };
  for (let event = 0; event < n; event += 1) {
    data.start[event] = (event % per) * 1000;
    data.kind[event] = event % 4;
  }
  const view = new TimelineView(data, {});
  document.body.append(view.node);
  view.resize();
  const counts = [];
  for (let zoom = 0; zoom < 8; zoom += 1) {
    view.draw();
    counts.push(view.lastMarks);
    view.to /= 4;
  }
  const painted = new Set(view.line).size > 1;
  return [counts, painted];
}"""


def test_a_million_events_draw_without_stutter(open_page, service):
    """The page's own drawing on made-up columns; counted in events looked at per frame, not against a clock of ours:
    at most one or two per pixel of the rows in sight."""
    opened = open_page(service.url + "/")
    marks, painted = opened.page.evaluate(MILLION)
    assert painted
    assert all(count <= 26 * 1400 * 2 for count in marks), marks
    assert opened.complaints == []


def test_keys_and_theme(open_page, service):
    opened = open_page(service.url + "/")
    page = opened.page
    page.keyboard.press("h")
    page.wait_for_selector("h1:has-text('History')")
    page.keyboard.press("s")
    page.wait_for_selector(".switch-table")
    page.keyboard.press("g")
    page.wait_for_selector(".job-card")
    page.keyboard.press("j")
    assert "item" in page.evaluate("document.activeElement.className")
    page.keyboard.press("t")
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.wait_for_selector(".pulse.good")
    assert opened.complaints == []


def test_overload_and_trouble_are_said_on_the_page(browser, service):
    context = browser.new_context()
    page = context.new_page()

    def troubled(route):
        document = route.fetch().json()
        route.fulfill(json={**document, "shedding": True, "troubles": ["records cannot be stored: disk full"]})

    page.route("**/api/v1/overview", troubled)
    page.goto(service.url + "/")
    page.wait_for_selector(".note.bad >> text=Overloaded")
    page.wait_for_selector(".note.bad >> text=disk full")
    context.close()


def test_a_narrow_window_needs_no_sideways_scrolling(browser, service):
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(service.url + "/")
    page.wait_for_selector(".job-card")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_hostile_names_are_text_everywhere(browser, open_page, tmp_path):
    """Addresses, switches, servers and jobs full of markup, all the way through the service into the page."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(SLOW_NIC / "flows.parquet")
    addresses = set(table["src"].to_pylist()) | set(table["dst"].to_pylist())
    names = {address: f"{HOSTILE[:150]}{address}" for address in addresses}
    for column in ("src", "dst"):
        index = table.schema.get_field_index(column)
        table = table.set_column(index, column, pa.array([names[value] for value in table[column].to_pylist()]))
    index = table.schema.get_field_index("switches")
    switches = pa.array([[HOSTILE[:150] + name for name in path] for path in table["switches"].to_pylist()])
    table = table.set_column(index, "switches", switches)
    parquet.write_table(table, tmp_path / "hostile.parquet")
    topology = json.loads((SLOW_NIC / "topology.json").read_text())
    for server in topology["servers"]:
        server["name"] = HOSTILE[:150] + server["name"]
        for nic in server["nics"]:
            nic["address"] = names[nic["address"]]
    (tmp_path / "topology.json").write_text(json.dumps(topology))
    running = RunningService(tmp_path, "-t", str(tmp_path / "topology.json"), WINDOWS__IDLE_AFTER_S=1e6).start()
    try:
        with opened([str(tmp_path / "hostile.parquet")]) as capture:
            play(capture, HttpTarget(running.url, "test"), speed=0, now_ns=clock_from_a_minute())
        finding = running.until(lambda: running.get("/api/v1/findings")["items"], 60)[0]
        page_of = open_page(running.url + "/")
        page = page_of.page
        for path in (f"/#/jobs/{finding['job']}", f"/#/findings/{finding['id']}", "/#/switches", "/#/history", "/#/"):
            page.goto(running.url + path)
            page.wait_for_timeout(700)
            assert page.evaluate("window.pwned") is None
            assert page.locator("main img, main script, main iframe").count() == 0
        assert page_of.complaints == []
    finally:
        running.stop()
