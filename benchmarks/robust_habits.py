"""Habits of libraries, hosts and training scripts, as random settings of a job: one function per habit.

Each function draws from a random stream of its own, so that one habit does not change what another one draws.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from llmprism.sim.scenario import JobSpec

__all__ = ["HABITS", "log_uniform", "rounded"]


def log_uniform(rng: random.Random, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def rounded(value: float) -> float:
    """Three significant digits: a scenario file is read by people."""
    return float(f"{value:.3g}")


def noise(rng: random.Random, job: JobSpec) -> JobSpec:
    if rng.random() < 0.2:
        return replace(job, step_jitter=0.002, compute_jitter=0.002, stall_probability=0.0, byte_noise=0.0003)
    return replace(
        job,
        step_jitter=rng.choice((0.002, 0.03, 0.1)),
        compute_jitter=rng.choice((0.002, 0.03, 0.12)),
        stall_probability=rng.choice((0.0, 0.02, 0.1, 0.35)),
        variable_length=rng.choice((0.0, 0.0, 0.0, 0.2)),
        alternate=rng.choice((1.0, 1.0, 1.0, 1.3)),
        spike_probability=rng.choice((0.0, 0.0, 0.03)),
        gradient_norm=rng.random() < 0.4,
        byte_noise=rng.choice((0.0, 0.0003, 0.002, 0.03)),
    )


def rhythms(rng: random.Random, job: JobSpec) -> JobSpec:
    """Evaluation, checkpoints and late data: rhythms slower than the step."""
    step_ms = job.compute_ms * 3 * (job.micro_batches + job.pp - 1)
    if rng.random() < 0.15:
        job = replace(job, checkpoint_every=rng.choice((4, 8, 15)), checkpoint_mb=rounded(rng.uniform(10, 800)))
    if rng.random() < 0.15:
        job = replace(job, evaluate_every=rng.choice((5, 10)), evaluate_ms=rounded(step_ms * rng.uniform(0.5, 5)))
    if rng.random() < 0.25:
        job = replace(job, data_mb=rounded(log_uniform(rng, 0.05, 20)))
    if rng.random() < 0.15:
        job = replace(job, data_jitter_ms=rounded(step_ms * rng.uniform(0.02, 0.2)))
    return job


def rings(rng: random.Random, job: JobSpec) -> JobSpec:
    """NCCL with one or several channels, or gloo: both ways round, on one connection, with the host between pieces."""
    kind = rng.choice(("nccl", "nccl", "channels", "gloo"))
    if kind == "channels":
        return replace(job, channels=rng.choice((2, 3, 4)))
    if kind == "gloo":
        gap = rng.choice((0.0, 0.1, 0.6, 2.0)) * min(job.compute_ms / 20, 1.0)
        return replace(
            job,
            two_way_rings=True,
            collective="ring",
            connections=1,
            ring_pieces=rng.choice((8, 16, 32)),
            hop_gap_ms=rounded(gap),
        )
    return job


def sends(rng: random.Random, job: JobSpec) -> JobSpec:
    """Megatron's batched sends; tensor peers that are some share of a pass apart."""
    if job.pp > 1 and rng.random() < 0.4:
        job = replace(job, batched_sends=True)
    if job.tp > 1 and rng.random() < 0.5:
        job = replace(job, host_jitter_ms=rounded(min(log_uniform(rng, 0.05, 5.0), job.compute_ms / 4)))
    return job


def optimizers(rng: random.Random, job: JobSpec) -> JobSpec:
    """The distributed optimizer: fewer bytes gathered than scattered, gathers under the forward pass, uneven ranks."""
    if job.sharding.startswith("zero"):
        job = replace(job, gather_share=rng.choice((1.0, 0.5, 0.5)), overlap_gather=rng.random() < 0.35)
    if rng.random() < 0.2:
        job = replace(job, optimizer_spread=rng.choice((0.5, 2.0)))
    return job


def pieces(rng: random.Random, job: JobSpec) -> JobSpec:
    """FSDP in a pipeline once a step or for every micro-batch; data from many storage nodes."""
    if job.sharding == "fsdp" and job.pp > 1:
        job = replace(job, regather=rng.random() < 0.6)
    if rng.random() < 0.2:
        few = max(job.gradient_mb / 1000, 0.02)
        job = replace(job, data_mb=rounded(few), storage_fanout=rng.choice((4, 8)))
    return job


HABITS: Final[tuple[Callable[[random.Random, JobSpec], JobSpec], ...]] = (
    noise,
    rhythms,
    rings,
    sends,
    optimizers,
    pieces,
)
"""Applied in this order, each with a random stream of its own name."""
