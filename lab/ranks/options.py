"""What a scenario may say about one job, with defaults; every rank reads it from a file that the lab wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

__all__ = ["Options", "read_options"]


@dataclass(frozen=True, slots=True)
class Options:
    """Degrees, model, schedule and habits of one job.

    `forward_ms` is a spin kernel (on the CPU: a sleep) per layer and micro-batch, twice that in the backward pass: the
    ranks share one GPU, and the spin stands for the compute of a larger model without taking it from the others.
    `timeout_s`: a collective that takes longer is given up by the framework, which ends the rank.
    `data_kb` are read from the storage server by each rank for each step; `checkpoint_mb` written to it by each rank.
    """

    framework: str = "ddp"
    folder: str = ""
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    virtual: int = 1
    replicas: int = 1
    zero: int = 1
    schedule: str = "1f1b"
    micro_batches: int = 1
    batch: int = 2
    layers: int = 4
    hidden: int = 512
    heads: int = 8
    sequence: int = 256
    vocabulary: int = 8192
    experts: int = 8
    top_k: int = 2
    bucket_mb: int = 20
    overlap: bool = False
    distributed_optimizer: bool = False
    tied: bool = False
    forward_ms: float = 4.0
    jitter: float = 0.03
    evaluate_every: int = 0
    evaluate_batches: int = 8
    checkpoint_every: int = 0
    checkpoint_mb: float = 8.0
    data_kb: int = 0
    steps: int = 100_000
    spread: float = 0.0
    timeout_s: int = 120


def read_options(path: Path) -> Options:
    table = json.loads(path.read_text(encoding="utf-8"))
    unknown = table.keys() - {item.name for item in fields(Options)}
    if unknown:
        raise ValueError(f"options.{sorted(unknown)[0]}: unknown key")
    return Options(**table)
