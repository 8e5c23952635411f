"""Public failure reports, written down before anybody looked at what the program says to them. `make bench-logs`.

`public_reports.toml` holds lines of issue trackers (retyped) with what the thread established: the outcome, the classes
that it allows, and the rank or node, where it says so. Right is a report whose three points agree. Misleading is one
that names another class, or blames another rank, with a confidence of at least one half.
"""

from __future__ import annotations

import argparse
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmprism.logs.diagnose import diagnose_paths
from llmprism.logs.library import Library, load_library
from llmprism.model.log import CauseClass, LogDiagnosis, Suspect

REPORTS = Path(__file__).with_name("public_reports.toml")
HALF_SURE = 0.5
"""Confidence from which a claim is read as a statement."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of one report, and what was said."""

    name: str
    set: int
    outcome: bool
    cause: bool
    suspect: bool
    misleading: bool
    said: str

    @property
    def right(self) -> bool:
        return self.outcome and self.cause and self.suspect


def reports() -> list[dict[str, Any]]:
    return list(tomllib.loads(REPORTS.read_text(encoding="utf-8"))["report"])


def judge(report: dict[str, Any], library: Library) -> Judged:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.log"
        path.write_text(report["log"].strip("\n") + "\n", encoding="utf-8")
        found = diagnose_paths([path], library=library)
    said_class = found.cause.cause_class
    cause = said_class.value in report["cause"]
    suspect = blamed_rightly(found, report.get("suspect"))
    claims = said_class not in (CauseClass.UNKNOWN, CauseClass.NONE) and found.cause.confidence >= HALF_SURE
    blames = bool(found.suspects) and found.suspects[0].score >= HALF_SURE
    first = name_of(found.suspects[0]) if found.suspects else "nobody"
    return Judged(
        report["id"],
        int(report.get("set", 1)),
        found.outcome.value in report["outcome"],
        cause,
        suspect,
        (claims and not cause) or (blames and not suspect),
        f"{found.outcome.value}, {said_class.value} {found.cause.confidence:.2f} ({found.cause.signature}), {first}",
    )


def blamed_rightly(found: LogDiagnosis, wanted: str | None) -> bool:
    """Whether the first suspect is the one of the thread; "nobody" is right where nobody is suspected by half."""
    if wanted is None:
        return True
    if wanted == "nobody":
        return not found.suspects or found.suspects[0].score < HALF_SURE
    return bool(found.suspects) and wanted in (f"rank {found.suspects[0].rank}", f"node {found.suspects[0].node}")


def name_of(suspect: Suspect) -> str:
    who = f"rank {suspect.rank}" if suspect.rank is not None else f"node {suspect.node}"
    return f"{who} {suspect.score:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-v", "--verbose", action="store_true", help="every report, not only those that are not right")
    options = parser.parse_args()
    library = load_library()
    judged = [judge(report, library) for report in reports()]
    for one in judged:
        if options.verbose or not one.right:
            marks = " ".join(
                name if good else name.upper() + "!"
                for name, good in (("outcome", one.outcome), ("cause", one.cause), ("suspect", one.suspect))
            )
            print(f"{one.name:34s} {marks:26s} {one.said}")
    for number in sorted({one.set for one in judged}):
        these = [one for one in judged if one.set == number]
        right, misleading = sum(one.right for one in these), sum(one.misleading for one in these)
        print(f"set {number}: {right} of {len(these)} right in outcome, class and suspect, {misleading} misleading")


if __name__ == "__main__":
    main()
