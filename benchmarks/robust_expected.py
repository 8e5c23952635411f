"""What a report is expected to say about a planted fault, by the records of the same run without it or with another.

Nothing here looks at a report. The simulator plays the scenario again, without its fault (the *twin*) or with the fault
that would look most alike, and both sets of records are compared:

- A fault that makes nobody's steps longer (by a tenth, and by two deviations of healthy steps) costs nothing: a report
  that does not name it is right.
- A stall that begins where the job rests in every step, or at the end of a step, cannot be told from an evaluation or a
  checkpoint, and a crash that stops all of them there, before the victim's next message was due, not from the job's
  normal end. A restart that comes after the scenario's end leaves the records of a crash for good.
- A rank that hangs or dies can be named if others go on after its next message was due in the twin. Where all stop in
  the same moment the job is the place.
- A crash that leaves the very records of a hang of the same rank is a hang, for all that anybody can see, and the slow
  stage of a job with a single pipeline is the slow GPU of that stage.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from llmprism.arrays import Int64
from llmprism.model import FindingKind, Where, WhereType
from llmprism.score import Truth, read_truth
from llmprism.score.document import IssueFact
from llmprism.sim import Scenario, simulate
from llmprism.sim.scenario import FaultSpec
from llmprism.sim.simulation import EPOCH_NS

__all__ = ["answers_of", "fault_shows"]

ENDINGS: Final = ("hang", "crash", "crash_restart")
SLOWER: Final = 0.1
"""A fault shows when it makes the steps it hits longer by this share, and by two deviations of healthy steps."""

RESTS: Final = 0.8
"""Share of the longest silence of the twin's usual step from which the job rests there (`diagnose` says the same)."""

WENT_ON: Final = 0.02
"""Steps for which others must go on after the victim's message was due: computation varies by as much."""

_LAST_NS: Final = 1 << 62

TRAINING_BYTES: Final = 4096
"""Smaller records are control messages: they do not say where a job stands."""


def fault_shows(scenario: Scenario, folder: Path) -> bool:
    """Whether the first planted fault can be noticed at all, by the records in `folder` and those of the twin."""
    fault = scenario.faults[0]
    for_good = fault.kind == "crash_restart" and fault.at_s + fault.restart_s >= scenario.seconds
    if (fault.kind == "crash" or for_good) and not _victim_shows(
        scenario, folder, read_truth(folder / "truth.json.gz")
    ):
        return not _ends_at_rest(scenario, folder)
    if fault.kind in ENDINGS:
        return True
    with _played(replace(scenario, faults=())) as twin:
        truth = read_truth(twin / "truth.json.gz")
        if fault.kind == "stall":
            members = _members(truth, fault)
            return not _at_rest(fault, truth, *(_moments(_sent_by(place, members)) for place in (folder, twin)))
        return _longer(_steps_hit(read_truth(folder / "truth.json.gz"), fault), _steps_hit(truth, fault))


def answers_of(scenario: Scenario, folder: Path) -> list[Truth]:
    """The truth, and what else is as true of these records: other names of the first fault that nothing contradicts."""
    truth, fault = read_truth(folder / "truth.json.gz"), scenario.faults[0]
    label = truth.faults[0]
    labels = [label]
    if fault.kind in ENDINGS and not _victim_shows(scenario, folder, truth):
        labels.append(replace(label, where=Where(WhereType.JOB, label.job or "")))
    if fault.kind in ("hang", "crash"):
        other = FindingKind.CRASH if fault.kind == "hang" else FindingKind.HANG
        with _played(replace(scenario, faults=(replace(fault, kind=other.value),))) as twin:
            if _records(twin).equals(_records(folder)):
                labels += [replace(one, kind=other) for one in labels]
    labels += _by_its_other_name(scenario, truth)
    return [replace(truth, faults=(one, *truth.faults[1:])) for one in labels]


def _by_its_other_name(scenario: Scenario, truth: Truth) -> list[IssueFact]:
    """In a job with one pipeline, stage and GPU are the same: both faults slow the same computations."""
    label = truth.faults[0]
    spec = next((spec for spec in scenario.jobs if spec.name == label.job), None)
    if spec is None or spec.dp * spec.cp > 1 or spec.pp < 2:
        return []
    if label.kind is FindingKind.IMBALANCE:
        names = tuple(label.where.id)
        where = Where(WhereType.GPU, names[0])
        return [replace(label, kind=FindingKind.SLOW_GPU, where=where, equivalents=names)]
    if label.kind is FindingKind.SLOW_GPU:
        names = label.equivalents or (str(label.where.id),)
        return [replace(label, kind=FindingKind.IMBALANCE, where=Where(WhereType.STAGE, names), equivalents=())]
    return []


def _victim_shows(scenario: Scenario, folder: Path, truth: Truth) -> bool:
    """Do others go on after the victim's next message was due?"""
    fault, label = scenario.faults[0], truth.faults[0]
    victims = {str(label.where.id), *label.equivalents}
    gone_ns = EPOCH_NS + int(fault.at_s * 1e9)
    back_ns = gone_ns + int(fault.restart_s * 1e9) if fault.kind == "crash_restart" else _LAST_NS
    with _played(replace(scenario, faults=())) as twin:
        members = _members(truth, fault)
        usual, step_ns = _sent_by(twin, members), _step_ns(read_truth(twin / "truth.json.gz"), fault)
    last = {name: int(sent[sent < back_ns].max(initial=gone_ns)) for name, sent in _sent_by(folder, members).items()}
    due = min((_next(usual[name], last[name]) for name in victims if name in last), default=_LAST_NS)
    return max((last[name] for name in last if name not in victims), default=0) > due + WENT_ON * step_ns


