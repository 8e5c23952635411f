"""Claim: live costs at most three CPU seconds per million records in all, near what `diagnose` costs on the same ones.

Tenants (copies of a bundled healthy capture under names of their own, enough of them for the rate) send one Parquet
body a second; every body is taken in and every due window is made at once, on a clock that runs with the records.
Prints the CPU seconds of intake and windows per million records beside those of `diagnose` on all records together,
how many windows and looks were made, and what was found in these healthy jobs. `--jobs` counts tenants instead;
`--slow` makes one tenant slow for the second half; `--profile` prints where the time went.
Usage: python benchmarks/service_cost.py [--seconds S] [--warm S] [--rate RECORDS_PER_S | --jobs N] [--producers N]
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from llmprism.ingest import read_topology, read_transfers
from llmprism.pipeline import diagnose
from llmprism.service.config import Config, StoreSettings, TopologySettings
from llmprism.service.history import History
from llmprism.service.intake import Payload
from llmprism.service.played import PlayedService
from llmprism.service.store import Store
from tenants import BEGIN, SECOND, Tenants

BOUND_S = 3.0
"""CPU seconds per million records, intake and windows together."""

WARM_S = 90
"""Seconds of records before the measurement (`--warm`): the jobs are known from a whole window."""


@dataclass
class Costs:
    """CPU seconds of both parts, and what they were spent on, after the warm-up."""

    intake_s: float = 0.0
    windows_s: float = 0.0
    records: int = 0
    windows: int = 0

    def per_million(self, seconds: float) -> float:
        return seconds / self.records * 1e6


def play(
    folder: Path, tenants: Tenants, seconds: int, warm: int, producers: int, profile: cProfile.Profile | None
) -> Costs:
    config = Config(
        store=StoreSettings(folder=str(folder / "data")), topology=TopologySettings(file=str(folder / "topology.json"))
    )
    service = PlayedService(config, BEGIN)
    costs = Costs()
    for second in range(warm + seconds):
        bodies = [tenants.body(folder, second, share, producers) for share in range(producers)]
        measured = second >= warm
        payloads = [Payload(f"http:p{share}", path, path.stat().st_size) for share, (path, _) in enumerate(bodies)]
        taken = service.take_in(payloads, BEGIN + (second + 1) * SECOND)
        if profile is not None and measured:
            profile.enable()
        made, looked = service.make_windows()
        if profile is not None:
            profile.disable()
        if measured:
            costs.records += sum(count for _, count in bodies)
            costs.windows += made
            costs.intake_s += taken
            costs.windows_s += looked
    service.stop_intake()
    _print_results(service.store)
    layouts = service.evaluator.layouts
    print(f"layouts found {layouts.found}, carried over {layouts.carried}")
    service.store.close()
    return costs


def _print_results(store: Store) -> None:
    history = History(store)
    states: dict[str, int] = {}
    for run in history.runs(limit=1000)["items"]:
        states[run["state"]] = states.get(run["state"], 0) + 1
    found = [(one["kind"], one["where"]["id"], one["phase"]) for one in history.findings(None, None, None)["items"]]
    counts = {name: value for source, name, _, value in store.counters() if source == "service"}
    print(f"jobs by state {states}, findings {found[:8]}, service counts {counts}", flush=True)


def whole(folder: Path, tenants: Tenants, seconds: int, warm: int) -> float:
    """CPU seconds per million records of `diagnose` on all records of the measured time, in one file."""
    file = folder / "whole.parquet"
    count = tenants.write(file, warm, warm + seconds)
    topology = read_topology(folder / "topology.json")
    begun = time.process_time()
    diagnose(read_transfers([file]), topology, with_events=False)
    return (time.process_time() - begun) / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=80)
    parser.add_argument("--warm", type=int, default=WARM_S)
    parser.add_argument("--rate", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--producers", type=int, default=1)
    parser.add_argument("--slow", action="store_true")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        slow = (options.warm + options.seconds // 2) if options.slow else None
        tenants = Tenants(folder, options.rate, options.jobs, slow_from_s=slow)
        print(f"{tenants.count} jobs of 16 GPUs, {tenants.rate:,.0f} records/s, {options.seconds} s", flush=True)
        profile = cProfile.Profile() if options.profile else None
        costs = play(folder, tenants, options.seconds, options.warm, options.producers, profile)
        batch = whole(folder, tenants, options.seconds, options.warm)
    intake, windows = costs.per_million(costs.intake_s), costs.per_million(costs.windows_s)
    total = intake + windows
    print(
        f"{costs.records:,} records, {costs.windows} windows; CPU s per million records: intake "
        f"{intake:.2f}, windows {windows:.2f}, in all {total:.2f}; "
        f"diagnose {batch:.2f}",
        flush=True,
    )
    if profile is not None:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)
    sys.exit(total > BOUND_S)


if __name__ == "__main__":
    main()
