"""How the cost of `llmprism diagnose` grows: with records, pairs, jobs and the length of the window.

    python benchmarks/scale.py [--largest 60000000] [--out docs/images/scale.svg]

Each point is one process of its own over a synthetic cluster; what counts is its CPU time, of which other load on the
machine changes little, and its peak memory. The exponent is fitted to the upper half of the points, where the fixed
cost of starting no longer shows. Writes a plot and prints a table; points above `--largest` records are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from growing_clusters import Shape, write_cluster
from speed import Run, measured

MINUTE = 60
MIX = ((8, 16), (4, 16), (8, 8), (4, 8), (2, 16), (4, 4), (2, 8), (1, 8))
"""Pipeline and data degrees of the 2,880 GPUs of `make_minute`."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: what was varied, and what it cost."""

    sweep: str
    size: int
    records: int
    cpu_s: float
    wall_s: float
    peak_mb: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """What grows, by how much, and the cluster for each size."""

    name: str
    title: str
    sizes: tuple[int, ...]
    cluster: Callable[[int], tuple[list[Shape], int]]
    records_of: Callable[[int], float]


def _mix(times: int, step_ns: int) -> list[Shape]:
    return [Shape(pipeline, data, times, step_ns=step_ns) for pipeline, data in MIX]


SWEEPS = (
    Sweep(
        "records",
        "records of one minute (GPUs grow with them)",
        (1, 3, 8, 15),
        lambda times: (_mix(times, 3_600_000_000), MINUTE),
        lambda times: 4e6 * times,
    ),
    Sweep(
        "pairs",
        "directed pairs, 32 records each",
        (1_000, 10_000, 100_000, 1_000_000),
        lambda pairs: ([Shape(1, 32, max(pairs // 256, 1), messages=1, step_ns=7_000_000_000)], MINUTE),
        lambda pairs: 32.0 * pairs,
    ),
    Sweep(
        "jobs",
        "jobs of 64 GPUs",
        (1, 10, 100, 500, 2_000),
        lambda jobs: ([Shape(1, 8, jobs, messages=2, step_ns=3_000_000_000)], MINUTE),
        lambda jobs: 64 * 2 * 4 * 20.0 * jobs,
    ),
    Sweep(
        "window",
        "seconds of the window, 2,880 GPUs",
        (60, 180, 600),
        lambda seconds: (_mix(1, 12_000_000_000), seconds),
        lambda seconds: 1.2e6 * seconds / 60,
    ),
)


def measure(sweep: Sweep, size: int, folder: Path) -> Point:
    shapes, seconds = sweep.cluster(size)
    flows = folder / "flows.parquet"
    records = write_cluster(flows, shapes, seconds)
    command = [sys.executable, "-m", "llmprism", "diagnose", str(flows), "--topology",
               str(flows.with_suffix(".topology.json")), "--json", os.devnull, "--quiet"]  # fmt: skip
    run: Run = measured(command)
    return Point(sweep.name, size, records, round(run.cpu_s, 2), round(run.wall_s, 2), round(run.peak_mb))


def exponent(points: list[Point]) -> float | None:
    """Slope of log(CPU) over log(size), from the upper half of the points."""
    upper = points[len(points) // 2 - (len(points) <= 3) :]
    if len(upper) < 2:
        return None
    size, cost = (np.log([getattr(point, name) for point in upper]) for name in ("size", "cpu_s"))
    return float(np.polyfit(size, cost, 1)[0])


WIDTH, HEIGHT, MARGIN = 300, 220, 46
INK, ACCENT, FAINT = "#1b1f24", "#0b63c5", "#c9d1d9"


def plot(points: list[Point]) -> str:
    """Four panels, both axes logarithmic, the fitted exponent in each."""
    panels = []
    for column, sweep in enumerate(SWEEPS):
        own = [point for point in points if point.sweep == sweep.name]
        panels.append(f'<g transform="translate({column % 2 * WIDTH},{column // 2 * HEIGHT})">{_panel(sweep, own)}</g>')
    size = f'width="{2 * WIDTH}" height="{2 * HEIGHT}" viewBox="0 0 {2 * WIDTH} {2 * HEIGHT}"'
    style = f"text{{font:11px sans-serif;fill:{INK}}}"
    ground = f'<rect width="{2 * WIDTH}" height="{2 * HEIGHT}" fill="#ffffff"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>CPU seconds of a diagnosis</title>'
        f"<style>{style}</style>{ground}{''.join(panels)}</svg>\n"
    )


def _panel(sweep: Sweep, points: list[Point]) -> str:
    if len(points) < 2:
        return f'<text x="{MARGIN}" y="{HEIGHT // 2}">{sweep.title}: not measured</text>'
    low_x, high_x = (math.log10(points[i].size) for i in (0, -1))
    low_y = math.floor(math.log10(min(point.cpu_s for point in points)))
    high_y = math.ceil(math.log10(max(point.cpu_s for point in points)) + 1e-9)

    def x(size: float) -> float:
        return MARGIN + (math.log10(size) - low_x) / max(high_x - low_x, 1e-9) * (WIDTH - MARGIN - 20)

    def y(cost: float) -> float:
        return HEIGHT - MARGIN - (math.log10(cost) - low_y) / max(high_y - low_y, 1) * (HEIGHT - MARGIN - 40)

    parts = []
    for power in range(low_y, high_y + 1):
        at = y(10.0**power)
        parts.append(f'<line x1="{MARGIN}" x2="{WIDTH - 20}" y1="{at:.1f}" y2="{at:.1f}" stroke="{FAINT}"/>')
        parts.append(f'<text x="{MARGIN - 6}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>')
    for point in points:
        label = f"{point.size:,}" if point.size < 10_000 else f"{point.size:.0e}".replace("e+0", "e")
        parts.append(
            f'<text x="{x(point.size):.1f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">{label}</text>'
            f'<circle cx="{x(point.size):.1f}" cy="{y(point.cpu_s):.1f}" r="3.5" fill="{ACCENT}">'
            f"<title>{point.records:,} records: {point.cpu_s} s CPU, {point.peak_mb} MB</title></circle>"
        )
    line = " ".join(f"{x(point.size):.1f},{y(point.cpu_s):.1f}" for point in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{ACCENT}"/>')
    slope = exponent(points)
    result = "" if slope is None else f", exponent {slope:.2f}"
    parts.append(f'<text x="{MARGIN}" y="18" font-weight="bold">CPU seconds over {sweep.name}{result}</text>')
    parts.append(f'<text x="{MARGIN}" y="{HEIGHT - 10}">{sweep.title}</text>')
    return "".join(parts)


def table(points: list[Point]) -> str:
    lines = ["| sweep | size | records | CPU s | wall s | peak MB |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [
        f"| {p.sweep} | {p.size:,} | {p.records:,} | {p.cpu_s:.1f} | {p.wall_s:.1f} | {p.peak_mb:.0f} |" for p in points
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=float, default=64e6, help="Records of the largest point.")
    parser.add_argument("--sweep", choices=[sweep.name for sweep in SWEEPS], action="append")
    parser.add_argument("--out", type=Path, default=Path("docs/images/scale.svg"))
    parser.add_argument("--points", type=Path, default=Path("out/scale.json"), help="Measured points are kept here.")
    options = parser.parse_args()
    kept = json.loads(options.points.read_text(encoding="utf-8")) if options.points.exists() else []
    points = [Point(**one) for one in kept]
    options.points.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scale-", dir=options.points.parent) as work:
        for sweep in SWEEPS:
            if options.sweep and sweep.name not in options.sweep:
                continue
            for size in sweep.sizes:
                if sweep.records_of(size) > options.largest:
                    continue
                points = [p for p in points if (p.sweep, p.size) != (sweep.name, size)]
                points.append(measure(sweep, size, Path(work)))
                print(table(points[-1:]).splitlines()[-1], flush=True)
                points.sort(key=lambda point: ([s.name for s in SWEEPS].index(point.sweep), point.size))
                options.points.write_text(json.dumps([asdict(point) for point in points]), encoding="utf-8")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(plot(points), encoding="utf-8")
    print("\n" + table(points) + "\n")
    for sweep in SWEEPS:
        slope = exponent([point for point in points if point.sweep == sweep.name])
        if slope is not None:
            print(f"{sweep.name}: CPU grows with its {slope:.2f}th power")


if __name__ == "__main__":
    main()
