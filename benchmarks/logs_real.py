"""Real logs: ours and the published L4 rules on the same runs. `make bench-logs`.

Staged failures (zoo), captures with faults, whole MLPerf runs. For runs with a guilty rank: is it first, is it among
the first three. For normal runs: is nothing reported, as they are, in colour, wrapped in docker's JSON, with a
Kubernetes prefix, with and without reference runs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmprism import dataset
from llmprism.logs.diagnose import diagnose_log
from llmprism.logs.joblog import JobLog
from llmprism.logs.l4 import diagnose_by_l4
from llmprism.logs.library import Library, load_library
from llmprism.logs.reader import read_job, read_job_lines
from llmprism.logs.reference import Reference
from llmprism.model.log import CauseClass, LogDiagnosis, Outcome
from llmprism.score import read_document

DATA = Path(__file__).parents[1] / "../shared/data"
CAPTURES = {  # capture → guilty rank, by the address in its truth
    "captures/crash": 6,
    "frameworks/fsdp_crash": 6,
    "frameworks/pipe_int_hang": 5,
}


def zoo_cases() -> list[tuple[str, list[Path], int | None]]:
    cases = []
    for folder in sorted(path for path in (DATA / "zoo").iterdir() if path.is_dir()):
        truth = json.loads((folder / "truth.json").read_text())
        if truth["label"] == "failed":
            cases.append((f"zoo/{folder.name}", [folder], truth["rank"]))
    return cases + [(name, [DATA / name / "logs.tar.gz"], rank) for name, rank in CAPTURES.items()]


def dataset_cases(split: str) -> list[tuple[str, list[Path], int | None]]:
    """Captures of the open dataset in which one rank died or hung and the job did not come back."""
    found: list[tuple[str, list[Path], int | None]] = []
    for case in dataset.cases(split):
        truth = read_document(case.folder / "truth.json.gz")
        if len(truth["jobs"]) != 1 or [fault["kind"] for fault in truth["faults"]] not in (["crash"], ["hang"]):
            continue
        with tarfile.open(case.folder / "logs.tar.gz") as archive:
            restarted = any(name.startswith("train.1/") for name in archive.getnames())
        if not restarted:
            rank = truth["faults"][0]["planted"]["rank"]
            found.append((f"dataset/{case.name}", [case.folder / "logs.tar.gz"], rank))
    return found


def dataset_totals(library: Library) -> list[str]:
    """How often the guilty rank of a capture is first and among three, ours and L4; cases of `test` are not listed."""
    lines = []
    for split in dataset.SPLITS:
        runs = compared_runs(library, dataset_cases(split))
        places = {"ours": [run.ours for run in runs], "L4": [run.l4 for run in runs]}
        said = ", ".join(
            f"{who} {sum(place == 1 for place in held)} first, {sum(place in (1, 2, 3) for place in held)} among three"
            for who, held in places.items()
        )
        lines.append(f"{len(runs)} captures of the dataset's {split} split with a rank that died or hung: {said}")
    return lines


def place_of(rank: int, ranked: list[int | None]) -> int | None:
    return ranked.index(rank) + 1 if rank in ranked else None


@dataclass(frozen=True, slots=True)
class Compared:
    """On which place each method ranks the guilty rank of a run; `rank` None: nobody is to blame."""

    run: str
    rank: int | None
    ours: int | None
    l4: int | None
    ours_blames: int
    l4_blames: int


def compared_runs(library: Library, cases: list[tuple[str, list[Path], int | None]] | None = None) -> list[Compared]:
    """Runs with a truth (without `cases` the shared ones), diagnosed by both methods."""
    good = Reference()
    for name in ("ok_a", "ok_b") if cases is None else ():
        good.learn(read_job([DATA / "zoo" / name], library))
    made = []
    for name, paths, rank in zoo_cases() if cases is None else cases:
        log, table = read_job_lines(paths, library)
        reference = good if name.startswith("zoo") else None
        ours = diagnose_log(log, normal=reference)
        l4 = diagnose_by_l4(log, table, reference)
        places: list[int | None] = [None, None]
        if rank is not None:
            ranked = [s.rank for s in (ours.suspects or (None,)) if s] + [s.rank for s in ours.ranking]
            places = [place_of(rank, ranked), place_of(rank, [s.rank for s in l4.ranking])]
        made.append(Compared(name, rank, places[0], places[1], len(ours.suspects), len(l4.suspects)))
    return made


def table_of_runs(runs: list[Compared]) -> list[str]:
    """The comparison as a table with totals."""
    lines = ["| run | guilty | ours: place | L4: place |", "| --- | --- | --- | --- |"]
    for run in runs:
        if run.rank is None:
            lines.append(f"| {run.run} | nobody | {run.ours_blames} blamed | {run.l4_blames} blamed |")
        else:
            lines.append(f"| {run.run} | rank {run.rank} | {run.ours} | {run.l4} |")
    guilty = [run for run in runs if run.rank is not None]
    for most in (1, 3):
        ours, l4 = (sum(place is not None and place <= most for place in places) for places in zip(
            *((run.ours, run.l4) for run in guilty), strict=True
        ))  # fmt: skip
        lines.append(f"| guilty among the first {most} | {len(guilty)} runs | {ours} | {l4} |")
    return lines


def coloured(line: str) -> str:
    return f"\x1b[36m{line[:20]}\x1b[0m\x1b[1;31m{line[20:]}\x1b[0m"


def dockered(line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stdout", "time": "2026-11-15T01:02:03.000000001Z"})


def in_pod(line: str) -> str:
    return f"2026-11-15T01:02:03.000000001Z stdout F {line}"


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in colour": coloured,
    "docker JSON": dockered,
    "Kubernetes": in_pod,
}


def quiet(found: LogDiagnosis) -> bool:
    return found.cause.cause_class is CauseClass.NONE and found.outcome is Outcome.SUCCESS


def normal_runs(library: Library) -> None:
    manifest: list[dict[str, Any]] = json.loads((DATA / "trainlogs/manifest.json").read_text())
    normal = [entry for entry in manifest if entry["label"] == "normal"]
    logs = {entry["file"]: read_job([DATA / "trainlogs" / entry["file"]], library) for entry in normal}
    references = {entry["file"]: reference_of(entry, normal, logs) for entry in normal}
    for name, form in FORMS.items():
        alone = compared = 0
        for entry in normal:
            log = logs[entry["file"]] if form is str else rewritten(DATA / "trainlogs" / entry["file"], form, library)
            alone += quiet(diagnose_log(log))
            compared += quiet(diagnose_log(log, normal=references[entry["file"]]))
        print(f"normal runs that stay quiet, {name}: {alone} of {len(normal)}, with reference {compared}")


def reference_of(entry: dict[str, Any], normal: list[dict[str, Any]], logs: dict[str, JobLog]) -> Reference:
    """What the other normal runs of the family print."""
    reference = Reference()
    for other in normal:
        if other["family"] == entry["family"] and other is not entry:
            reference.learn(logs[other["file"]])
    return reference


def rewritten(path: Path, form: Callable[[str], str], library: Library) -> JobLog:
    """A packed log read after every line was given another form."""
    text = gzip.decompress(path.read_bytes()).decode("utf-8", "replace")
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / "job.log"
        changed.write_text("\n".join(form(line) for line in text.split("\n")), encoding="utf-8")
        return read_job([changed], library)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print("\n".join(dataset_totals(load_library())))
    if not DATA.is_dir():
        print("no ../shared/data by the project")
        return
    library = load_library()
    print("\n".join(table_of_runs(compared_runs(library))))
    normal_runs(library)


if __name__ == "__main__":
    main()
