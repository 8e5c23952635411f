"""What a report is expected to say about a planted fault, by the records of the same run without it or with another.

Nothing here looks at a report. The simulator plays the scenario again, without its fault (the *twin*) or with the fault
that would look most alike, and both sets of records are compared:

- A fault that makes nobody's steps longer (by a tenth, and by two deviations of healthy steps) costs nothing: a report
  that does not name it is right.
- A stall that begins where the job rests in every step, or at the end of a step, cannot be told from an evaluation or a
  checkpoint, and a crash that stops all of them there, before the victim's next message was due, not from the job's
  normal end. A restart that comes after the scenario's end leaves the records of a crash for good.
- A rank that hangs or dies can be named if others go on after its next message was due in the twin, and nobody else
  stops like it: with a message due in the same moment that is never sent. Where all stop in the same moment, or
  several just like the victim, the job is the place.
- A crash that leaves the very records of a hang of the same rank is a hang, for all that anybody can see, and the slow
  stage of a job with a single pipeline is the slow GPU of that stage. A slow group whose members share a leaf that
  nobody else uses leaves the very records of that slow leaf, and the leaf those of the group.
- A job whose own code makes it slower for a stretch of steps (`alternate`: sequences of another length, say) is slower,
  for all that anybody can see. A report that says so of the job, and names nothing else, is true; none need say it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from llmprism.arrays import Int64
from llmprism.ingest.topology import read_topology
from llmprism.model import FindingKind, Where, WhereType
from llmprism.score import Truth, read_truth
from llmprism.score.document import IssueFact, ScoredJob
from llmprism.sim import Scenario, simulate
from llmprism.sim.faults import CRASH_SPREAD_NS
from llmprism.sim.scenario import FaultSpec
from llmprism.sim.simulation import EPOCH_NS

__all__ = ["answers_of", "fault_shows", "with_own_slowdowns"]

ENDINGS: Final = ("hang", "crash", "crash_restart")
SLOWER: Final = 0.1
"""A fault shows when it makes the steps it hits longer by this share, and by two deviations of healthy steps."""

WHOLE_STEPS: Final = 3
"""Steps of a job from which the first and the last, which the window may cut, do not count."""

RESTS: Final = 0.8
"""Share of the longest silence of the twin's usual step from which the job rests there (`diagnose` says the same)."""

WENT_ON: Final = 0.02
"""Steps for which others must go on after the victim's message was due: computation varies by as much."""

SAME_MOMENT: Final = 0.002
"""Share of a step by which a message may end earlier or later in the twin and be the same one: records are rounded,"""

SAME_MOMENT_NS: Final = 1_000_000
"""and by a millisecond at least."""

_LAST_NS: Final = 1 << 62

TRAINING_BYTES: Final = 4096
"""Smaller records are control messages: they do not say where a job stands."""


@dataclass(frozen=True)
class Silences:
    """Nobody of a job sends anything from each `begin_ns` to each `until_ns`."""

    begin_ns: Int64
    until_ns: Int64

    @property
    def length_ns(self) -> Int64:
        return self.until_ns - self.begin_ns


def fault_shows(scenario: Scenario, folder: Path) -> bool:
    """Whether the first planted fault can be noticed at all, by the records in `folder` and those of the twin."""
    fault = scenario.faults[0]
    for_good = fault.kind == "crash_restart" and fault.at_s + fault.restart_s >= scenario.seconds
    if fault.kind == "crash" or for_good:
        stops = _stops(scenario, folder, read_truth(folder / "truth.json.gz"))
        if not stops.others_go_on:
            return not _ends_at_rest(scenario, folder)
    if fault.kind in ENDINGS:
        return True
    with _played(replace(scenario, faults=())) as twin:
        truth = read_truth(twin / "truth.json.gz")
        if fault.kind == "stall":
            members = _members(truth, fault)
            return not _at_rest(fault, truth, *(_silences(place, members) for place in (folder, twin)))
        sick = _steps_hit(read_truth(folder / "truth.json.gz"), fault)
        return _longer(sick, _steps_hit(truth, fault), {job.id: _varies(job) for job in truth.jobs})


def answers_of(scenario: Scenario, folder: Path) -> list[Truth]:
    """The truth, and what else is as true of these records: other names of the first fault that nothing contradicts."""
    truth, fault = read_truth(folder / "truth.json.gz"), scenario.faults[0]
    label = truth.faults[0]
    labels = [label]
    if fault.kind in ENDINGS and not _stops(scenario, folder, truth).show_the_victim:
        labels.append(replace(label, where=Where(WhereType.JOB, label.job or "")))
    if fault.kind in ("hang", "crash"):
        other = FindingKind.CRASH if fault.kind == "hang" else FindingKind.HANG
        with _played(replace(scenario, faults=(replace(fault, kind=other.value),))) as twin:
            if _records(twin).equals(_records(folder)):
                labels += [replace(one, kind=other) for one in labels]
    labels += _by_its_other_name(scenario, truth)
    labels += _as_another_place(scenario, folder, truth)
    return [replace(truth, faults=(one, *truth.faults[1:])) for one in labels]


