"""A scenario put together: cluster, programs, faults, connections; and the loop that runs it batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Float64, Int64
from llmprism.model import PairKind
from llmprism.sim import engine, engine_tables
from llmprism.sim.background import JobSpan, Mice, background
from llmprism.sim.collector import CollectedRecords, SimulatedCollector
from llmprism.sim.engine_tables import Counter
from llmprism.sim.faults import FaultPlan, SharedLink, plan_faults
from llmprism.sim.meter import Connections
from llmprism.sim.ops import Flag, Ops, OpTable, PairTable
from llmprism.sim.placement import place_jobs
from llmprism.sim.program import JobProgram, build_program
from llmprism.sim.recorder import Recorder
from llmprism.sim.scenario import JobSpec, Scenario
from llmprism.sim.simulated_cluster import SimulatedCluster, build_cluster
from llmprism.sim.writer import ConnectionNames
from llmprism.units import SECOND

__all__ = ["EPOCH_NS", "Simulation"]

EPOCH_NS = 1_800_000_000 * SECOND
"""The window's start: a fixed time in 2027, so that runs are the same."""

BATCH_TRANSFERS = 400_000
TCP, UDP = 6, 17
ROCE_PORT = 4791

SHORTEST_STEP_S = 0.025
"""The truth has room for steps of this length through the whole window."""


