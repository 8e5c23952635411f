"""Is simulated traffic like real traffic? The same statistics of both, and how much of the real range is reached.

    python benchmarks/robust_realism.py                    real sources against 40 random scenarios
    python benchmarks/robust_realism.py --simulated 100

Each statistic is taken per directed pair of a job and summed up as the 10, 50 and 90 % points over the pairs of a
source. The last column says how many of the real sources' medians lie between the 5 and 95 % points of the
simulated pairs: a habit that the simulator does not have shows there.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism.score import ScoredJob, read_truth
from llmprism.sim import simulate
from robust_draw import draw_scenario

ROOT = Path(__file__).parents[1]
DATA = ROOT / "../shared/data"
SOURCES: Final = ("captures", "captures_more", "frameworks", "gloo", "production", "othersim")
SMALL_BYTES: Final = 4_000
"""Smaller records are control messages."""
MAIN_SHARE: Final = 0.01
"""Pairs with less than this share of the bytes of the job's busiest pair are left out."""

STATISTICS: Final = {
    "records": "records of a pair per step",
    "piece": "median record, as a share of the pair's bytes per step",
    "record_mb": "median record in MB",
    "conserved": "variation of the pair's bytes per step (standard deviation over mean)",
    "silence": "longest silence of the pair in a step, as a share of the step",
    "both_ways": "share of the pair's bytes that flow while the opposite direction flows",
    "step_varies": "variation of the job's step times",
    "ends_apart": "how far apart the members' last records of a step end, as a share of the step",
}

Int64 = NDArray[np.int64]
Rows = dict[str, list[float]]


@dataclass(frozen=True)
class Pair:
    start: Int64
    end: Int64
    bytes: Int64


def statistics(folder: Path) -> Rows:
    """The statistics of one case, one value per pair (per job for those of jobs)."""
    rows: Rows = {name: [] for name in STATISTICS}
    pairs = _pairs(folder / "flows.parquet")
    for job in read_truth(folder / "truth.json.gz").jobs:
        ends = np.unique(np.array(job.step_end_ns, dtype=np.int64))
        if ends.size < 5:
            continue
        ends = ends[1:]
        own = {key: pair for key, pair in pairs.items() if key[0] in job.members and key[1] in job.members}
        most = max((int(pair.bytes.sum()) for pair in own.values()), default=0)
        main = {key: pair for key, pair in own.items() if pair.bytes.sum() >= MAIN_SHARE * most > 0}
        step = float(np.median(np.diff(ends)))
        periods = np.diff(ends)
        rows["step_varies"].append(float(periods.std() / periods.mean()))
        rows["ends_apart"] += _ends_apart(job, main, ends, step)
        for (src, dst), pair in main.items():
            for name, value in _of_pair(pair, main.get((dst, src)), ends, step).items():
                rows[name].append(value)
    return rows


def _pairs(flows: Path) -> dict[tuple[str, str], Pair]:
    query = f"SELECT src, dst, start_ns, end_ns, bytes FROM read_parquet('{flows}') WHERE bytes > {SMALL_BYTES}"
    table = duckdb.connect().execute(query + " ORDER BY src, dst, start_ns").fetchnumpy()
    names = np.char.add(np.char.add(table["src"].astype(str), "\t"), table["dst"].astype(str))
    if not names.size:
        return {}
    bounds = np.flatnonzero(np.concatenate(([True], names[1:] != names[:-1], [True])))
    pairs = {}
    for first, last in pairwise(bounds):
        src, dst = str(names[first]).split("\t")
        part = slice(int(first), int(last))
        pairs[src, dst] = Pair(*(table[name][part].astype(np.int64) for name in ("start_ns", "end_ns", "bytes")))
    return pairs


