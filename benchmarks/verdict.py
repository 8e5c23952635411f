"""Verdicts on real runs that have both flows and logs, beside flows alone and logs alone. `make bench-verdict`.

Claim: kind, place and cause class of the verdict are right on at least 11 of 12 kinds of real runs, never worse than
the better of the two parts, healthy runs with hundreds of error lines stay quiet, and ranks are matched to addresses.

Runs are those of the open dataset (`dataset/`, split `dev` shown case by case, `test` as totals) and of the shared
captures where that folder is present. A verdict is right where it has each true fault once, with its kind, its place
(or one that the truth calls equivalent) and a class of cause that the planted fault can have, and nothing else. The
logs alone get the address of their suspect from the truth. A leaf and its only cable to the others are one place where
the finding says so, as in `llmprism score`. Faults that the truth calls faint (less than 4 % of the
steps' length) are not scored: to name one, with its kind and place, is neither right nor wrong. Noisy runs are the same
with hundreds of error lines of public reports written into the logs in mid-run: healthy ones must stay quiet, verdicts
on faults must stay as right as they were.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from llmprism.engine import RunOptions, engine_named
from llmprism.ingest import read_topology
from llmprism.logs.library import Library, load_library
from llmprism.model.finding import Finding, FindingKind, Where
from llmprism.model.log import CauseClass, LogDiagnosis, Outcome, Symptom
from llmprism.model.report import Report
from llmprism.score import read_document
from llmprism.verdict import LoggedJob, find_log_folders, read_logs, read_together
from llmprism.verdict.case import cause_of_kind

ROOT: Final = Path(__file__).resolve().parents[1]
SHARED: Final = ROOT / "../shared/data"
SOURCES: Final = ("captures", "captures_more", "frameworks")
NOISE_LINES: Final = 300
IDENTITY: Final = re.compile(r"^\d+: |:\d+:\d+ \[|rank|srun|slurm|task|exitcode|node|worker|\d+\.\d+\.\d+\.\d+", re.I)

CLASSES: Final = {
    "slow_gpu": {"hardware.gpu"},
    "slow_nic": {"hardware.nic", "network"},
    "delay": {"hardware.nic", "network"},
    "loss": {"hardware.nic", "network"},
    "link_down": {"hardware.nic", "network", "unknown"},
    "slow_leaf": {"network"},
    "slow_switch": {"network"},
    "slow_uplink": {"network"},
    "slow_link": {"network"},
    "slow_storage": {"storage"},
    "stall": {"unknown", "hardware.node", "platform"},
    "hang": {"unknown", "framework"},
    "killed": {"hardware.node", "platform"},
    "crash": {"user.data", "user.config", "user.code"},
    "bad_sample": {"user.data", "user.config", "user.code"},
    "mismatched_collective": {"user.code", "framework"},
    "out_of_memory": {"user.resource"},
}
"""Classes that each planted fault can have: `killed` ranks leave no word, `crash` and `bad_sample` raise on a damaged
sample."""


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    folder: Path
    split: str

    @property
    def truth(self) -> dict[str, Any]:
        return dict(read_document(self.folder / "truth.json.gz"))


@dataclass(frozen=True, slots=True)
class Fault:
    """`places` are the names that count as the place; `rank` is None where the truth does not say it."""

    kind: str
    places: frozenset[str]
    classes: frozenset[str]
    rank: int | None


@dataclass(frozen=True, slots=True)
class Said:
    """One statement of a side: kind, place as a name, class; `same` is the same place by its other name, as a leaf and
    its only cable are (kind, place)."""

    kind: str
    place: str
    cause: str
    same: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Row:
    run: Run
    faults: list[Fault]
    flows: tuple[int, int, int]
    logs: tuple[int, int, int]
    both: tuple[int, int, int]
    quiet: tuple[bool, bool, bool]
    ranks: tuple[int, int, int]
    noisy: bool | None = None
    said: str = ""

    def right(self, part: tuple[int, int, int], quiet: bool) -> bool:
        return quiet if not self.faults else min(part) == len(self.faults) and quiet


def runs(split: str) -> Iterator[Run]:
    if split != "test" and SHARED.is_dir():
        for source in SOURCES:
            for folder in sorted((SHARED / source).iterdir()):
                if (folder / "logs.tar.gz").is_file():
                    yield Run(f"{source}/{folder.name}", folder, "dev")
    for case in json.loads((ROOT / "dataset/cases.json").read_text())["cases"]:
        folder = ROOT / "dataset" / case["name"]
        if (folder / "logs.tar.gz").is_file() and split in ("all", case["split"]):
            yield Run(f"dataset/{case['name']}", folder, case["split"])


def faults_of(truth: dict[str, Any], key: str = "faults") -> list[Fault]:
    found = []
    for fault in truth.get(key, ()):
        where, planted = fault["where"], fault.get("planted", {})
        place = where if isinstance(where, str) else where["id"]
        places = {"|".join(sorted(place)) if isinstance(place, list) else str(place), *fault.get("equivalents", ())}
        kind = str(fault["kind"])
        if not isinstance(where, str) and where["type"] == "job":
            places |= {str(fault.get("address")), "job"}
        cause = planted.get("kind") or ("killed" if kind == "crash" else kind)
        on_rank = isinstance(where, str) or where["type"] in ("gpu", "nic", "job")
        rank = planted.get("rank") if on_rank else None
        order = list(truth["jobs"][0]["rank_steps"]) if not planted else []
        if place in order:
            rank = order.index(place)
        found.append(Fault(kind, frozenset(places), frozenset(CLASSES[cause]), rank))
    return found


def flow_report(run: Run, truth: dict[str, Any]) -> Report:
    until = truth.get("capture_end_ns") or truth["window"]["end_ns"]
    options = RunOptions(with_events=False, watched_until_ns=int(until), jobs=1)
    topology = read_topology(str(run.folder / "topology.json"))
    return engine_named("local", None).diagnose([str(run.folder / "flows.parquet")], topology, options)


def place_of(where: Where) -> str:
    if where.type.value == "job":
        return "job"
    return where.id if isinstance(where.id, str) else "|".join(sorted(where.id))


def said(finding: Finding, cause: str) -> Said:
    same = tuple((one.kind.value, place_of(one.where)) for one in finding.alternatives if one.same_place)
    return Said(finding.kind.value, place_of(finding.where), cause, same)


def said_by_flows(report: Report) -> list[Said]:
    return [said(f, cause_of_kind(f).cause_class.value) for f in report.findings]


def said_by_both(report: Report) -> list[Said]:
    assert report.reading is not None
    pairs = zip(report.findings, report.reading.verdicts, strict=True)
    return [said(f, v.cause.cause_class.value) for f, v in pairs]


def said_by_logs(found: LogDiagnosis, faults: list[Fault]) -> list[Said]:
    """What the logs alone say, with the truth's address for the true rank."""
    if found.cause.cause_class is CauseClass.NONE or found.outcome in (Outcome.CANCELLED, Outcome.TIME_LIMIT):
        return []
    kinds = {Symptom.HANG: FindingKind.HANG, Symptom.SLOW: FindingKind.SLOW_STEP}
    kind = kinds.get(found.symptom, FindingKind.CRASH if found.outcome is Outcome.FAILED else FindingKind.DIVERGED)
    rank = found.suspects[0].rank if found.suspects else None
    true = next((fault for fault in faults if rank is not None and fault.rank == rank), None)
    place = next(iter(true.places)) if true is not None else "job" if rank is None else f"rank {rank}"
    return [Said(kind.value, place, found.cause.cause_class.value)]


