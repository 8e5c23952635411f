"""Which change to the inference looked at which source, and what the sources that it did not look at say.

    python benchmarks/robust_sources.py                              the table
    python benchmarks/calibration.py --json out/scores.json          measure all sources, then note the change:
    python benchmarks/robust_sources.py --record "layouts compete" --looked-at gloo --scores out/scores.json

A rule that was made while looking at one source must help, or at least not harm, those that it was not made for. Each
line of robust_sources.jsonl holds one change: its text, its commit, the sources that were opened while it was made, and
the scores of all sources after it. The table compares each line with the one before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parents[1]
RECORD: Final = Path(__file__).parent / "robust_sources.jsonl"
MEASURES: Final = ("jobs", "pairs", "groups", "pipelines", "micro-batches", "steps")
"""What a source's one number is the mean of."""


@dataclass(frozen=True)
class Change:
    """`scores` by source, as calibration.py writes them; `looked_at` empty: a measurement without a change."""

    change: str
    commit: str
    looked_at: tuple[str, ...]
    scores: dict[str, dict[str, float]]

    def score(self, source: str) -> float | None:
        """One number for a source: the mean of what was right of jobs, pairs, groups, pipelines and steps."""
        row = self.scores.get(source)
        values = [row[name] for name in MEASURES if name in row] if row else []
        return sum(values) / len(values) if values else None


def read_record(text: str) -> list[Change]:
    items: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [Change(i["change"], i["commit"], tuple(i["looked_at"]), i["scores"]) for i in items]


def table(changes: Sequence[Change]) -> list[str]:
    """One row per change: what it did to the sources that it looked at and to the others."""
    sources = list(dict.fromkeys(source for change in changes for source in change.scores))
    head = ["change", "looked at", *sources, "looked at, mean change", "others, mean change"]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    before: Change | None = None
    for change in changes:
        cells = []
        moves: dict[str, float] = {}
        for source in sources:
            now, then = change.score(source), before.score(source) if before else None
            if now is None:
                cells.append("-")
                continue
            if then is not None:
                moves[source] = now - then
            mark = "*" if source in change.looked_at else ""
            cells.append(f"{now:.3f}{mark}" + (f" ({now - then:+.3f})" if then is not None else ""))
        seen = [move for source, move in moves.items() if source in change.looked_at]
        unseen = [move for source, move in moves.items() if source not in change.looked_at]
        row = [change.change, ", ".join(change.looked_at) or "-", *cells, _mean(seen), _mean(unseen)]
        lines.append("| " + " | ".join(row) + " |")
        before = change
    return lines


def _mean(values: list[float]) -> str:
    return f"{sum(values) / len(values):+.3f}" if values else "-"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", metavar="TEXT", help="note a change with this text")
    parser.add_argument("--looked-at", action="append", default=[], metavar="SOURCE", help="a source it looked at")
    parser.add_argument("--scores", type=Path, help="scores of all sources, as calibration.py --json writes them")
    parser.add_argument("--commit", help="its commit (default: the one that is checked out)")
    arguments = parser.parse_args()
    if arguments.record:
        if arguments.scores is None:
            parser.error("--record needs --scores")
        commit = arguments.commit or _commit()
        scores = json.loads(arguments.scores.read_text(encoding="utf-8"))
        entry = Change(arguments.record, commit, tuple(arguments.looked_at), _rounded(scores))
        with RECORD.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(entry), sort_keys=True) + "\n")
    print("\n".join(table(read_record(RECORD.read_text(encoding="utf-8") if RECORD.is_file() else ""))))
    return 0


def _rounded(scores: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {source: {name: round(value, 4) for name, value in row.items()} for source, row in scores.items()}


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


if __name__ == "__main__":
    raise SystemExit(main())