def _at_rest(fault: FaultSpec, twin: Truth, sick: Int64, well: Int64) -> bool:
    """Is the twin silent, where the stall makes the job silent, for as long as anywhere in a step?"""
    job = next(job for job in twin.jobs if job.id == fault.job)
    silences = np.diff(well)
    of_step = [silences[(well[1:] > a) & (well[1:] <= b)].max(initial=0) for a, b in pairwise(job.step_end_ns)]
    begin = EPOCH_NS + int(fault.at_s * 1e9)
    during = np.flatnonzero((sick[1:] > begin) & (sick[:-1] < begin + int(fault.for_s * 1e9)))
    if not during.size or not of_step:
        return True
    fell_silent = sick[during[int(np.argmax(np.diff(sick)[during]))]]
    after = int(np.searchsorted(well, fell_silent, side="right")) - 1
    rests = after >= silences.size or silences[after] >= RESTS * float(np.median(of_step))
    return bool(rests or _ends_a_step(job.step_end_ns, well, int(fell_silent)))


def _ends_a_step(step_end_ns: Sequence[int], well: Int64, moment: int) -> bool:
    """Does nobody in the twin send anything more after this message before the end of its step?"""
    later = [end for end in step_end_ns if end > moment]
    return bool(later) and not ((well > moment) & (well <= later[0])).any()


def _ends_at_rest(scenario: Scenario, folder: Path) -> bool:
    """Is the twin silent, where the job stops for good, for as long as anywhere in a step?"""
    fault = scenario.faults[0]
    with _played(replace(scenario, faults=())) as twin:
        truth = read_truth(twin / "truth.json.gz")
        sick, well = (_moments(_sent_by(place, _members(truth, fault))) for place in (folder, twin))
    job = next(job for job in truth.jobs if job.id == fault.job)
    silences = np.diff(well)
    of_step = [silences[(well[1:] > a) & (well[1:] <= b)].max(initial=0) for a, b in pairwise(job.step_end_ns)]
    last = int(sick.max(initial=0))
    after = int(np.searchsorted(well, last, side="right")) - 1
    if not of_step or not 0 <= after < silences.size:
        return False
    return bool(silences[after] >= RESTS * float(np.median(of_step)) or _ends_a_step(job.step_end_ns, well, last))


def _moments(sent: dict[str, Int64]) -> Int64:
    """When anybody sent anything."""
    return np.sort(np.concatenate(list(sent.values())))


def _longer(sick: dict[str, list[int]], well: dict[str, list[int]]) -> bool:
    for job, lengths in well.items():
        if job not in sick:
            return True
        usual = sum(lengths) / len(lengths)
        varies = (sum((length - usual) ** 2 for length in lengths) / len(lengths)) ** 0.5
        mean = sum(sick[job]) / len(sick[job])
        if mean > usual * (1 + SLOWER) and mean > usual + 2 * varies:
            return True
    return False


def _steps_hit(truth: Truth, fault: FaultSpec) -> dict[str, list[int]]:
    """Lengths of the steps that run while the fault is on, by job."""
    begin = EPOCH_NS + int(fault.at_s * 1e9)
    end = begin + int(fault.for_s * 1e9) if fault.for_s > 0 else _LAST_NS
    found: dict[str, list[int]] = {}
    for job in truth.jobs:
        steps = zip(job.step_start_ns, job.step_end_ns, strict=True)
        lengths = [stop - start for start, stop in steps if start < end and stop > begin]
        if lengths:
            found[job.id] = lengths
    return found


@contextmanager
def _played(scenario: Scenario) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="robust-") as work:
        simulate(scenario, Path(work))
        yield Path(work)


def _records(folder: Path) -> pa.Table:
    return pq.read_table(folder / "flows.parquet")


def _members(truth: Truth, fault: FaultSpec) -> frozenset[str]:
    return next(job.members for job in truth.jobs if job.id == fault.job)


def _step_ns(truth: Truth, fault: FaultSpec) -> float:
    job = next(job for job in truth.jobs if job.id == fault.job)
    return float(np.median(np.diff(job.step_end_ns)))


def _sent_by(folder: Path, members: frozenset[str]) -> dict[str, Int64]:
    """Starts of the training messages that each member sends to another, in order."""
    table = _records(folder).select(["start_ns", "src", "dst", "bytes"])
    names = pa.array(sorted(members))
    inside = pc.and_(pc.is_in(table["src"], names), pc.is_in(table["dst"], names))
    table = table.filter(pc.and_(inside, pc.greater_equal(table["bytes"], TRAINING_BYTES)))
    start, source = table["start_ns"].to_numpy(), np.array(table["src"].to_pylist())
    return {name: np.sort(start[source == name]) for name in sorted(members)}


def _next(moments: Int64, after: int) -> int:
    index = int(np.searchsorted(moments, after, side="right"))
    return int(moments[index]) if index < moments.size else _LAST_NS
