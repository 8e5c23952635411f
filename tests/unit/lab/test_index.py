"""The words of the dataset's index."""

from __future__ import annotations

from typing import Any

import pytest
from lab.index import fault_name, framework_name, layout_name


def job(framework: str, **layout: Any) -> dict[str, Any]:
    degrees = {"tp": 1, "pp": 1, "dp": 1, "ep": None, "cp": None, "sharding": "none"}
    schedule = layout.pop("schedule_name", None)
    return {"framework": framework, "layout": {**degrees, **layout}, "schedule_name": schedule}


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("megatron-core 0.16.1", "Megatron-Core"),
        ("deepspeed 0.19.8 ZeRO-3", "DeepSpeed ZeRO"),
        ("deepspeed 0.19.8 pipeline", "DeepSpeed pipeline"),
        ("transformers.Trainer 5.17.0 / accelerate 1.15.0", "HF Trainer"),
        ("something new", "something new"),
    ],
)
def test_frameworks_lose_their_version(said: str, name: str) -> None:
    assert framework_name(job(said)) == name


@pytest.mark.parametrize(
    ("described", "name"),
    [
        (job("torch DDP", dp=8), "data"),
        (job("torch HSDP", dp=8, sharding="fsdp"), "hybrid sharded"),
        (job("torch FSDP2", dp=4, cp=2, sharding="fsdp"), "sharded + context"),
        (job("m", dp=2, tp=2, pp=2, schedule_name="1f1b"), "data + tensor + pipeline 1f1b"),
        (job("m", pp=4, schedule_name="zero_bubble_v"), "pipeline zero bubble v"),
    ],
)
def test_layouts_name_kinds_not_sizes(described: dict[str, Any], name: str) -> None:
    assert layout_name(described) == name


def test_faults_are_named_by_what_was_done() -> None:
    assert fault_name({"kind": "slow_nic", "planted": {"kind": "delay"}}, False) == "delay"
    assert fault_name({"kind": "crash", "planted": {"kind": "out_of_memory"}}, True) == "out of memory, restart"
    assert fault_name({"kind": "stall", "planted": {"kind": "link_down"}}, True) == "link down for a while"
