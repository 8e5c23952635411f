"""Confidence against truth over every source: real captures, frameworks, gloo, production, another simulator, our own.

    python benchmarks/calibration.py                              all sources, 20 random scenarios of ours
    python benchmarks/calibration.py --source gloo --source captures
    python benchmarks/calibration.py --into docs/accuracy.md      tables and plot into the page

Prints per source what was right and per kind of claim the expected calibration error and the share that was wrong and
stated above 0.9; the plot shows share right by stated confidence (the diagonal is perfect). `measure` returns the
claims for other scripts. Sources are folders of cases under ../shared/data; one that is not there is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from calibration_plot import reliability_svg
from claims import CLAIM_KINDS, SURE, Claim, reliability
from robust_case import CHECKS, Outcome, diagnose_folder, run_case
from robust_draw import draw_scenario

__all__ = [
    "SOURCES",
    "Measured",
    "calibration_table",
    "measure",
    "section",
    "source_scores",
    "with_parts_of",
    "with_section",
]

ROOT = Path(__file__).parents[1]
DATA = ROOT / "../shared/data"
SOURCES = ("captures", "captures_more", "frameworks", "gloo", "production", "othersim")
SIMULATED = "simulated"
HEADING = "## Is 0.9 right nine times in ten?"


@dataclass(frozen=True)
class Measured:
    """What one case of a source gave."""

    source: str
    outcome: Outcome


def measure(sources: Sequence[str] = SOURCES, simulated: int = 20, jobs: int = 0, first: int = 1) -> list[Measured]:
    """Every case of these sources, and so many random scenarios, diagnosed and compared with their truth."""
    tasks: list[tuple[str, str | int]] = []
    for source in sources:
        tasks += [(source, str(path.parent)) for path in sorted((DATA / source).glob("*/flows.parquet"))]
    tasks.sort(key=lambda task: -(Path(task[1]) / "flows.parquet").stat().st_size)  # type: ignore[arg-type]
    tasks += [(SIMULATED, seed) for seed in range(first, first + simulated)]
    with ProcessPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        return list(pool.map(_measured, tasks))


def _measured(task: tuple[str, str | int]) -> Measured:
    source, place = task
    if isinstance(place, int):
        return Measured(source, run_case(draw_scenario(place)))
    folder = Path(place)
    return Measured(source, diagnose_folder(f"{source}/{folder.name}", folder))


def calibration_table(claims: Iterable[Claim]) -> list[str]:
    """Right, calibration error and sure mistakes by kind of claim."""
    listed = list(claims)
    lines = ["| claims | weight | right | calibration error | wrong above 0.9 |", "| --- | --- | --- | --- | --- |"]
    for kind in (*CLAIM_KINDS, "all"):
        found = reliability(claim for claim in listed if kind in (claim.kind, "all"))
        if found.error is None or found.right is None or found.sure_and_wrong is None:
            continue
        right, sure = f"{100 * found.right:.1f} %", f"{100 * found.sure_and_wrong:.1f} %"
        lines.append(f"| {kind} | {found.weight:.0f} | {right} | {found.error:.3f} | {sure} |")
    return lines


def source_scores(measured: Sequence[Measured]) -> dict[str, dict[str, float]]:
    """Mean of every check's value by source; false alarms are summed."""
    scores: dict[str, dict[str, float]] = {}
    for source in dict.fromkeys(item.source for item in measured):
        outcomes = [item.outcome for item in measured if item.source == source]
        row: dict[str, float] = {"cases": float(len(outcomes))}
        for check in (*CHECKS, "period error"):
            values = [v for outcome in outcomes if (v := outcome.values.get(check)) is not None]
            if values:
                row[check] = sum(values) if check == "quiet" else sum(values) / len(values)
        row["layout"] = sum(outcome.layout_right for outcome in outcomes) / len(outcomes)
        error = reliability(c for outcome in outcomes for c in outcome.claims if c.kind == "layout").error
        row["layout calibration error"] = error if error is not None else 0.0
        scores[source] = row
    return scores


def _source_table(scores: dict[str, dict[str, float]]) -> list[str]:
    columns = ("cases", *(check for check in CHECKS if check != "ran"), "layout", "layout calibration error")
    titles = ["false alarms" if column == "quiet" else column for column in columns]
    lines = ["| source | " + " | ".join(titles) + " |", "|" + " --- |" * (len(columns) + 1)]
    for source, row in scores.items():
        cells = [f"{row[c]:.0f}" if c in ("cases", "quiet") else f"{row[c]:.3f}" if c in row else "-" for c in columns]
        lines.append(f"| {source} | " + " | ".join(cells) + " |")
    return lines


