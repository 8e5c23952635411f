"""Random scenarios for the lab: captures that nobody designed, to judge an inference by.

A scenario that somebody thinks of is one that he has thought of while writing the inference. Here a seed decides:
framework, layout, sizes, fabric, fault. `python -m lab draw SEED [--gpu] [--fault KIND]` prints the TOML file. Captures
of even seeds may be looked into, those of odd seeds are for judging alone; where the kind of fault was chosen
(`planted*`), all may. Contexts of Megatron-Core need
TransformerEngine: without it such a run fails its check, and its seed is missing from the dataset.
"""

from __future__ import annotations

import random
from typing import Any, Final

__all__ = ["PLANTED", "draw_scenario"]

MODELS: Final = ((512, 8), (640, 10), (768, 12))
"""Hidden size and heads of models that eight ranks of one GPU hold; those of the CPU are smaller (`SMALL`)."""

SMALL: Final = {"hidden": 192, "heads": 4, "sequence": 64, "vocabulary": 1024, "bucket_mb": 2}

SLOW: Final = ("slow_gpu", "slow_gpu", "slow_nic", "slow_nic", "slow_uplink", "slow_leaf", "stall")
LASTING: Final = ("crash", "out_of_memory", "killed", "bad_sample", "hang", "link_down")


PLANTED: Final = ("slow_gpu", "slow_nic", "slow_storage", "stall", *LASTING, "mismatched_collective")
"""Kinds of fault that a caller may choose."""

TIMEOUT_S: Final = 8
"""Patience of the watchdog of ranks that are left waiting: a run of the lab is short."""


def draw_scenario(seed: int, *, gpu: bool = True, fault: str = "") -> dict[str, Any]:
    """The table of a scenario; with `gpu` NCCL on one CUDA GPU, otherwise gloo on the CPU.

    `fault` is the kind of fault that the scenario must have (`PLANTED`), strong enough that operators must hear of it,
    or "none"; by default the seed decides that too, and many of its faults are faint.
    """
    rng = random.Random(seed)
    framework = rng.choice(
        (
            "ddp",
            "fsdp",
            "fsdp",
            "pipelining",
            "pipelining",
            "megatron",
            "megatron",
            "megatron",
            "deepspeed",
            "hf-trainer",
        )
        if gpu
        else ("ddp", "ddp", "fsdp", "fsdp", "pipelining", "hf-trainer")
    )
    ranks = rng.choice((8, 8, 8, 8, 6, 4)) if gpu else rng.choice((4, 4, 4, 6))
    job: dict[str, Any] = {"name": "train", "framework": framework, "ranks": ranks, "seconds": rng.choice((16, 20, 24))}
    job["options"] = _options(rng, framework, ranks, gpu=gpu)
    environment = {"NCCL_ALGO": "ring;allreduce:tree"} if gpu and framework == "ddp" and rng.random() < 0.3 else {}
    if gpu and rng.random() < 0.3:
        environment["NCCL_MIN_NCHANNELS"] = environment["NCCL_MAX_NCHANNELS"] = rng.choice(("1", "2", "4"))
    if environment:
        job["environment"] = environment
    job["placement"] = rng.choice(("contiguous", "contiguous", "contiguous", "stride", "scattered"))
    fabric = _fabric(rng, ranks, job["options"], gpu=gpu)
    scenario: dict[str, Any] = {
        "about": f"drawn by seed {seed}",
        "split": "test" if seed % 2 and not fault else "dev",
        "fabric": fabric,
        "jobs": [job],
    }
    if fault:
        scenario["about"] = f"{fault}, {scenario['about']}"
        _plant(rng, scenario, fault, gpu=gpu)
    elif rng.random() < 0.7:
        scenario["faults"] = [_fault(rng, ranks, fabric, gpu=gpu)]
        if scenario["faults"][0]["kind"] in ("hang", "link_down"):
            job["options"]["timeout_s"] = TIMEOUT_S
    return scenario


def _plant(rng: random.Random, scenario: dict[str, Any], kind: str, *, gpu: bool) -> None:
    """A fault of this kind that costs the job much, and what the job needs to suffer from it."""
    job, fabric = scenario["jobs"][0], scenario["fabric"]
    if kind == "none":
        return
    fault: dict[str, Any] = {"kind": kind, "rank": rng.randrange(job["ranks"]), "at_s": rng.choice((7, 9))}
    if kind in (*SLOW, "slow_storage"):
        job["seconds"] = 24
        fault["for_s"] = 3 if kind == "stall" else 9
    if kind == "slow_gpu":
        fault["factor"] = 3.0
    elif kind == "slow_nic":
        fault["rate"] = "100mbit" if gpu else "40mbit"
    elif kind == "slow_storage":
        fabric["storage"] = True
        job["options"] |= {"data_kb": 1500 if gpu else 600, "checkpoint_every": 15, "checkpoint_mb": 6.0}
        fault |= {"rank": 0, "rate": "100mbit" if gpu else "40mbit"}
    elif kind in ("hang", "link_down", "mismatched_collective"):
        job["options"]["timeout_s"] = TIMEOUT_S
        scenario["after_fault_s"] = 14.0
    if kind == "hang":
        fault["how"] = rng.choice(("stop", "compute", "communication"))
    scenario["faults"] = [fault]