def with_own_slowdowns(scenario: Scenario, truth: Truth) -> Truth:
    """The truth, in which jobs that alternate between two lengths are slower by themselves where their steps are the
    longer ones: as a fault that may be named or not."""
    alternating = {spec.name for spec in scenario.jobs if spec.alternate > 1.0}
    own = [issue for job in truth.jobs if job.id in alternating for issue in _own_slowdowns(job)]
    return replace(truth, faint=(*truth.faint, *own))


def _own_slowdowns(job: ScoredJob) -> list[IssueFact]:
    """The stretches of whole steps that are longer than the job's short ones, by `SLOWER` and by two deviations."""
    lengths = np.subtract(job.step_end_ns, job.step_start_ns)[1:-1].astype(np.float64)
    if not lengths.size:
        return []
    least = (1 + SLOWER) * float(np.quantile(lengths, 0.25))
    short = lengths[lengths < least]
    long = lengths >= max(least, float(np.mean(short) + 2 * np.std(short)))
    edges = np.diff(np.concatenate([[0], long.astype(np.int8), [0]]))
    stretches = zip(np.flatnonzero(edges > 0), np.flatnonzero(edges < 0), strict=True)
    where, start, end = Where(WhereType.JOB, job.id), job.step_start_ns[1:], job.step_end_ns[1:]
    return [IssueFact(FindingKind.SLOW_STEP, job.id, where, start[a], end[b - 1]) for a, b in stretches]


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


def _as_another_place(scenario: Scenario, folder: Path, truth: Truth) -> list[IssueFact]:
    """A leaf that leaves the very records of a slow group, and the only group of the job for a slow leaf."""
    fault, label = scenario.faults[0], truth.faults[0]
    topology = read_topology(folder / "topology.json")
    leaves = [switch.name for switch in topology.switches if switch.tier == "leaf"]
    leaf_of = {nic.address: nic.switch for server in topology.servers for nic in server.nics}
    rivals = []
    if fault.kind == "slow_group":
        shared = {leaf_of.get(member) for member in label.where.id}
        rivals = [replace(fault, kind="slow_leaf", leaf=leaves.index(leaf)) for leaf in shared if leaf in leaves]
        rivals = rivals if len(shared) == 1 else []
    elif fault.kind == "slow_leaf":
        inside = [spec for spec in scenario.jobs if spec.pp == 1 and spec.dp > 1 and spec.ep == 1]
        rivals = [replace(fault, kind="slow_group", job=spec.name, group=0) for spec in inside]
    found = []
    for rival in rivals:
        with _played(replace(scenario, faults=(rival,))) as other:
            if _records(other).equals(_records(folder)):
                found.append(read_truth(other / "truth.json.gz").faults[0])
    return found


@dataclass(frozen=True)
class Stops:
    """How the members of a job stop: `others_go_on` after the victim's next message was due; `alike` are those that
    stop just like it, and are not the same place."""

    others_go_on: bool
    alike: frozenset[str]

    @property
    def show_the_victim(self) -> bool:
        return self.others_go_on and not self.alike


def _stops(scenario: Scenario, folder: Path, truth: Truth) -> Stops:
    """By the messages that each member still sends, and by when its next one was due in the twin."""
    fault, label = scenario.faults[0], truth.faults[0]
    victims = {str(label.where.id), *label.equivalents}
    gone_ns = EPOCH_NS + int(fault.at_s * 1e9)
    # halfway to a restart nobody sends: the clocks of exporters differ, and stamp its first messages before it
    back_ns = gone_ns + int(fault.restart_s * 1e9) // 2 if fault.kind == "crash_restart" else _LAST_NS
    with _played(replace(scenario, faults=())) as twin:
        members = _members(truth, fault)
        usual, step_ns = _sent_by(twin, members), _step_ns(read_truth(twin / "truth.json.gz"), fault)
    last = {name: int(sent[sent < back_ns].max(initial=gone_ns)) for name, sent in _sent_by(folder, members).items()}
    due = {name: _next(usual[name], moment) for name, moment in last.items()}
    first = min((due[name] for name in victims if name in due), default=_LAST_NS)
    go_on = max((last[name] for name in last if name not in victims), default=0) > first + WENT_ON * step_ns
    near = max(SAME_MOMENT * step_ns, SAME_MOMENT_NS)
    alike = frozenset(name for name in due if name not in victims and abs(due[name] - first) <= near)
    if fault.kind == "crash":  # the address of a dead rank is neither heard nor written to: those that are live
        alike -= _seen_after(folder, gone_ns + CRASH_SPREAD_NS)
    return Stops(go_on, alike)


