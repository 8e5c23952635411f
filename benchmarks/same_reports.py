"""Do two versions of the code give the same reports? For changes that must alter speed and nothing else.

    python benchmarks/same_reports.py write out/before FOLDER...     # with the old code
    python benchmarks/same_reports.py check out/before FOLDER...     # with the new one

A FOLDER holds `flows.parquet` and maybe `topology.json`, or folders that do (simulated scenarios, captures). Compared
are the bytes of the JSON report and of the per-GPU events. `--without-topology` leaves the topology out.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from pathlib import Path
from typing import Any

from llmprism import ingest, pipeline
from llmprism.ingest import read_topology
from llmprism.report.json_report import render


def cases(folders: list[Path]) -> list[Path]:
    found = [file.parent for folder in folders for file in sorted(folder.glob("**/flows.parquet"))]
    if not found:
        raise SystemExit("no flows.parquet in these folders")
    return found


def report_of(folder: Path, *, with_topology: bool, memory_limit: str | None, bucket: int | None) -> bytes:
    """The JSON report, and a digest of the events behind it."""
    places = folder / "topology.json"
    topology = read_topology(places) if with_topology and places.exists() else None
    read: Any = getattr(ingest, "read_transfers", ingest.read_flows)
    more = {} if bucket is None else {"bucket_records": bucket}
    flows = read([folder / "flows.parquet"], memory_limit=memory_limit, **more)
    report = pipeline.diagnose(flows, topology)
    digest = hashlib.sha256()
    for job in report.jobs:
        events = job.timeline.events
        for column in (events.address, events.step, events.kind, events.start_ns, events.end_ns, events.peer):
            digest.update(column.tobytes())
        digest.update(events.bytes.tobytes())
        digest.update(job.timeline.member_end_ns.tobytes())
    return render(report) + digest.hexdigest().encode() + b"\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("write", "check"))
    parser.add_argument("store", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--without-topology", action="store_true")
    parser.add_argument("--memory-limit")
    parser.add_argument("--bucket-records", type=int)
    options = parser.parse_args()
    options.store.mkdir(parents=True, exist_ok=True)
    different = 0
    for folder in cases(options.folders):
        begin = time.process_time()
        text = report_of(
            folder,
            with_topology=not options.without_topology,
            memory_limit=options.memory_limit,
            bucket=options.bucket_records,
        )
        file = options.store / f"{folder.parent.name}.{folder.name}{'.bare' if options.without_topology else ''}.report"
        verdict = "written"
        if options.action == "write":
            file.write_bytes(text)
        else:
            same = file.exists() and file.read_bytes() == text
            verdict = "same" if same else "DIFFERENT"
            different += not same
        print(f"{folder.name:<24}{verdict:<12}{time.process_time() - begin:7.1f} s CPU", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
