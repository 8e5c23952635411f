"""What a scenario is made of: cluster, collector, jobs and faults, each setting with a default and its meaning."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["ClusterSpec", "CollectorSpec", "FaultSpec", "JobSpec", "Scenario"]

SCHEDULES = ("1f1b", "gpipe", "interleaved", "zero_bubble")
SHARDINGS = ("none", "zero1", "zero2", "fsdp", "hsdp")
PLACEMENTS = ("contiguous", "scattered")
HALVES = ("both", "lower", "upper")
FABRICS = ("rail", "plain")
TRANSPORTS = ("tcp", "rdma")
ADDRESS_PLANS = ("rail", "server", "ipv6")
LEVELS = ("easy", "medium", "hard", "brutal")
FAULT_KINDS = (
    "slow_gpu",
    "slow_nic",
    "slow_link",
    "slow_leaf",
    "slow_spine",
    "ecmp_collision",
    "slow_storage",
    "imbalance",
    "slow_group",
    "stall",
    "hang",
    "crash",
    "crash_restart",
)


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """`fabric`: `rail` hangs GPU g of each server of a pod on leaf g; `plain` hangs whole servers on one leaf.

    `transport` rdma: telemetry of RoCEv2 only, without the jobs' store and bootstrap traffic over TCP.
    `uplink_gbps` is the rate between one leaf and one spine; it binds where the scenario asks for `contention`.
    `inference_nodes` serve requests next to the jobs, to clients and to one another. `ping_mesh_s` above 0: every NIC
    pings every other once in so many seconds.
    """

    servers: int = 4
    gpus_per_server: int = 8
    fabric: str = "rail"
    servers_per_pod: int = 16
    spines: int = 4
    nic_gbps: float = 200.0
    uplink_gbps: float = 1600.0
    nvlink: bool = True
    address_plan: str = "rail"
    storage_nodes: int = 2
    storage_gbps: float = 100.0
    monitoring: bool = False
    transport: str = "tcp"
    inference_nodes: int = 0
    ping_mesh_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CollectorSpec:
    """What the exporters do to the records. Times in milliseconds unless the name says otherwise.

    `idle_ms` cuts a record at a pause (0.5 ms in the real captures); a long one merges messages. `active_s` cuts a long
    record. `granularity_ms` rounds times down. `sampling` N keeps one packet of N and re-estimates the bytes. `cuts` is
    the share of the records that end somewhere in the middle and go on in another one, without any pause.
    """

    idle_ms: float = 0.5
    active_s: float = 60.0
    skew_ms: float = 0.0
    granularity_ms: float = 0.0
    loss: float = 0.0
    duplicates: float = 0.0
    sampling: int = 1
    late: float = 0.0
    late_s: float = 2.0
    cuts: float = 0.0
    outage_leaf: int = -1
    outage_at_s: float = 0.0
    outage_for_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One tenant's job. Sizes are per GPU: `activation_mb` per micro-batch, `gradient_mb` per step.

    `compute_ms` is the forward time of one micro-batch on one stage; backward takes twice as long. `start_s` below 0:
    the job was running before the window. `repeat` makes so many jobs of this kind, `apart_s` between the starts of one
    and the next. `half` takes only the lower or upper half of each server's GPUs. `steps` 0
    and `stop_s` 0: it runs to the end of the window.

    Habits of libraries, off by default:
    `two_way_rings`: parts are added up one way round and handed out the other way round (gloo). `ring_pieces`: pieces
    of one pass round a ring (0: NCCL's), `hop_gap_ms`: work of the host between two of them. `channels`: rings in so
    many orders at once, trees with other roots. `host_jitter_ms`: how far apart the processes of one tensor-parallel
    group send. `batched_sends`: a stage sends its activation when it also receives a gradient (Megatron).
    `gather_share`: bytes that optimizer sharding gathers per byte that it scatters (0.5: 4-byte gradients, 2-byte
    parameters); `overlap_gather`: it does so under the next forward pass. `regather`: FSDP in a pipeline gathers and
    scatters for every micro-batch, else once a step. `optimizer_spread`: how much longer the optimizer takes on some
    ranks. `storage_fanout`: storage nodes that each rank reads from. `byte_noise`: share by which the bytes of a
    transfer vary (headers, retries, padding; 0.0003 in the real captures).
    """

    name: str = "job"
    repeat: int = 1
    apart_s: float = 0.37
    tp: int = 1
    pp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    schedule: str = "1f1b"
    virtual_stages: int = 2
    micro_batches: int = 4
    sharding: str = "none"
    shard_group: int = 0
    collective: str = "ring"
    buckets: int = 4
    unequal_buckets: bool = True
    overlap: bool = True
    layers: int = 6
    activation_mb: float = 16.0
    gradient_mb: float = 200.0
    expert_mb: float = 4.0
    context_mb: float = 8.0
    compute_ms: float = 20.0
    optimizer_ms: float = 3.0
    tied_embeddings_mb: float = 0.0
    gradient_norm: bool = True
    variable_length: float = 0.0
    routing_skew: float = 0.3
    setup_factor: float = 8.0
    step_jitter: float = 0.03
    compute_jitter: float = 0.03
    spike_probability: float = 0.0
    spike_factor: float = 1.6
    alternate: float = 1.0
    checkpoint_every: int = 0
    checkpoint_mb: float = 500.0
    evaluate_every: int = 0
    evaluate_ms: float = 1500.0
    data_mb: float = 0.0
    data_jitter_ms: float = 0.0
    placement: str = "contiguous"
    half: str = "both"
    gpu_offset: int = 0
    start_s: float = -2.0
    stop_s: float = 0.0
    steps: int = 0
    connections: int = 2
    chunk_mb: float = 1.0
    stall_probability: float = 0.02
    tp_mb: float = 2.0
    two_way_rings: bool = False
    ring_pieces: int = 0
    hop_gap_ms: float = 0.0
    channels: int = 1
    host_jitter_ms: float = 0.0
    batched_sends: bool = False
    gather_share: float = 1.0
    overlap_gather: bool = False
    regather: bool = True
    optimizer_spread: float = 0.0
    storage_fanout: int = 1
    byte_noise: float = 0.0

    @property
    def gpus(self) -> int:
        return self.tp * self.cp * self.dp * self.pp


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """One planted fault. `rank`, `stage`, `group` and `leaf`/`spine` name the victim; `for_s` 0: to the end."""

    kind: str
    job: str = ""
    rank: int = 0
    stage: int = 0
    group: int = 0
    leaf: int = 0
    spine: int = 0
    at_s: float = 20.0
    for_s: float = 0.0
    factor: float = 3.0
    other_job: str = ""
    restart_s: float = 8.0


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    title: str = ""
    level: str = "easy"
    seconds: float = 60.0
    seed: int = 1
    contention: bool = False
    cluster: ClusterSpec = field(default_factory=ClusterSpec)
    collector: CollectorSpec = field(default_factory=CollectorSpec)
    jobs: tuple[JobSpec, ...] = ()
    faults: tuple[FaultSpec, ...] = ()