def judge(
    said: list[Said], faults: list[Fault], faint: list[Fault] | tuple[()] = ()
) -> tuple[tuple[int, int, int], bool]:
    """Faults with the right kind, then the right place too, then the right class too; second, nothing else was said."""
    left = [one for one in said if not any(agreement(one, fault)[1] for fault in faint)]
    right = [0, 0, 0]
    for fault in faults:
        match = max(left, key=lambda one: agreement(one, fault), default=None)
        if match is None or not sum(agreement(match, fault)):
            continue
        left.remove(match)
        for at, good in enumerate(agreement(match, fault)):
            right[at] += good
    return (right[0], right[1], right[2]), not left


def agreement(said: Said, fault: Fault) -> tuple[int, int, int]:
    names = ((said.kind, said.place), *said.same)
    kind = any(name == fault.kind for name, _ in names)
    place = any(name == fault.kind and where in fault.places for name, where in names)
    return int(kind), int(place), int(place and said.cause in fault.classes)


def rank_score(report: Report, truth: dict[str, Any], faults: list[Fault]) -> tuple[int, int, int]:
    """(ranks matched rightly, ranks whose seat the truth knows, ranks whose logs name an address of the flows)."""
    assert report.reading is not None
    order: dict[tuple[str, int], str] = {}
    known = [job for job in truth["jobs"] if "dp_groups" in job]
    for job, log in zip(known, report.reading.jobs, strict=False):
        order |= {(log.name, rank): address for rank, address in enumerate(job["rank_steps"])}
    right = total = named = 0
    for log in report.reading.jobs:
        for seat in log.seats:
            named += seat.confidence > 0.9
            true = order.get((log.name, seat.rank if seat.rank is not None else -1))
            if not known and len(report.reading.jobs) == 1:
                true = next((min(f.places) for f in faults if f.rank == seat.rank and len(f.places) == 1), None)
            total += true is not None
            right += true is not None and seat.address == true
    return right, total, named


