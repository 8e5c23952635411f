"""Claim: what collectors do to records changes few answers. Captures with known truth, as they are and disturbed.

    python benchmarks/perturbed.py                               all shared sources, every disturbance
    python benchmarks/perturbed.py captures gloo --only lost     some of them
    python benchmarks/perturbed.py --each                        a line for every case that a disturbance makes worse

Each disturbance is one that exporters and collectors are known for: records that are lost one by one or a datagram at a
time, packets that are sampled, time stamps of milliseconds, a switch whose clock is off, no topology. Prints for each
what is right of jobs, pairs, groups, pipelines, micro-batches and faults, the mean F1 of steps, false alarms, and the
ratio of what is right to what is right as recorded.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

import duckdb
import numpy as np

from llmprism.cli.diagnose import diagnose_files
from llmprism.report.json_report import document
from llmprism.score import Score, read_truth, score_report

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "../shared/data"
SOURCES: Final = ("captures", "captures_more", "frameworks", "gloo", "production", "othersim")

DATAGRAM_RECORDS: Final = 24
"""Records of one NetFlow datagram: as many as fit into 1,500 bytes."""

PACKET_BYTES: Final = 1_448

LOST: Final = "(hash(start_ns, src, dst, bytes, rowid) % 1000)"
DATAGRAM: Final = f"(hash(src, (row_number() OVER (PARTITION BY src ORDER BY end_ns)) // {DATAGRAM_RECORDS}) % 1000)"
FIRST_LEAF: Final = "(SELECT min(switches[1]) FROM flows)"

DISTURBED: Final = {
    "as recorded": "FROM flows",
    "1 in 50 records lost": f"FROM flows WHERE {LOST} >= 20",
    "1 in 10 records lost": f"FROM flows WHERE {LOST} >= 100",
    "1 in 10 datagrams lost": f"FROM flows QUALIFY {DATAGRAM} >= 100",
    "1 in 10 packets sampled": "SELECT * REPLACE (sampled AS bytes) FROM flows WHERE sampled > 0",
    "stamps of milliseconds": (
        "SELECT * REPLACE (start_ns // 1000000 * 1000000 AS start_ns, end_ns // 1000000 * 1000000 AS end_ns) FROM flows"
    ),
    "one leaf 5 ms ahead": (
        f"SELECT * REPLACE (start_ns + ahead AS start_ns, end_ns + ahead AS end_ns) FROM (FROM flows SELECT *, "
        f"CASE WHEN switches[1] = {FIRST_LEAF} THEN 5000000 ELSE 0 END AS ahead)"
    ),
    "no topology": "FROM flows",
}
"""What is left of the records, as a query. `sampled` are the bytes that sampled packets stand for."""

WITHOUT_TOPOLOGY: Final = "no topology"


@dataclass(frozen=True)
class Right:
    """Numbers that are right, and false alarms; of steps the F1, 1 where the truth has none."""

    jobs: int
    pairs: float
    groups: int
    pipelines: int
    batches: int
    steps: float
    faults: int
    alarms: int

    @staticmethod
    def of(score: Score) -> Right:
        f1 = score.steps.boundaries.f1
        structure = score.structure
        return Right(
            score.jobs.exact.right, score.pairs.accuracy or 0.0, structure.groups.right, structure.pipelines.right,
            structure.micro_batches.right, 1.0 if f1 is None else f1, score.faults.exact.right,
            score.faults.false_alarms,
        )  # fmt: skip


def folders_of(sources: Sequence[str]) -> list[Path]:
    """The folders of these sources: those of ../shared/data, or any others."""
    return [DATA / name if (DATA / name).exists() else Path(name) for name in sources]


def cases_of(folder: Path) -> list[Path]:
    """The captures in a folder that have a truth."""
    return sorted(path.parent for path in folder.glob("*/truth.json.gz"))


def disturb(flows: Path, how: str, out: Path) -> None:
    """Writes the records of a capture as they are after a disturbance; the same ones every time."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE flows AS SELECT *, 0::BIGINT AS sampled FROM '{flows}'")
        if "sampled" in DISTURBED[how]:
            size = connection.execute("SELECT bytes FROM flows ORDER BY rowid").fetchnumpy()["bytes"]
            packets = np.maximum(1, -(-size // PACKET_BYTES))
            seen = np.random.default_rng(7).binomial(packets, 0.1)
            estimate = {"sampled": (seen * 10 * (size / packets)).astype(np.int64), "row": np.arange(size.size)}
            connection.register("estimate", estimate)
            connection.execute("UPDATE flows SET sampled = e.sampled FROM estimate e WHERE flows.rowid = e.row")
        columns = "SELECT * EXCLUDE (sampled)"
        query = DISTURBED[how]
        connection.execute(f"COPY ({columns} FROM ({query})) TO '{out}' (FORMAT parquet)")


def score_of(folder: Path, how: str) -> Right:
    with tempfile.TemporaryDirectory() as made:
        flows = Path(made) / "flows.parquet"
        disturb(folder / "flows.parquet", how, flows)
        topology = None if how == WITHOUT_TOPOLOGY else str(folder / "topology.json")
        report = diagnose_files([str(flows)], topology, with_events=False)
    return Right.of(score_report(document(report), read_truth(folder / "truth.json.gz")))


def _task(task: tuple[Path, str]) -> Right:
    return score_of(*task)


def line(name: str, found: list[Right], reference: list[Right]) -> str:
    cells = []
    for field in fields(Right):
        values, before = ([getattr(one, field.name) for one in some] for some in (found, reference))
        mean = field.name in ("pairs", "steps")
        text = f"{np.mean(values):.3f}" if mean else f"{sum(values)}"
        share = "" if field.name == "alarms" or not sum(before) else f" ({sum(values) / sum(before):.2f})"
        cells.append(f"{text}{share}")
    return f"{name:<24}" + "".join(f"{cell:>14}" for cell in cells)


def worse(folder: Path, how: str, found: Right, reference: Right) -> str | None:
    """What a disturbance cost a case, where it cost something that counts."""
    lost = [
        f"{field.name} {getattr(reference, field.name):.3g} -> {getattr(found, field.name):.3g}"
        for field in fields(Right)
        if (getattr(reference, field.name) - getattr(found, field.name)) * (-1 if field.name == "alarms" else 1) > 0.02
    ]
    return f"  {how}: {folder.parent.name}/{folder.name}: {', '.join(lost)}" if lost else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", default=list(SOURCES), help="folders of ../shared/data, or any others")
    parser.add_argument("--only", default="", help="disturbances whose name holds this")
    parser.add_argument("--each", action="store_true", help="say which cases became worse")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args()
    cases = sorted(case for root in folders_of(arguments.sources) for case in cases_of(root))
    names = [how for how in DISTURBED if how == "as recorded" or arguments.only in how]
    print(f"{len(cases)} captures\n{'':<24}" + "".join(f"{field.name:>14}" for field in fields(Right)))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(_task, [(case, how) for how in names for case in cases]))
    by_name = {how: results[i * len(cases) : (i + 1) * len(cases)] for i, how in enumerate(names)}
    reference = by_name["as recorded"]
    for how in names:
        print(line(how, by_name[how], reference))
    if arguments.each:
        for how in names:
            for case, found, before in zip(cases, by_name[how], reference, strict=True):
                if (text := worse(case, how, found, before)) is not None:
                    print(text)


if __name__ == "__main__":
    main()