def _at_rest(fault: FaultSpec, twin: Truth, sick: Silences, well: Silences) -> bool:
    """Is the twin silent, where the stall makes the job silent, for as long as anywhere in a step?"""
    begin = EPOCH_NS + int(fault.at_s * 1e9)
    during = np.flatnonzero((sick.until_ns > begin) & (sick.begin_ns < begin + int(fault.for_s * 1e9)))
    if not during.size:
        return True
    longest = during[int(np.argmax(sick.length_ns[during]))]
    return _rests(_job(twin, fault), well, int(sick.begin_ns[longest]), unseen=True)


def _ends_at_rest(scenario: Scenario, folder: Path) -> bool:
    """Is the twin silent, where the job stops for good, for as long as anywhere in a step?"""
    fault = scenario.faults[0]
    with _played(replace(scenario, faults=())) as twin:
        truth = read_truth(twin / "truth.json.gz")
        members = _members(truth, fault)
        well = _silences(twin, members)
    return _rests(_job(truth, fault), well, int(_inside(folder, members)["end_ns"].to_numpy().max(initial=0)))


def _rests(job: ScoredJob, well: Silences, moment: int, *, unseen: bool = False) -> bool:
    """Is the twin silent from this moment on, for as long as anywhere in a step or until the step's end? `unseen` is
    the answer where the twin does not say. Collectors cut the same messages into other records in every run, so what
    counts are silences, from the end of all messages to the next one, and not when records start."""
    of_step = [
        well.length_ns[(well.until_ns > a) & (well.until_ns <= b)].max(initial=0) for a, b in pairwise(job.step_end_ns)
    ]
    if not of_step or moment >= well.until_ns.max(initial=0):
        return unseen
    near = max(SAME_MOMENT * float(np.median(np.diff(job.step_end_ns))), SAME_MOMENT_NS)
    here = well.length_ns[(well.begin_ns <= moment + near) & (well.until_ns > moment)].max(initial=0)
    if not here:
        return False
    return bool(here >= RESTS * float(np.median(of_step)) or _ends_a_step(job.step_end_ns, well.until_ns, moment))


def _ends_a_step(step_end_ns: Sequence[int], begun: Int64, moment: int) -> bool:
    """Does nobody in the twin begin to send anything more after this moment before the end of its step?"""
    later = [end for end in step_end_ns if end > moment]
    return bool(later) and not ((begun > moment) & (begun <= later[0])).any()


def _longer(sick: dict[str, list[int]], well: dict[str, list[int]], varies: dict[str, float]) -> bool:
    for job, lengths in well.items():
        if job not in sick:
            return True
        usual, mean = float(np.mean(lengths)), float(np.mean(sick[job]))
        if mean > usual * (1 + SLOWER) and mean > usual + 2 * varies[job]:
            return True
    return False


def _varies(job: ScoredJob) -> float:
    """Deviation of all whole steps of a job in the twin: a few in a row that happen to be alike and short do not show
    that those of the same time, which are as long as the job's others, are longer than they would have been."""
    lengths = np.subtract(job.step_end_ns, job.step_start_ns)
    return float(np.std(lengths[1:-1] if lengths.size > WHOLE_STEPS else lengths))


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


def _job(truth: Truth, fault: FaultSpec) -> ScoredJob:
    return next(job for job in truth.jobs if job.id == fault.job)


def _members(truth: Truth, fault: FaultSpec) -> frozenset[str]:
    return _job(truth, fault).members


def _step_ns(truth: Truth, fault: FaultSpec) -> float:
    return float(np.median(np.diff(_job(truth, fault).step_end_ns)))


def _inside(folder: Path, members: frozenset[str]) -> pa.Table:
    """The records of training messages between these members."""
    table = _records(folder).select(["start_ns", "end_ns", "src", "dst", "bytes"])
    names = pa.array(sorted(members))
    inside = pc.and_(pc.is_in(table["src"], names), pc.is_in(table["dst"], names))
    return table.filter(pc.and_(inside, pc.greater_equal(table["bytes"], TRAINING_BYTES)))


def _silences(folder: Path, members: frozenset[str]) -> Silences:
    """When none of these members sends another one anything."""
    table = _inside(folder, members)
    start, end = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
    order = np.argsort(start, kind="stable")
    begin, until = np.maximum.accumulate(end[order])[:-1], start[order][1:]
    return Silences(begin[until > begin], until[until > begin])


def _sent_by(folder: Path, members: frozenset[str]) -> dict[str, Int64]:
    """Starts of the training messages that each member sends to another, in order."""
    table = _inside(folder, members)
    start, source = table["start_ns"].to_numpy(), np.array(table["src"].to_pylist())
    return {name: np.sort(start[source == name]) for name in sorted(members)}


def _seen_after(folder: Path, moment: int) -> set[str]:
    """Addresses that send or are sent anything, of any size, after a moment."""
    table = _records(folder).select(["start_ns", "src", "dst"])
    later = table.filter(pc.greater(table["start_ns"], moment))
    return {*later["src"].to_pylist(), *later["dst"].to_pylist()}


def _next(moments: Int64, after: int) -> int:
    index = int(np.searchsorted(moments, after, side="right"))
    return int(moments[index]) if index < moments.size else _LAST_NS