def section(svg: Path, simulated: int = 20, jobs: int = 0) -> list[str]:
    """The part of docs/accuracy.md on confidence; writes the plot beside it."""
    measured = measure(SOURCES, simulated, jobs)
    claims = [claim for item in measured for claim in item.outcome.claims]
    svg.parent.mkdir(parents=True, exist_ok=True)
    svg.write_text(reliability_svg(claims), encoding="utf-8")
    return [
        "Every source with a truth, and random scenarios of `benchmarks/robust.py` (seeds 1 and up). A claim is right",
        "when the truth agrees; the claims of one kind about one job weigh 1 together. The plot shows the share right",
        "by stated confidence: on the diagonal 0.9 is right nine times in ten, below it the report is too sure.",
        "",
        f"![Share right by stated confidence](images/{svg.name})",
        "",
        *_report(measured),
    ]


def with_section(document: str, lines: Sequence[str], heading: str = HEADING) -> str:
    """A page with the part of this heading replaced by these lines, or with one more part at its end."""
    before, found, rest = document.partition(heading + "\n")
    _, following, after = rest.partition("\n## ") if found else ("", "", "")
    text = before.rstrip("\n") + "\n\n" + "\n".join([heading, "", *lines]) + "\n"
    return text + ("\n## " + after if following else "")


def with_parts_of(page: str, before: str) -> str:
    """A page written anew, with the parts at its end that only the page before it has: other programs wrote them."""
    _, *new = page.split("\n## ")
    headings = {part.partition("\n")[0] for part in new}
    _, *old = before.split("\n## ")
    others = [part for part in old if part.partition("\n")[0] not in headings]
    return "\n## ".join([page, *others]).rstrip("\n") + "\n" if others else page


def _report(measured: Sequence[Measured]) -> list[str]:
    """Scores by source, calibration by kind of claim, and the cases whose layout was wrong and stated above 0.9."""
    claims = [claim for item in measured for claim in item.outcome.claims]
    lines = [*_source_table(source_scores(measured)), "", *calibration_table(claims)]
    sure = sorted({i.outcome.name for i in measured if any(_sure_mistake(claim) for claim in i.outcome.claims)})
    jobs = sum(claim.kind == "layout" for claim in claims)
    wrong = sum(_sure_mistake(claim) for claim in claims)
    if sure:
        lines += ["", f"{wrong} of {jobs} jobs have a wrong layout stated above {SURE}: {', '.join(sure)}."]
    return lines


def _sure_mistake(claim: Claim) -> bool:
    return claim.kind == "layout" and not claim.right and claim.confidence > SURE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", action="append", help=f"one of {', '.join(SOURCES)} (default: all)")
    parser.add_argument("--simulated", type=int, default=20, help="random scenarios of our own (default 20)")
    parser.add_argument("--jobs", type=int, default=0, help="processes (default: all cores)")
    parser.add_argument("--svg", type=Path, help="write the reliability plot here")
    parser.add_argument("--into", type=Path, help="put tables and plot into this page, such as docs/accuracy.md")
    parser.add_argument("--markdown", type=Path, help="write the tables here too")
    parser.add_argument("--json", type=Path, help="write the sources' scores here (for robust_sources.py)")
    arguments = parser.parse_args()
    begin = time.perf_counter()
    if arguments.into is not None:
        lines = section(arguments.into.parent / "images" / "calibration.svg", arguments.simulated, arguments.jobs)
        document = arguments.into.read_text(encoding="utf-8")
        arguments.into.write_text(with_section(document, lines), encoding="utf-8")
        return 0
    measured = measure(arguments.source or SOURCES, arguments.simulated, arguments.jobs)
    claims = [claim for item in measured for claim in item.outcome.claims]
    lines = _report(measured)
    print("\n".join(lines))
    print(f"\n{len(measured)} cases in {time.perf_counter() - begin:.0f} s")
    if arguments.svg is not None:
        arguments.svg.write_text(reliability_svg(claims), encoding="utf-8")
    if arguments.markdown is not None:
        arguments.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if arguments.json is not None:
        arguments.json.write_text(
            json.dumps(source_scores(measured), indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
