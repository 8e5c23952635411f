"""Planted faults: what each does to the engine, and the label that a perfect report would find.

A label names kind, job, place and time in the report's own terms. `equivalents` are places that no flow record can tell
from the true one: the GPUs of one tensor-parallel group move in lockstep, so a slow one makes all of them late.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from llmprism.errors import UsageError
from llmprism.model import FindingKind, PairKind, Where, WhereType
from llmprism.sim.engine_tables import NEVER, Faults
from llmprism.sim.program import JobProgram
from llmprism.sim.scenario import FaultSpec, Scenario
from llmprism.sim.simulated_cluster import SimulatedCluster
from llmprism.units import SECOND

__all__ = ["FaultLabel", "FaultPlan", "SharedLink", "plan_faults"]

CRASH_SPREAD_NS = 300_000_000
"""The others go on until they need the dead rank, or until the launcher that watches the job kills them."""


@dataclass(frozen=True, slots=True)
class FaultLabel:
    """Times are relative to the window's start; `end` None: to the end of the window."""

    kind: FindingKind
    job: str | None
    where: Where
    start: int
    end: int | None
    equivalents: tuple[str, ...] = ()


@dataclass(slots=True)
class _Slow:
    start: int
    end: int
    factor: float


@dataclass(frozen=True, slots=True)
class SharedLink:
    """A link from a leaf to a spine whose rate its users share from `start` to `end`. `jobs` None: everybody's.

    `load` is the time that a byte takes on it, in units of a NIC's.
    """

    leaf: int
    spine: int
    jobs: frozenset[int] | None
    load: float
    start: int
    end: int


@dataclass(slots=True)
class FaultPlan:
    """Slow-downs by target, deaths by job segment, cell and NIC, contended links, and the labels. `dead` names the job
    segment too: the same NICs serve the one that is started again."""

    labels: list[FaultLabel] = field(default_factory=list)
    slow: dict[tuple[str, int], list[_Slow]] = field(default_factory=dict)
    crash: dict[int, int] = field(default_factory=dict)
    hang: dict[int, int] = field(default_factory=dict)
    killed: dict[int, int] = field(default_factory=dict)
    dead: dict[int, tuple[int, int]] = field(default_factory=dict)
    stall: dict[int, tuple[int, int]] = field(default_factory=dict)
    shared: list[SharedLink] = field(default_factory=list)

    def add_slow(self, target: str, ident: int, start: int, end: int, factor: float) -> None:
        self.slow.setdefault((target, ident), []).append(_Slow(start, end, factor))

    def freeze(self, cells: int, nics: int, switches: int, links: int, groups: int, ns_per_byte: float) -> Faults:
        """The tables that the engine walks."""
        heads = {
            "cell": np.full(max(cells, 1), -1, dtype=np.int32),
            "nic": np.full(nics, -1, dtype=np.int32),
            "switch": np.full(switches, -1, dtype=np.int32),
            "link": np.full(max(links, 1), -1, dtype=np.int32),
            "group": np.full(max(groups, 1), -1, dtype=np.int32),
        }
        start, end, factor, following = [0], [0], [1.0], [-1]
        for (target, ident), entries in self.slow.items():
            for entry in entries:
                start.append(entry.start)
                end.append(entry.end)
                factor.append(entry.factor)
                following.append(int(heads[target][ident]))
                heads[target][ident] = len(start) - 1
        shared = self.shared or [SharedLink(0, 0, None, 1.0, 0, 0)]
        return Faults(
            start=np.array(start, dtype=np.int64),
            end=np.array(end, dtype=np.int64),
            factor=np.array(factor, dtype=np.float64),
            next=np.array(following, dtype=np.int32),
            of_cell=heads["cell"],
            of_nic=heads["nic"],
            of_switch=heads["switch"],
            of_link=heads["link"],
            of_group=heads["group"],
            shared_start=np.array([link.start for link in shared], dtype=np.int64),
            shared_end=np.array([link.end for link in shared], dtype=np.int64),
            shared_ns_per_byte=np.array([link.load * ns_per_byte for link in shared], dtype=np.float64),
        )


