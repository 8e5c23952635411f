"""The fault library on signatures of public failure reports whose cause somebody established. `make bench-logs`.

Each signature (`../shared/data/failure_signatures.jsonl`) is a few lines, the class of the cause and the lines' role.
Two questions: does the library know the lines (an entry of that role and class), and does a diagnosis of these lines
alone come to the same? For `root` it names the class. For `cascade` it blames no other class as a certainty: the lines
are consequences. For `warning` and `benign` it does not call the run failed. A cause that only a maintainer could find
behind a general message (`Connection reset by peer`) is `unknown` to an honest reader: counted as open, not as wrong.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmprism.logs.diagnose import diagnose_paths
from llmprism.logs.library import Fault, FaultRole, Library, load_library
from llmprism.logs.shapes import choose_fault
from llmprism.model.log import CauseClass, LogDiagnosis, Outcome

SIGNATURES = Path(__file__).parents[1] / "../shared/data/failure_signatures.jsonl"
HALF_SURE = 0.5
"""Confidence from which a blame is read as a statement."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of one signature. `verdict` is right, open (no claim was made) or wrong."""

    name: str
    cause: str
    role: str
    entries: tuple[str, ...]
    known: bool
    verdict: str
    said: str


def judge(signature: dict[str, Any], library: Library) -> Judged:
    lines = [str(line) for line in signature["line_examples"]]
    cause, role = cause_class(signature["root_cause_class"]), str(signature["role"])
    faults = [fault for line in lines if (fault := choose_fault(library.match(line.encode())[0])) is not None]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.log"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        found = diagnose_paths([path], library=library)
    return Judged(
        str(signature["id"]),
        signature["root_cause_class"],
        role,
        tuple(dict.fromkeys(fault.id for fault in faults)),
        is_known(faults, cause, role),
        verdict(found, cause, role),
        f"{found.outcome.value}, {found.cause.cause_class.value} {found.cause.confidence:.2f}",
    )


def cause_class(name: str) -> CauseClass | None:
    """The class of the contract: `platform.driver` is `platform`; None where the reporters themselves are not sure."""
    if name == "ambiguous":
        return None
    if name == "benign":
        return CauseClass.NONE
    return CauseClass.PLATFORM if name.startswith("platform.") else CauseClass(name)


def is_known(faults: Iterable[Fault], cause: CauseClass | None, role: str) -> bool:
    """Whether an entry stands for the signature."""
    if role in ("benign", "warning"):
        return all(fault.role in (FaultRole.BENIGN, FaultRole.WARNING) for fault in faults)
    if role == "cascade":
        return any(fault.role is FaultRole.CASCADE for fault in faults)
    return any(fault.role is FaultRole.ROOT and fault.cause is cause for fault in faults)


def verdict(found: LogDiagnosis, cause: CauseClass | None, role: str) -> str:
    said, failed = found.cause, found.outcome is Outcome.FAILED
    if role in ("benign", "warning"):
        return "wrong" if failed else "right"
    claims = said.cause_class not in (CauseClass.UNKNOWN, CauseClass.NONE)
    if role == "cascade" or cause is None:
        return "wrong" if claims and said.cause_class is not cause and said.confidence >= HALF_SURE else "right"
    if said.cause_class is cause:
        return "right"
    if not failed and found.outcome is not Outcome.TIME_LIMIT:
        return "missed" if found.outcome is not Outcome.UNKNOWN else "open"
    return "wrong" if claims and said.confidence >= HALF_SURE else "open"


def signatures() -> list[dict[str, Any]]:
    return [json.loads(line) for line in SIGNATURES.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    library = load_library()
    judged = [judge(signature, library) for signature in signatures()]
    print("| signature | class | role | entries | library knows it | diagnosis of the lines | says |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for one in judged:
        entries, known = ", ".join(one.entries), "yes" if one.known else "no"
        print(f"| {one.name} | {one.cause} | {one.role} | {entries} | {known} | {one.verdict} | {one.said} |")
    print()
    print("\n".join(table_of_classes(judged)))


def table_of_classes(judged: list[Judged]) -> list[str]:
    """Signatures by class of their cause."""
    lines = [
        "| class | signatures | known to the library | right | open | wrong |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for cause in [*sorted({one.cause for one in judged}), "all"]:
        these = [one for one in judged if cause in (one.cause, "all")]
        verdicts = Counter(one.verdict for one in these)
        wrong = verdicts["wrong"] + verdicts["missed"]
        known = sum(one.known for one in these)
        lines.append(f"| {cause} | {len(these)} | {known} | {verdicts['right']} | {verdicts['open']} | {wrong} |")
    return lines


if __name__ == "__main__":
    main()