def noise() -> list[str]:
    """Error lines of public reports that say nothing of who wrote them: a rank's file holds no other rank's lines."""
    path = SHARED / "failure_signatures.jsonl"
    if not path.is_file():
        return ["RuntimeError: NCCL communicator was aborted", "NVRM: Xid (PCI:0000:3b:00): 63, row remapping pending"]
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    texts = [str(text) for line in lines for text in line["line_examples"]]
    return [text for text in texts if not IDENTITY.search(text)]


def with_noise(run: Run, report: Report, library: Library) -> list[Said]:
    """What is said of the run with hundreds of error lines in the midst of its iterations."""
    errors = (noise() * NOISE_LINES)[:NOISE_LINES]
    with tempfile.TemporaryDirectory() as root:
        with tarfile.open(run.folder / "logs.tar.gz") as archive:
            archive.extractall(root, filter="data")
        for number, path in enumerate(sorted(Path(root).rglob("*.log"))):
            lines = path.read_text(errors="replace").splitlines()
            counted = [at for at, line in enumerate(lines) if "iteration" in line]
            middle = counted[len(counted) // 2] if counted else len(lines) // 2
            own = errors[number % 7 :: 7]
            path.write_text("\n".join([*lines[:middle], *own, *lines[middle:]]) + "\n")
        return said_by_both(together(report, Path(root), library))


def together(report: Report, logs: Path, library: Library) -> Report:
    return read_together(report, logged(logs, library))


def logged(logs: Path, library: Library) -> list[LoggedJob]:
    return read_logs(find_log_folders(str(logs)), library)


def measure(run: Run, library: Library, *, noisy: bool) -> Row:
    truth = run.truth
    faults, faint = faults_of(truth), faults_of(truth, "faint")
    report = flow_report(run, truth)
    views = logged(run.folder / "logs.tar.gz", library)
    joint = read_together(report, views)
    flows, flows_quiet = judge(said_by_flows(report), faults, faint)
    both, both_quiet = judge(said_by_both(joint), faults, faint)
    by_logs = [one for view in views for one in said_by_logs(view.view.diagnosis, faults)]
    logs, logs_quiet = judge(by_logs, faults, faint)
    row = Row(run, faults, flows, logs, both, (flows_quiet, logs_quiet, both_quiet), rank_score(joint, truth, faults))
    row.said = "; ".join(f"{one.kind} {one.place} {one.cause}" for one in said_by_both(joint)) or "quiet"
    if noisy:
        row.noisy = judge(with_noise(run, report, library), faults, faint) == (both, both_quiet)
    return row


def print_table(rows: list[Row]) -> None:
    print(f"{'run':<34} {'fault':<14} {'flows':<6} {'logs':<6} {'both':<6} {'ranks':<7} said")
    for row in rows:
        marks = [mark(row, part, quiet) for part, quiet in zip(parts(row), row.quiet, strict=True)]
        kind = "+".join(fault.kind for fault in row.faults) or "healthy"
        right, total, _ = row.ranks
        ranks = f"{right}/{total}" if total else "-"
        print(f"{row.run.name:<34} {kind:<14} {marks[0]:<6} {marks[1]:<6} {marks[2]:<6} {ranks:<7} {row.said}")


def parts(row: Row) -> tuple[tuple[int, int, int], ...]:
    return row.flows, row.logs, row.both


def mark(row: Row, part: tuple[int, int, int], quiet: bool) -> str:
    """`kpc`: kind, place and cause class are right; a dash where not; `+` for something said besides."""
    if not row.faults:
        return "quiet" if quiet else "ALARM"
    many = len(row.faults)
    letters = "".join(letter if count == many else "-" for letter, count in zip("kpc", part, strict=True))
    return letters + ("" if quiet else "+")


def print_totals(name: str, rows: list[Row]) -> None:
    by_kind: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_kind["+".join(sorted({fault.kind for fault in row.faults})) or "healthy"].append(row)
    print(f"\n{name}: right in kind, place and class (flows / logs / both of runs)")
    for kind, some in sorted(by_kind.items()):
        counts = [sum(row.right(parts(row)[at], row.quiet[at]) for row in some) for at in range(3)]
        parts_right = [sum(row.both[which] for row in some) for which in range(3)]
        more = sum(not row.quiet[2] for row in some)
        detail = f"  both: kind {parts_right[0]}, place {parts_right[1]}, class {parts_right[2]}, too many {more}"
        shown = "" if kind == "healthy" else detail
        print(f"  {kind:<24} {counts[0]:>3} {counts[1]:>3} {counts[2]:>3} of {len(some)}{shown}")
    counts = [sum(row.right(parts(row)[at], row.quiet[at]) for row in rows) for at in range(3)]
    verdicts = [[row.right(part, quiet) for part, quiet in zip(parts(row), row.quiet, strict=True)] for row in rows]
    worse = sum((flows or logs) and not both for flows, logs, both in verdicts)
    alone = sum(both and not flows and not logs for flows, logs, both in verdicts)
    kept = sum(not row.quiet[2] for row in rows)
    quiet = [row.noisy for row in rows if row.noisy is not None and not row.faults]
    same = [row.noisy for row in rows if row.noisy is not None and row.faults]
    right, total = sum(row.ranks[0] for row in rows), sum(row.ranks[1] for row in rows)
    named = [row for row in rows if row.ranks[2]]
    print(f"  all {counts[0]} {counts[1]} {counts[2]} of {len(rows)}; both worse than the better part in {worse} runs")
    for name, at in (("flows", 0), ("logs", 1), ("both", 2)):
        kinds, places, classes = (sum(parts(row)[at][which] for row in rows) for which in range(3))
        faults = sum(len(row.faults) for row in rows)
        print(f"  {name:<5} kind {kinds}, and place {places}, and class {classes} of {faults} faults")
    print(f"  right where neither part is: {alone}; runs with a finding too many: {kept}")
    print(f"  ranks at their address {right} of {total}; runs whose logs name addresses {len(named)}")
    if quiet:
        print(f"  healthy runs with {NOISE_LINES} error lines quiet: {sum(quiet)} of {len(quiet)}")
        print(f"  runs with faults and {NOISE_LINES} error lines judged as without: {sum(same)} of {len(same)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=("dev", "test", "all"), default="dev")
    parser.add_argument("--noisy", action="store_true", help="also every run with noise in its logs")
    parser.add_argument("names", nargs="*", help="parts of names of runs; all by default")
    options = parser.parse_args()
    library = load_library()
    wanted = [run for run in runs(options.split) if not options.names or any(n in run.name for n in options.names)]
    rows = []
    for run in wanted:
        rows.append(measure(run, library, noisy=options.noisy))
        print(f"\r{len(rows)} of {len(wanted)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    shown = [row for row in rows if row.run.split == "dev"]
    if shown:
        print_table(shown)
        print_totals("shared captures and dev", shown)
    hidden = [row for row in rows if row.run.split == "test"]
    if hidden:
        print_totals("test", hidden)
    return 0


if __name__ == "__main__":
    sys.exit(main())
