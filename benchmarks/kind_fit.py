"""Fits the weights by which `diagnose.dead_or_hung` tells a rank that hangs from one that died to known stops.

    python benchmarks/kind_fit.py --captures dataset --seeds 130002 400 --every 2

Captures are folders with flows, topology and truth; seeds are random scenarios in which a rank hangs or dies, played
here with both faults in turn. Every stop is asked about as it was watched, and as if it had been for two and a half and
for six steps after the last message; and all that again without the words of the job, as a collector sees it that
exports large records only. Prints the weights for `diagnose/rules/dead_or_hung.py`, and with a tenth left out each time
how many kinds are right, and how sure they were said.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np

from ending_fit import STOPS, Said, Seen, kept, left_out_chances, weights_of
from llmprism.arrays import Float64
from llmprism.cli.diagnose import diagnose_files
from llmprism.dataset import cases
from llmprism.diagnose import endings
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.dead_or_hung import signs_of_a_hang
from llmprism.model import FindingKind, Window
from llmprism.model.job import Job
from llmprism.model.timeline import Timeline
from llmprism.pipeline import local
from llmprism.score import Truth, read_truth
from played import played
from robust_draw import draw_scenario

WATCHED_STEPS = (2.5, 6.0)


def stops_in(name: str, part: str, flows: Path, until_ns: int | None) -> Iterator[Said]:
    """The stops of the jobs of one capture whose kind is known."""
    seen, truth = Seen(), read_truth(flows.parent / "truth.json.gz")
    with mock.patch.object(local, "analyse_job", seen.analyse):
        topology = str(flows.parent / "topology.json")
        diagnose_files([str(flows)], topology, with_events=False, watched_until_ns=until_ns, jobs=1)
    for job, timeline, window in seen.jobs:
        hangs = _hangs(job, truth)
        if hangs is not None:
            yield from (Said(name, part, signs, hangs) for signs in signs_of(job, timeline, window))


def signs_of(job: Job, timeline: Timeline, window: Window) -> Iterator[Float64]:
    """The signs of the kind of one stop, with words and without, watched for as long as it was and for shorter."""
    training = training_messages(job)
    if timeline.steps.count < 2 or not training.any():
        return
    last, period = int(job.transfers.end_ns[training].max()), float(np.median(timeline.steps.duration_ns))
    untils = {window.end_ns, *(last + int(steps * period) for steps in WATCHED_STEPS)}
    for heard in (job, kept(job, training)):
        for until in sorted(one for one in untils if one <= window.end_ns):
            signs: list[Float64] = []

            def read(*given: object, into: list[Float64] = signs) -> Float64:
                into.append(signs_of_a_hang(*given))  # type: ignore[arg-type]
                return into[-1]

            with mock.patch("llmprism.diagnose.endings.signs_of_a_hang", read):
                watched = kept(heard, heard.transfers.end_ns <= until)
                ending = endings.final_ending(watched, timeline, Window(window.start_ns, until))
            if ending is not None and ending.broken_off:
                yield from signs[-1:]


def _hangs(job: Job, truth: Truth) -> bool | None:
    """Does a rank of this job hang (True) or did one die, without coming back? None: neither."""
    names = {job.transfers.addresses[member] for member in job.members}
    true = max(truth.jobs, key=lambda one: len(names & one.members), default=None)
    kinds = {fault.kind for fault in truth.faults if true is not None and fault.job == true.id and fault.kind in STOPS}
    return FindingKind.HANG in kinds if len(kinds) == 1 else None


def of_captures(folder: Path) -> Iterator[Said]:
    for case in cases(folder=folder):
        if "restart" not in " ".join(case.faults):
            yield from stops_in(case.name, "captures", case.folder / "flows.parquet", case.watched_until_ns)


def of_seeds(first: int, count: int, every: int) -> Iterator[Said]:
    for seed in range(first, first + count, every):
        scenario = draw_scenario(seed, faults=True)
        if not scenario.faults or scenario.faults[0].kind not in ("hang", "crash", "crash_restart"):
            continue
        for kind in STOPS:
            of_kind = replace(scenario, faults=(replace(scenario.faults[0], kind=kind.value),))
            with played(of_kind) as (folder, until_ns):
                yield from stops_in(str(seed), "seeds", folder / "flows.parquet", until_ns)


def reliability(found: Sequence[Said], ridge: float) -> list[str]:
    """With a tenth of the cases left out in turn: by how sure the kind is said, how often it is right."""
    hang = left_out_chances(found, ridge)
    right = (hang > 0.5) == np.array([one.right for one in found])
    sure, lines = np.maximum(hang, 1.0 - hang), []
    for low, high in ((0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.0)):
        inside = (sure >= low) & (sure <= high)
        if inside.any():
            lines.append(
                f"{low} to {high}: {right[inside].sum()} of {inside.sum()} right, said {sure[inside].mean():.2f}"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--captures", type=Path, default=Path("dataset"))
    parser.add_argument("--seeds", type=int, nargs=2, default=(130002, 400), metavar=("FIRST", "COUNT"))
    parser.add_argument("--every", type=int, default=2, help="every so many seeds: others stay unseen")
    parser.add_argument("--ridge", type=float, default=0.5)
    arguments = parser.parse_args()
    found = [*of_captures(arguments.captures), *of_seeds(arguments.seeds[0], arguments.seeds[1], arguments.every)]
    print(f"by all {len(found)}: {weights_of(found, arguments.ridge).round(2)}")
    print("\n".join(reliability(found, arguments.ridge)))


if __name__ == "__main__":
    main()
