"""Claim: the live page's timeline zooms and pans over a million events without stutter.

Draws made-up events of 64 GPUs in headless Chromium (software rendering), pans and zooms for some hundred frames, and
prints how long the page's own drawing of one frame takes: below 16.7 ms it keeps up with a screen of 60 Hz.
Usage: python benchmarks/service_page.py [EVENTS]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from running_service import ROOT, Service

FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")

DRAW = """async (events) => {
  const { TimelineView } = await import("/web/timeline.js");
  const rows = 64, per = Math.ceil(events / rows), n = rows * per;
  const numbers = [...Array(rows + 1).keys()];
  const data = {
    rows: numbers.slice(0, rows), names: numbers.map(String), offsets: numbers.map((row) => row * per), steps: [],
    tick_ns: 1000, origin_ns: 0, end_ns: per * 1e6, kinds: ["compute", "pp_send", "pp_recv", "dp", "ep", "cp", "idle"],
    start: new Uint32Array(n), length: new Uint32Array(n), peer: new Int32Array(n),
    bytes: new Float32Array(n), kind: new Uint8Array(n),
  };
  for (let event = 0; event < n; event += 1) {
    data.start[event] = (event % per) * 1000 + (event * 7919) % 300;
    data.length[event] = 200 + (event * 104729) % 500;
    data.kind[event] = (event * 31) % 5;
  }
  const view = new TimelineView(data, {});
  document.body.append(view.node);
  view.resize();
  const drawn = [], frames = [];
  let last = performance.now();
  for (let frame = 0; frame < 240; frame += 1) {
    if (frame % 40 < 20) view.pan(0.03);
    else view.zoom(frame % 80 < 40 ? 0.85 : 1 / 0.85, (view.from + view.to) / 2);
    await new Promise((resolve) => requestAnimationFrame(resolve));
    drawn.push(view.lastDrawMs);
    const now = performance.now();
    frames.push(now - last);
    last = now;
  }
  return [n, drawn, frames];
}"""


def share(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "data", ROOT / "examples" / "slow_nic")
        try:
            service.get("/healthz")
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                page.goto(service.url + "/")
                count, drawn, frames = page.evaluate(DRAW, events)
                browser.close()
        finally:
            service.stop()
    for name, values in (("drawing", drawn), ("frame to frame", frames)):
        print(f"{count:,} events, {name}: median {share(values, 0.5):.1f} ms, 95 % below {share(values, 0.95):.1f} ms")


if __name__ == "__main__":
    main()