class Simulation:
    """Everything about one run. `batches` runs it once; afterwards `steps` holds what happened."""

    def __init__(self, scenario: Scenario, seed: int | None = None, trace: bool = False) -> None:
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else seed
        self.rng = np.random.default_rng(self.seed)
        self.window_ns = int(scenario.seconds * SECOND)
        self.cluster: SimulatedCluster = build_cluster(scenario.cluster)
        self.pairs = PairTable()
        self.programs: list[JobProgram] = []
        self.ops: Ops = self._build_programs()
        self.plan: FaultPlan = plan_faults(scenario, self.cluster, self.programs)
        if scenario.contention:
            self.plan.shared += self._uplinks()
        self.rdma = scenario.cluster.transport == "rdma"
        self.names = ConnectionNames(UDP if self.rdma else TCP)
        self._leaves: list[tuple[int, int]] = []
        self.network, self.connections = self._wire()
        self.faults = self._freeze_faults()
        self.jobs = self._job_table()
        steps = int(scenario.seconds / SHORTEST_STEP_S) + 256
        self.state = engine_tables.new_state(
            self.ops, len(self.cluster.addresses), len(self.plan.shared), len(self.programs), steps, trace
        )
        self.pair_bytes = np.zeros(len(self.pairs.src), dtype=np.int64)
        self.mice = self._background()
        self.transfers = 0

    @property
    def job_count(self) -> int:
        return len(self.scenario.jobs)

    def _build_programs(self) -> Ops:
        scenario, table = self.scenario, OpTable()
        placed = place_jobs(scenario, self.cluster, self.rng)
        self.placed = placed
        segments: list[tuple[JobSpec, list[int]]] = list(zip(scenario.jobs, placed, strict=True))
        names = [job.name for job in scenario.jobs]
        self.segment_job = list(range(len(names)))
        for fault in scenario.faults:
            if fault.kind == "crash_restart":
                j = names.index(fault.job) if fault.job else 0
                segments.append((replace(scenario.jobs[j], start_s=fault.at_s + fault.restart_s), placed[j]))
                self.segment_job.append(j)
        cell = 0
        for index, (spec, nics) in enumerate(segments):
            program = build_program(spec, index, nics, cell, self.cluster, table, self.pairs)
            self.programs.append(program)
            cell += len(program.all_cells)
        self.cell_count = cell
        self.group_count = table.groups
        return table.freeze()

    def _uplinks(self) -> list[SharedLink]:
        """Every link from a leaf to a spine, shared by all that goes up it."""
        spec = self.scenario.cluster
        load = spec.nic_gbps / spec.uplink_gbps
        return [
            SharedLink(leaf, spine, None, load, -engine_tables.NEVER, engine_tables.NEVER)
            for leaf in range(len(self.cluster.leaves))
            for spine in range(len(self.cluster.spines))
        ]

    def _wire(self) -> tuple[engine_tables.Network, Connections]:
        """ECMP choices, ports and connection ids of every pair."""
        cluster, pairs, spec = self.cluster, self.pairs, self.scenario.cluster
        src, dst = np.array(pairs.src, dtype=np.int32), np.array(pairs.dst, dtype=np.int32)
        leaf_src, leaf_dst = cluster.leaf_of[src], cluster.leaf_of[dst]
        spine = self.rng.integers(0, len(cluster.spines), (src.size, 2)).astype(np.int32)
        count = np.array(pairs.connections, dtype=np.int32)
        spine[count < 2, 1] = spine[count < 2, 0]  # a single connection takes one way
        job = np.array(pairs.job, dtype=np.int32)
        shared = np.full(src.size, -1, dtype=np.int32)
        for number, link in enumerate(self.plan.shared):
            if link.jobs is not None:
                hit = (leaf_src == link.leaf) & (leaf_dst != link.leaf) & np.isin(job, list(link.jobs))
                spine[hit] = link.spine
            else:
                hit = (leaf_src == link.leaf) & (leaf_dst != link.leaf) & (spine[:, 0] == link.spine) & (shared < 0)
            shared[hit] = number
        spine[leaf_src == leaf_dst] = -1
        network = engine_tables.Network(
            pair_src=src,
            pair_dst=dst,
            leaf_src=leaf_src.astype(np.int32),
            leaf_dst=leaf_dst.astype(np.int32),
            spine=spine,
            shared=shared,
            spines=len(cluster.spines),
            leaves=len(cluster.leaves),
            first_storage=cluster.gpus,
            ns_per_byte=8.0 / spec.nic_gbps,
            storage_ns_per_byte=8.0 / spec.storage_gbps,
        )
        first = np.concatenate(([0], np.cumsum(count)[:-1])).astype(np.int32) if count.size else count
        lane = np.arange(int(count.sum())) - np.repeat(first, count)
        ports = self.rng.integers(32_768, 60_999, (int(count.sum()), 2))
        if self.rdma:
            ports[:, 1] = ROCE_PORT
        for connection, pair in enumerate(np.repeat(np.arange(src.size), count)):
            choice = int(spine[pair, lane[connection] % 2])
            self._connect(int(src[pair]), int(dst[pair]), int(ports[connection, 0]), int(ports[connection, 1]), choice)
        return network, Connections(first, count, np.array(pairs.chunk_bytes, dtype=np.int64))

    def _connect(self, src: int, dst: int, sport: int, dport: int, spine: int | None = None) -> int:
        cluster = self.cluster
        a, b = int(cluster.leaf_of[src]), int(cluster.leaf_of[dst])
        if a == b:
            path = [cluster.leaves[a]]
        else:
            choice = (src * 31 + dst * 17 + sport) % len(cluster.spines) if spine is None else spine
            path = [cluster.leaves[a], cluster.spines[choice], cluster.leaves[b]]
        self._leaves.append((a, b))
        return self.names.add(cluster.addresses[src], cluster.addresses[dst], sport, dport, path)

    def _freeze_faults(self) -> engine_tables.Faults:
        cluster = self.cluster
        links = len(cluster.leaves) * len(cluster.spines)
        rate = 8.0 / self.scenario.cluster.nic_gbps
        return self.plan.freeze(
            self.cell_count, len(cluster.addresses), len(cluster.switches), links, self.group_count, rate
        )

    def _job_table(self) -> engine_tables.Jobs:
        specs = [program.spec for program in self.programs]

        def per_job(values: list[float]) -> Float64:
            return np.array(values, dtype=np.float64)

        def times(values: list[float]) -> Int64:
            return np.array(values, dtype=np.int64)

        never = float(engine_tables.NEVER)
        hang, killed = (np.full(max(self.cell_count, 1), engine_tables.NEVER, dtype=np.int64) for _ in range(2))
        for table, moments in ((hang, self.plan.hang), (killed, self.plan.killed)):
            for cell, when in moments.items():
                table[cell] = when
        dead = np.full(len(self.cluster.addresses), engine_tables.NEVER, dtype=np.int64)
        dead_job = np.full(len(self.cluster.addresses), -1, dtype=np.int32)
        for nic, (when, job) in self.plan.dead.items():
            dead[nic], dead_job[nic] = when, job
        stalls = [self.plan.stall.get(i, (engine_tables.NEVER, engine_tables.NEVER)) for i in range(len(specs))]
        return engine_tables.Jobs(
            start=times([spec.start_s * SECOND for spec in specs]),
            stop=times([spec.stop_s * SECOND if spec.stop_s > 0 else never for spec in specs]),
            crash=np.array([self.plan.crash.get(i, engine_tables.NEVER) for i in range(len(specs))], dtype=np.int64),
            stall_start=np.array([stall[0] for stall in stalls], dtype=np.int64),
            stall_end=np.array([stall[1] for stall in stalls], dtype=np.int64),
            steps=np.array([spec.steps or 2**30 for spec in specs], dtype=np.int32),
            setup_factor=per_job([spec.setup_factor if spec.start_s >= 0 else 1.0 for spec in specs]),
            compute_sigma=per_job([spec.compute_jitter for spec in specs]),
            length_spread=per_job([spec.variable_length for spec in specs]),
            routing_skew=per_job([spec.routing_skew for spec in specs]),
            stall_probability=per_job([spec.stall_probability for spec in specs]),
            lane_jitter_ns=per_job([spec.host_jitter_ms * 1e6 for spec in specs]),
            hop_gap_ns=per_job([spec.hop_gap_ms * 1e6 for spec in specs]),
            byte_noise=per_job([spec.byte_noise for spec in specs]),
            step_factor=np.stack([self._step_factors(spec) for spec in specs]) if specs else np.ones((1, 1)),
            hang=hang,
            killed=killed,
            dead=dead,
            dead_job=dead_job,
        )

    def _step_factors(self, spec: JobSpec) -> Float64:
        """Healthy variation from step to step: noise, slow regimes that come and go, short spikes."""
        count = engine_tables.STEP_FACTORS
        factor = np.exp(self.rng.normal(0.0, spec.step_jitter, count))
        if spec.alternate > 1.0:
            factor[(np.cumsum(self.rng.random(count) < 0.3) % 2) == 1] *= spec.alternate
        factor[self.rng.random(count) < spec.spike_probability] *= spec.spike_factor
        return factor

    def _background(self) -> Mice:
        spans = []
        for program, nics in zip(self.programs, [self.placed[j] for j in self.segment_job], strict=True):
            first = int(program.spec.start_s * SECOND)
            last = min(self.plan.crash.get(program.index, self.window_ns), self.window_ns)
            if program.spec.stop_s > 0:
                last = min(last, int(program.spec.stop_s * SECOND))
            used = {pair for pair, kind in program.pair_kinds if kind != int(PairKind.OTHER)}
            ends = [(self.pairs.src[pair], self.pairs.dst[pair]) for pair in sorted(used)]
            gone = {nic: when for nic, (when, job) in self.plan.dead.items() if job == program.index}
            spans.append(JobSpan(nics, ends, first, last, gone))
        return background(self.cluster, spans, self.window_ns, self._connect, self.rng)

    def _output(self) -> tuple[engine_tables.Transfers, int]:
        widest = self.ops.lanes.astype(np.int64) * np.maximum(self.ops.width, 1) * np.maximum(self.ops.segments, 8)
        square = self.ops.lanes.astype(np.int64) * self.ops.width.astype(np.int64) ** 2
        room = int(max(widest.max(initial=1), square.max(initial=1))) + 1
        size = BATCH_TRANSFERS + room
        return engine_tables.new_transfers(size, BATCH_TRANSFERS), room

    def batches(self) -> Iterator[tuple[engine_tables.Transfers, list[CollectedRecords]]]:
        """Runs the scenario: true transfers, and the records that the collector made of them."""
        out, room = self._output()
        seed = np.uint64(self.seed * 2654435761 + 12345)
        world = engine_tables.World(self.ops, self.network, self.faults, self.jobs, self.state, out, seed)
        recorder = self._recorder(seed)
        engine.seed_heap(world)
        status = engine.FULL
        while status == engine.FULL:
            status = engine.advance(world, self.window_ns, room)
            transfers = self._taken(out)
            self.transfers += transfers.pair.size
            yield transfers, recorder.record(transfers, None if status == engine.DONE else self.now_ns)

    def _recorder(self, seed: np.uint64) -> Recorder:
        leaves = np.array(self._leaves, dtype=np.int32).reshape(-1, 2)
        spec = self.scenario.collector
        rng = np.random.default_rng([self.seed, 1])
        collector = SimulatedCollector(spec, len(self.cluster.leaves), leaves[:, 0].copy(), leaves[:, 1].copy(), rng)
        return Recorder(spec, self.connections, len(self.names.src), self.mice, collector, self.window_ns, seed)

    @property
    def now_ns(self) -> int:
        """How far the simulation has come, from the window's start."""
        return int(self.state.counters[Counter.NOW])

    def _taken(self, out: engine_tables.Transfers) -> engine_tables.Transfers:
        """A copy of what the engine has written in this batch."""
        count, done = (int(self.state.counters[place]) for place in (Counter.TRANSFERS, Counter.DONE))
        inside = (out.end[:count] > 0) & (out.start[:count] < self.window_ns)
        np.add.at(self.pair_bytes, out.pair[:count][inside], out.bytes[:count][inside])
        many = {name: done if name.startswith("done_") else count for name in out._fields}
        return engine_tables.Transfers(**{name: getattr(out, name)[:rows].copy() for name, rows in many.items()})

    def steps(self, segment: int) -> tuple[NDArray[np.intp], Int64, Int64]:
        """Finished steps of a job segment inside the window: numbers, starts, ends (relative to the window)."""
        syncs = int(np.sum((self.ops.flags & int(Flag.SYNC) > 0) & (self.ops.job == segment)))
        state = self.state
        done = (state.step_syncs[segment] == syncs) & (state.step_end[segment] > 0)
        done &= state.step_end[segment] <= min(self.window_ns, int(self.jobs.crash[segment]))
        number = np.flatnonzero(done)
        return number, state.step_start[segment, number], state.step_end[segment, number]
