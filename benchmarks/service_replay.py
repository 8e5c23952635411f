"""Claim: a capture that arrives second by second gives the findings of `diagnose` on the whole file, in time.

Every record reaches the store in the second in which it ends; windows are made on a clock that runs with the records
and goes on for a while after the last one, as in a replay at real speed but without waiting. Prints, per capture, how
long after its start each finding opened and after its end it closed, and how the findings compare with `diagnose`.
Usage: python benchmarks/service_replay.py [--loop SECONDS] [--quiet SECONDS] [--phases COUNT] CAPTURE_FOLDER...
`--phases` plays it from so many beginnings within one hop: windows end at multiples of the hop, so each time they cut
the capture at other places, and what is found must not depend on that. `--loop` plays a capture again and again for so
long; `--quiet` is the time without records after it: 60 for a capture that ends, 0 for one that was cut off.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from llmprism.ingest import read_flows, read_topology
from llmprism.ingest.accept import TimeBounds, accept_flows
from llmprism.ingest.database import open_database
from llmprism.model.finding import Finding
from llmprism.model.live import FindingPhase, TrackedFinding
from llmprism.pipeline import diagnose
from llmprism.service.config import Config, StoreSettings, TopologySettings
from llmprism.service.evaluator import Evaluator
from llmprism.service.history import History
from llmprism.service.store import Batch, SourceBatch, Store

SECOND = 1_000_000_000
SETUP_S = 12
"""Left out of a capture when it is played again: a job sets itself up once."""

HOP_S = 4


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the service said about one capture. All times are on the clock that it was played on, in ns."""

    findings: tuple[TrackedFinding, ...]
    opened: dict[str, int]
    closed: dict[str, int]
    states: tuple[tuple[str, str], ...]
    periods: dict[str, float]
    begun_ns: int
    ended_ns: int
    cpu_s: float


def slices(flows: Path, folder: Path, loop_s: int, phase_s: float | None) -> Iterator[tuple[int, Path]]:
    """(second after the start, file) of the records that end in each second; from the set-up on again and again where
    `loop_s` asks for more. With a phase the times are moved so that the first one is so long after a window's end."""
    with open_database() as (connection, _):
        connection.execute(f"CREATE TABLE capture AS SELECT * FROM read_parquet('{flows}')")
        first, last = connection.execute("SELECT min(end_ns), max(end_ns) FROM capture").fetchone() or (0, 0)
        length = -(-(last - first + 1) // SECOND)
        lap_s = length - SETUP_S
        shift = 0 if phase_s is None else int(phase_s * SECOND) - first % (HOP_S * SECOND)
        for second in range(max(loop_s, length)):
            lap = 0 if second < length else 1 + (second - length) // lap_s
            at = second - lap * lap_s
            low, move = first + at * SECOND, lap * lap_s * SECOND + shift
            columns = f"* REPLACE (start_ns + {move} AS start_ns, end_ns + {move} AS end_ns)"
            query = f"SELECT {columns} FROM capture WHERE end_ns >= {low} AND end_ns < {low + SECOND}"
            file = folder / f"slice-{second}.parquet"
            connection.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet)")
            yield first + shift + (second + 1) * SECOND, file