@dataclass(frozen=True, slots=True)
class _Site:
    """What a planner works with: the plan that it adds to, the fault, and the job that the fault names."""

    plan: FaultPlan
    fault: FaultSpec
    cluster: SimulatedCluster
    programs: list[JobProgram]
    program: JobProgram

    @property
    def leaf(self) -> str:
        return self._switch(self.cluster.leaves, self.fault.leaf)

    @property
    def spine(self) -> str:
        return self._switch(self.cluster.spines, self.fault.spine)

    def _switch(self, names: tuple[str, ...], index: int) -> str:
        if not 0 <= index < len(names):
            raise UsageError(f"fault {self.fault.kind}: there is no switch {index} among {names[0]} to {names[-1]}")
        return names[index]


def plan_faults(scenario: Scenario, cluster: SimulatedCluster, programs: list[JobProgram]) -> FaultPlan:
    """`programs` holds the first segment of every job in order, then the restarted ones."""
    plan = FaultPlan()
    for fault in scenario.faults:
        names = [job.name for job in scenario.jobs]
        index = names.index(fault.job) if fault.job else 0
        if not programs:
            raise UsageError(f"scenario {scenario.name}: a fault needs a job")
        _PLANNERS[fault.kind](_Site(plan, fault, cluster, programs, programs[index]))
    return plan


def _interval(fault: FaultSpec) -> tuple[int, int, int | None]:
    """Start, end for the engine, end for the label."""
    start = int(fault.at_s * SECOND)
    if fault.for_s <= 0:
        return start, NEVER, None
    end = start + int(fault.for_s * SECOND)
    return start, end, end


def _victim(fault: FaultSpec, program: JobProgram) -> tuple[int, int, list[int]]:
    """Cell, NIC, and all NICs of the cell of the rank that the fault names."""
    ranks = [(cell, nic) for cell in program.all_cells for nic in program.nics_of_cell[cell]]
    cell, nic = ranks[fault.rank % len(ranks)]
    return cell, nic, program.nics_of_cell[cell]


def _label(site: _Site, kind: FindingKind, job: str | None, where: Where, equivalents: tuple[str, ...] = ()) -> None:
    start, _, end = _interval(site.fault)
    site.plan.labels.append(FaultLabel(kind, job, where, start, end, equivalents))


def _names(cluster: SimulatedCluster, nics: list[int]) -> tuple[str, ...]:
    return tuple(cluster.addresses[nic] for nic in nics)


def _slow_gpu(site: _Site) -> None:
    program = site.program
    cell, nic, peers = _victim(site.fault, program)
    start, end, _ = _interval(site.fault)
    site.plan.add_slow("cell", cell, start, end, site.fault.factor)
    place = Where(WhereType.GPU, site.cluster.addresses[nic])
    _label(site, FindingKind.SLOW_GPU, program.spec.name, place, _names(site.cluster, peers))


def _slow_nic(site: _Site) -> None:
    program = site.program
    _, nic, _ = _victim(site.fault, program)
    start, end, _ = _interval(site.fault)
    site.plan.add_slow("nic", nic, start, end, site.fault.factor)
    _label(site, FindingKind.SLOW_NIC, program.spec.name, Where(WhereType.NIC, site.cluster.addresses[nic]))


def _slow_link(site: _Site) -> None:
    start, end, _ = _interval(site.fault)
    site.plan.add_slow("link", site.cluster.link(site.fault.leaf, site.fault.spine), start, end, site.fault.factor)
    where = Where(WhereType.LINK, (site.leaf, site.spine))
    _label(site, FindingKind.SLOW_LINK, None, where)


def _slow_leaf(site: _Site) -> None:
    start, end, _ = _interval(site.fault)
    site.plan.add_slow("switch", site.fault.leaf, start, end, site.fault.factor)
    _label(site, FindingKind.SLOW_SWITCH, None, Where(WhereType.SWITCH, site.leaf))


def _slow_spine(site: _Site) -> None:
    start, end, _ = _interval(site.fault)
    site.plan.add_slow("switch", len(site.cluster.leaves) + site.fault.spine, start, end, site.fault.factor)
    _label(site, FindingKind.SLOW_SWITCH, None, Where(WhereType.SWITCH, site.spine))