def _of_pair(pair: Pair, opposite: Pair | None, ends: Int64, step: float) -> dict[str, float]:
    place = np.searchsorted(ends, pair.end)
    inside = (place > 0) & (place < ends.size)
    if not inside.any():
        return {}
    sums = np.bincount(place[inside], weights=pair.bytes[inside], minlength=ends.size)[1:]
    whole = sums[sums > 0]
    median = float(np.median(pair.bytes[inside]))
    reached = np.maximum.accumulate(pair.end)
    gaps = pair.start[1:] - reached[:-1]
    gaps = gaps[(gaps > 0) & inside[1:]]
    found = {
        "records": float(inside.sum() / max(whole.size, 1)),
        "piece": median / float(np.median(whole)),
        "record_mb": median / 1e6,
        "conserved": float(whole.std() / whole.mean()),
        "silence": min(float(np.quantile(gaps, 1 - min(whole.size / gaps.size, 1.0))) / step, 1.0)
        if gaps.size
        else 0.0,
    }
    if opposite is not None:
        after = np.searchsorted(np.maximum.accumulate(opposite.end), pair.start, side="right")
        hit = (after < opposite.start.size) & (opposite.start[np.minimum(after, opposite.start.size - 1)] < pair.end)
        found["both_ways"] = float(pair.bytes[hit].sum() / pair.bytes.sum())
    return found


def _silence(gaps: Int64, steps: int) -> float:
    """The shortest of the pair's longest pauses, as many as there are steps."""
    return float(np.sort(gaps)[-min(steps, gaps.size)]) if gaps.size else 0.0


def _ends_apart(job: ScoredJob, pairs: dict[tuple[str, str], Pair], ends: Int64, step: float) -> list[float]:
    last: dict[str, Int64] = {}
    for (src, _), pair in pairs.items():
        place = np.searchsorted(ends, pair.end - int(0.02 * step))
        latest = last.setdefault(src, np.zeros(ends.size + 1, dtype=np.int64))
        np.maximum.at(latest, place, pair.end)
    if len(last) < 2 or len(job.members) < 2:
        return []
    table = np.stack(list(last.values()))[:, 1:-1]
    seen = (table > 0).all(axis=0)
    spread = (table.max(axis=0) - table.min(axis=0))[seen] / step
    return [float(np.median(spread))] if spread.size else []


def _case(task: tuple[str, str | int]) -> tuple[str, Rows]:
    source, place = task
    if isinstance(place, str):
        return source, statistics(Path(place))
    with tempfile.TemporaryDirectory(prefix="robust-") as work:
        simulate(draw_scenario(place), Path(work))
        return source, statistics(Path(work))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulated", type=int, default=40, help="random scenarios (default 40)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    tasks: list[tuple[str, str | int]] = []
    for source in SOURCES:
        tasks += [(source, str(path.parent)) for path in sorted((DATA / source).glob("*/flows.parquet"))]
    tasks += [("simulated", seed) for seed in range(1, arguments.simulated + 1)]
    by_source: dict[str, Rows] = {}
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for source, rows in pool.map(_case, tasks):
            held = by_source.setdefault(source, {name: [] for name in STATISTICS})
            for name, values in rows.items():
                held[name] += values
    print("\n".join(table(by_source)))
    return 0


def table(by_source: dict[str, Rows]) -> list[str]:
    """Points of 10, 50 and 90 % per source, and how many real medians the simulated range holds."""
    sources = list(by_source)
    lines = ["| statistic | " + " | ".join(sources) + " | real medians reached |", "|" + " --- |" * (len(sources) + 2)]
    for name, title in STATISTICS.items():
        cells, medians = [], []
        for source in sources:
            values = by_source[source][name]
            cells.append(" / ".join(f"{v:.2g}" for v in np.quantile(values, (0.1, 0.5, 0.9))) if values else "-")
            if values and source != "simulated":
                medians.append(float(np.median(values)))
        ours = by_source.get("simulated", {}).get(name, [])
        low, high = np.quantile(ours, (0.05, 0.95)) if ours else (0.0, 0.0)
        reached = sum(low <= median <= high for median in medians)
        lines.append(f"| {title} | " + " | ".join(cells) + f" | {reached} of {len(medians)} |")
    return lines


if __name__ == "__main__":
    raise SystemExit(main())