def play(
    flows: Path,
    topology: Path | None,
    folder: Path,
    loop_s: int = 0,
    quiet_s: int = 60,
    phase_s: float | None = None,
) -> Replayed:
    config = Config(store=StoreSettings(folder=str(folder / "data")))
    if topology is not None:
        config = replace(config, topology=TopologySettings(file=str(topology)))
    store = Store(config.store)
    store.create()
    now = [0]
    evaluator: Evaluator | None = None
    opened: dict[str, int] = {}
    closed: dict[str, int] = {}
    findings: dict[str, TrackedFinding] = {}

    def look() -> None:
        nonlocal evaluator
        evaluator = evaluator or Evaluator(store, config, lambda: now[0])
        while evaluator.advance():
            for tracked in evaluator.state.findings:
                if tracked.phase is not FindingPhase.PENDING:
                    findings[tracked.id] = tracked
                    opened.setdefault(tracked.id, now[0])
                if tracked.phase is FindingPhase.CLOSED:
                    closed.setdefault(tracked.id, now[0])

    begun = time.process_time()
    for number, (clock, file) in enumerate(slices(flows, folder, loop_s, phase_s)):
        now[0] = clock
        target = store.flows / f"{number:06}.parquet"
        accepted = accept_flows([file], target, TimeBounds(0, 2**62))
        file.unlink()
        held = target if accepted.stored else None
        store.commit_batch(Batch(f"{number}", (SourceBatch("replay", accepted),), held, clock))
        look()
    begins, ended = now[0] - number * SECOND, now[0]
    for _ in range(quiet_s):
        now[0] += SECOND
        look()
    history = History(store)
    states = tuple((one["job"], one["to"]) for one in reversed(history.transitions(None, None, None)))
    periods = {run["id"]: run["period_ns"] / 1e9 for run in history.runs()["items"]}
    store.close()
    cpu = time.process_time() - begun
    return Replayed(tuple(findings.values()), opened, closed, states, periods, begins, ended, cpu)


def compare(result: Replayed, whole: tuple[Finding, ...]) -> tuple[int, list[Finding], list[TrackedFinding]]:
    """(how many agree in kind and place, findings that the service did not tell, findings that only it told)."""
    missing, extra = list(whole), []
    for tracked in result.findings:
        one = tracked.finding
        same = [item for item in missing if item.kind is one.kind and item.where.type is one.where.type]
        same = [item for item in same if item.where.id == one.where.id or item.where.type.value == "job"]
        if same:
            missing.remove(same[0])
        else:
            extra.append(tracked)
    return len(result.findings) - len(extra), missing, extra


def _line(finding: Finding, first_ns: int) -> str:
    end = "open" if finding.end_ns is None else f"{(finding.end_ns - first_ns) / 1e9:.1f} s"
    return f"{finding.kind.value} {finding.where.id} from {(finding.start_ns - first_ns) / 1e9:.1f} s to {end}"


def report(capture: Path, loop_s: int, quiet_s: int, phase_s: float | None = None) -> bool:
    flows = capture / "flows.parquet"
    topology = capture / "topology.json"
    with tempfile.TemporaryDirectory() as folder:
        result = play(flows, topology if topology.exists() else None, Path(folder), loop_s, quiet_s, phase_s)
    records = read_flows([flows])
    whole = diagnose(records, read_topology(topology) if topology.exists() else None, with_events=False)
    first = result.begun_ns - SECOND
    findings = () if loop_s else whole.findings
    agree, missing, extra = compare(result, findings)
    begins = "" if phase_s is None else f" from {phase_s:.2f} s after a window's end"
    print(
        f"{capture.name}{begins}: {agree} of {len(findings)} as diagnose, {len(extra)} more; {result.cpu_s:.0f} s CPU"
    )
    for tracked in result.findings:
        one = tracked.finding
        ended = (
            ""
            if one.end_ns is None
            else f", closed {(result.closed.get(tracked.id, 0) - one.end_ns) / 1e9:.1f} s after its end"
        )
        late = (result.opened[tracked.id] - one.start_ns) / 1e9
        mark = "+" if tracked in extra else " "
        print(f"  {mark} {_line(one, first)}: open {late:.1f} s after its start{ended} {tracked.reason}")
    for one in missing:
        print(f"  - {_line(one, records.window.start_ns)}: {one.summary}")
    print(
        f"    states {' '.join(f'{job}:{state}' for job, state in result.states)}; steps {result.periods}", flush=True
    )
    return not missing and not extra


def main() -> None:
    options = {"--loop": 0, "--quiet": 60, "--phases": 0}
    arguments = sys.argv[1:]
    while arguments and arguments[0] in options:
        options[arguments[0]] = int(arguments[1])
        arguments = arguments[2:]
    count = options["--phases"]
    phases: list[float | None] = [HOP_S * number / count for number in range(count)] or [None]
    good = [report(Path(name), options["--loop"], options["--quiet"], phase) for name in arguments for phase in phases]
    print(f"{sum(good)} of {len(good)} agree")
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