def _ecmp(site: _Site) -> None:
    """Two jobs hash onto one uplink of a leaf: while it lasts their flows through it share one link's rate."""
    start, end, _ = _interval(site.fault)
    other = next((p.index for p in site.programs if p.spec.name == site.fault.other_job), site.program.index)
    jobs = frozenset({site.program.index, other})
    link = SharedLink(site.fault.leaf, site.fault.spine, jobs, site.fault.factor, start, end)
    site.plan.shared.append(link)
    where = Where(WhereType.LINK, (site.leaf, site.spine))
    _label(site, FindingKind.CONGESTION, None, where)


def _slow_storage(site: _Site) -> None:
    start, end, _ = _interval(site.fault)
    if not len(site.cluster.storage):
        raise UsageError("fault slow_storage: the cluster has no storage nodes")
    node = site.cluster.storage[site.fault.rank % len(site.cluster.storage)]
    site.plan.add_slow("nic", node, start, end, site.fault.factor)
    _label(site, FindingKind.SLOW_STORAGE, None, Where(WhereType.STORAGE, site.cluster.addresses[node]))


def _imbalance(site: _Site) -> None:
    program = site.program
    start, end, _ = _interval(site.fault)
    if site.fault.stage >= program.spec.pp:
        raise UsageError(f"fault imbalance: {program.spec.name} has no stage {site.fault.stage}")
    cells = [cell for row in program.cells[site.fault.stage] for cell in row]
    for cell in cells:
        site.plan.add_slow("cell", cell, start, end, site.fault.factor)
    members = _names(site.cluster, [nic for cell in cells for nic in program.nics_of_cell[cell]])
    _label(site, FindingKind.IMBALANCE, program.spec.name, Where(WhereType.STAGE, members))


def _slow_group(site: _Site) -> None:
    program = site.program
    start, end, _ = _interval(site.fault)
    groups = [(cells, number) for (kind, cells), number in program.groups.items() if kind is PairKind.DP]
    if not groups:
        raise UsageError(f"fault slow_group: {program.spec.name} has no gradient group")
    cells, number = groups[site.fault.group % len(groups)]
    site.plan.add_slow("group", number, start, end, site.fault.factor)
    members = _names(site.cluster, [nic for cell in cells for nic in program.nics_of_cell[cell]])
    _label(site, FindingKind.SLOW_GROUP, program.spec.name, Where(WhereType.GROUP, members))


def _stall(site: _Site) -> None:
    program = site.program
    start, end, _ = _interval(site.fault)
    site.plan.stall[program.index] = (start, end)
    _label(site, FindingKind.STALL, program.spec.name, Where(WhereType.JOB, program.spec.name))


def _hang(site: _Site) -> None:
    program = site.program
    cell, nic, peers = _victim(site.fault, program)
    site.plan.hang[cell] = int(site.fault.at_s * SECOND)
    place = Where(WhereType.GPU, site.cluster.addresses[nic])
    _label(site, FindingKind.HANG, program.spec.name, place, _names(site.cluster, peers))


def _crash(site: _Site) -> None:
    """The process of one rank dies: its cell does nothing more, and its connections are closed."""
    program = site.program
    cell, nic, peers = _victim(site.fault, program)
    when = int(site.fault.at_s * SECOND)
    site.plan.killed[cell] = when
    site.plan.dead[nic] = (when, program.index)
    site.plan.crash[program.index] = when + CRASH_SPREAD_NS
    end = when + int(site.fault.restart_s * SECOND) if site.fault.kind == "crash_restart" else None
    place = Where(WhereType.GPU, site.cluster.addresses[nic])
    label = FaultLabel(FindingKind.CRASH, program.spec.name, place, when, end, _names(site.cluster, peers))
    site.plan.labels.append(label)


_PLANNERS = {
    "slow_gpu": _slow_gpu,
    "slow_nic": _slow_nic,
    "slow_link": _slow_link,
    "slow_leaf": _slow_leaf,
    "slow_spine": _slow_spine,
    "ecmp_collision": _ecmp,
    "slow_storage": _slow_storage,
    "imbalance": _imbalance,
    "slow_group": _slow_group,
    "stall": _stall,
    "hang": _hang,
    "crash": _crash,
    "crash_restart": _crash,
}