def _options(rng: random.Random, framework: str, ranks: int, *, gpu: bool) -> dict[str, Any]:
    """Degrees and sizes. The time of a layer follows from how often it is passed: steps take 0.1 s to 1.5 s."""
    options: dict[str, Any] = {"layers": rng.choice((2, 3, 4, 6, 8)), "micro_batches": rng.choice((1, 1, 2, 3, 4, 8))}
    if framework in ("pipelining", "megatron"):
        stages = [n for n in (2, 3, 4, 8) if ranks % n == 0 and (gpu or n <= 4)]
        options |= _pipeline(rng, framework, ranks, stages)
    elif framework == "fsdp":
        options["replicas"] = rng.choice([n for n in (1, 1, 2, 4) if ranks % n == 0 and ranks // n > 1])
    elif framework == "deepspeed":
        options["zero"] = rng.choice((1, 2, 3))
        options["overlap"] = rng.random() < 0.5
    target_ms = 1e3 * 0.1 * 15.0 ** rng.random()
    own_layers = max(1, options["layers"] // options.get("pp", 1))
    passes = 3 * own_layers * (options["micro_batches"] + options.get("pp", 1) - 1)
    options["forward_ms"] = round(max(target_ms / passes, 1.0), 1)
    if gpu:
        options["hidden"], options["heads"] = rng.choice(MODELS)
        options["sequence"], options["batch"] = rng.choice((128, 256, 512)), rng.choice((1, 2, 4))
        options["bucket_mb"] = rng.choice((5, 20, 50))
    else:
        options |= SMALL
    if rng.random() < 0.15:
        options |= {"evaluate_every": rng.choice((10, 20))}
    return options


def _pipeline(rng: random.Random, framework: str, ranks: int, stages: list[int]) -> dict[str, Any]:
    """Degrees of a pipeline, or of the other layouts of Megatron-Core."""
    options: dict[str, Any] = {}
    habits = ("pipeline", "pipeline", "pipeline", "experts", "long sequences")
    habit = rng.choice(habits) if framework == "megatron" else "pipeline"
    if habit == "experts":
        options |= {"ep": rng.choice([n for n in (2, 4) if ranks % n == 0]), "experts": 8, "layers": rng.choice((2, 4))}
    elif habit == "long sequences":  # without contexts: Megatron-Core has them only with Transformer Engine
        options |= {"layers": rng.choice((2, 4)), "sequence": 512}
    if habit == "pipeline":
        pp = rng.choice(stages)
        options |= {
            "pp": pp,
            "micro_batches": pp * rng.choice((1, 2, 2, 3, 4)),
            "layers": pp * rng.choice((1, 2, 2, 4)),
        }
        if options["layers"] // pp % 2 == 0 and rng.random() < 0.35:
            options["virtual"] = 2
        if framework == "pipelining":
            folded = options.get("virtual", 1) > 1
            options["schedule"] = "interleaved" if folded else rng.choice(("1f1b", "1f1b", "gpipe"))
        elif rng.random() < 0.4:
            options["tied"] = True
    if framework == "megatron":
        options["distributed_optimizer"] = rng.random() < 0.4
        options["overlap"] = options["distributed_optimizer"] and rng.random() < 0.5
    return options


def _fabric(rng: random.Random, ranks: int, options: dict[str, Any], *, gpu: bool) -> dict[str, Any]:
    per_server = rng.choice([n for n in (1, 2, 2, 4) if ranks % n == 0 and ranks // n >= 2])
    fabric: dict[str, Any] = {"gpus_per_server": per_server, "rail": rng.random() < 0.6}
    fabric["pods"] = rng.choice([n for n in (1, 2) if ranks // per_server >= 2 * n] or [1])
    fabric["gap_us"] = rng.choice((300, 500, 1000, 2000))
    if not gpu:
        fabric["nic_rate"] = rng.choice(("1gbit", "2gbit"))
    if rng.random() < 0.2:
        fabric["storage"] = True
        options |= {"data_kb": rng.choice((100, 400)), "checkpoint_every": rng.choice((10, 25)), "checkpoint_mb": 6.0}
    return fabric


def _fault(rng: random.Random, ranks: int, fabric: dict[str, Any], *, gpu: bool) -> dict[str, Any]:
    kind = rng.choice(SLOW if rng.random() < 0.65 else LASTING)
    if kind in ("slow_uplink", "slow_leaf") and fabric["pods"] < 2:
        kind = "slow_nic"
    fault: dict[str, Any] = {"kind": kind, "rank": rng.randrange(ranks), "at_s": rng.choice((7, 9, 11))}
    if kind in SLOW:
        fault["for_s"] = rng.choice((5, 8))
    if kind == "slow_gpu":
        fault["factor"] = rng.choice((1.5, 2.0, 3.0))
    elif kind == "stall":
        fault["for_s"] = 3
    elif kind == "hang":
        fault["how"] = rng.choice(("stop", "compute", "communication"))
    elif kind in ("slow_nic", "slow_uplink", "slow_leaf"):
        fault["rate"] = rng.choice(("100mbit", "200mbit", "400mbit") if gpu else ("40mbit", "100mbit"))
    if kind in ("slow_uplink", "slow_leaf"):
        fault["leaf"] = rng.choice(("leaf00", "leaf10"))
    return fault
