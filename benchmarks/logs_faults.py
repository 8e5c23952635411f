# ruff: noqa: E501 (log lines as they are)
"""Faults as logs show them: the lines of the guilty rank, and what its peers say because of it.

Every line has the form that real systems print (driver catalogue, NCCL and PyTorch sources, public issue threads); hosts,
addresses and process ids are filled in. `{node}`, `{rank}`, `{pid}`, `{gpu}`, `{step}` and `{address}` are replaced.
This file shares nothing with the fault library that reads such lines: the benchmark joins the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["FAULTS", "Aftermath", "LogFault"]


class Aftermath(StrEnum):
    """What the others do: see the connection close, wait until the watchdog fires, or fail themselves."""

    CLOSED = "closed"
    TIMEOUT = "timeout"
    EVERYONE = "everyone"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class LogFault:
    """`lines` are those of the guilty rank (of all ranks for EVERYONE); `kernel` lines come without a program's prefix."""

    name: str
    cause: str
    aftermath: Aftermath
    lines: tuple[str, ...]
    stage: str = "train"
    kernel: bool = False
    symptom: str = "crash"


_FRAMES = (
    "Traceback (most recent call last):",
    '  File "/workspace/pretrain_gpt.py", line 214, in <module>',
    "    pretrain(train_valid_test_datasets_provider, model_provider, forward_step)",
)


def _raised(*more: str) -> tuple[str, ...]:
    return (*_FRAMES, *more)


_CUDA_FRAMES = (
    '  File "/usr/local/lib/python3.12/dist-packages/megatron/training/training.py", line 1440, in train_step',
    "    losses_reduced = forward_backward_func(",
)
_DATA_FRAMES = (
    '  File "/usr/local/lib/python3.12/dist-packages/torch/utils/data/_utils/fetch.py", line 54, in fetch',
    "    data = [self.dataset[idx] for idx in possibly_batched_index]",
    '  File "/workspace/dataset.py", line 61, in __getitem__',
    "    return self.decode(sample)",
)
_SAVE_FRAMES = (
    '  File "/usr/local/lib/python3.12/dist-packages/megatron/training/checkpointing.py", line 402, in save_checkpoint',
    "    torch.save(state_dict, checkpoint_name)",
)

FAULTS: tuple[LogFault, ...] = (
    LogFault(
        "xid79",
        "hardware.gpu",
        Aftermath.CLOSED,
        ("NVRM: Xid (PCI:0000:{gpu}b:00): 79, pid={pid}, name=python3, GPU has fallen off the bus.",),
        kernel=True,
    ),
    LogFault(
        "xid48",
        "hardware.gpu",
        Aftermath.CLOSED,
        (
            "NVRM: Xid (PCI:0000:{gpu}c:00): 48, pid={pid}, name=python3, An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer",
        ),
        kernel=True,
    ),
    LogFault(
        "xid95",
        "hardware.gpu",
        Aftermath.CLOSED,
        (
            "NVRM: Xid (PCI:0000:{gpu}c:00): 95, pid={pid}, name=python3, Uncontained: LTC (0x1,0x1). RST: Yes, D-RST: No",
        ),
        kernel=True,
    ),
    LogFault(
        "ecc",
        "hardware.gpu",
        Aftermath.CLOSED,
        _raised(*_CUDA_FRAMES, "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
    ),
    LogFault(
        "xid74",
        "hardware.nvlink",
        Aftermath.CLOSED,
        (
            "NVRM: Xid (PCI:0000:{gpu}b:00): 74, pid={pid}, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
        ),
        kernel=True,
    ),
    LogFault(
        "nvlink",
        "hardware.nvlink",
        Aftermath.CLOSED,
        _raised(*_CUDA_FRAMES, "RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution"),
    ),
    LogFault(
        "sxid",
        "hardware.nvlink",
        Aftermath.CLOSED,
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 46 sourcetrack timeout error (First)",),
        kernel=True,
    ),
    LogFault(
        "mlx5_health",
        "hardware.nic",
        Aftermath.TIMEOUT,
        ("mlx5_core 0000:5e:00.0: poll_health:825:(pid 0): device's health compromised - reached miss count",),
        kernel=True,
        symptom="crash",
    ),
    LogFault(
        "ib_catastrophic",
        "hardware.nic",
        Aftermath.CLOSED,
        (
            "{node}:{pid}:{pid} [{gpu}] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : local catastrophic error",
        ),
    ),
    LogFault(
        "port_error",
        "network",
        Aftermath.TIMEOUT,
        ("{node}:{pid}:{pid} [{gpu}] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : port error",),
    ),
    LogFault(
        "oom_killer",
        "user.resource",
        Aftermath.CLOSED,
        (
            "Memory cgroup out of memory: Killed process {pid} (python3) total-vm:912345678kB, anon-rss:498765432kB, file-rss:0kB, shmem-rss:0kB",
        ),
        kernel=True,
    ),
    LogFault(
        "gpu_oom",
        "user.resource",
        Aftermath.CLOSED,
        _raised(
            *_CUDA_FRAMES,
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.16 GiB. GPU {gpu} has a total capacity of 79.10 GiB of which 1.28 GiB is free.",
        ),
    ),
    LogFault(
        "eio",
        "storage",
        Aftermath.CLOSED,
        _raised(*_DATA_FRAMES, "OSError: [Errno 5] Input/output error: '/data/train_0{gpu}.bin'"),
    ),
    LogFault(
        "quota",
        "storage",
        Aftermath.CLOSED,
        _raised(*_SAVE_FRAMES, "OSError: [Errno 122] Disk quota exceeded: '/ckpt/iter_{step}'"),
        stage="checkpoint",
    ),
    LogFault(
        "stale",
        "storage",
        Aftermath.CLOSED,
        _raised(*_DATA_FRAMES, "OSError: [Errno 116] Stale file handle: '/data/shard_{gpu}.tar'"),
    ),
    LogFault(
        "bad_sample",
        "user.data",
        Aftermath.CLOSED,
        _raised(
            *_DATA_FRAMES, "UnicodeDecodeError: 'utf-8' codec can't decode byte 0x9c in position 17: invalid start byte"
        ),
    ),
    LogFault(
        "value_error",
        "user.code",
        Aftermath.CLOSED,
        _raised(
            '  File "/workspace/model.py", line 88, in forward',
            "    return self.mix(x, mask)",
            "ValueError: mask has 3 dimensions, expected 2",
        ),
    ),
    LogFault("segfault", "user.code", Aftermath.CLOSED, ("Fatal Python error: Segmentation fault",)),
    LogFault(
        "panic",
        "hardware.node",
        Aftermath.CLOSED,
        ("Kernel panic - not syncing: Fatal exception in interrupt",),
        kernel=True,
    ),
    LogFault(
        "pcie",
        "hardware.node",
        Aftermath.CLOSED,
        (
            "pcieport 0000:80:01.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
        ),
        kernel=True,
    ),
    LogFault("killed", "hardware.node", Aftermath.CLOSED, (), symptom="crash"),
    LogFault("frozen", "hardware.node", Aftermath.TIMEOUT, (), symptom="hang"),
    LogFault(
        "missing_data",
        "user.config",
        Aftermath.EVERYONE,
        _raised(
            '  File "/workspace/dataset.py", line 20, in build_dataset',
            "    files = os.listdir(path)",
            "FileNotFoundError: [Errno 2] No such file or directory: '/data/train'",
        ),
        stage="data",
        symptom="launch_failure",
    ),
    LogFault(
        "bad_argument",
        "user.config",
        Aftermath.EVERYONE,
        _raised(
            '  File "/workspace/megatron/training/arguments.py", line 301, in validate_args',
            "    assert args.world_size % total == 0",
            "AssertionError: world size (64) is not divisible by total_model_size (24)",
        ),
        stage="init",
        symptom="launch_failure",
    ),
    LogFault(
        "no_module",
        "user.config",
        Aftermath.EVERYONE,
        _raised("ModuleNotFoundError: No module named 'apex'"),
        stage="init",
        symptom="launch_failure",
    ),
    LogFault(
        "metric",
        "user.code",
        Aftermath.EVERYONE,
        _raised(
            '  File "/workspace/evaluate.py", line 193, in run_eval',
            "    score = distance(a, b)",
            "ValueError: Imaginary component 0.00299",
        ),
        stage="eval",
    ),
    LogFault(
        "all_oom",
        "user.resource",
        Aftermath.EVERYONE,
        _raised(
            *_CUDA_FRAMES,
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 12.00 GiB. GPU {gpu} has a total capacity of 79.10 GiB of which 3.28 GiB is free.",
        ),
    ),
    LogFault("hccl_peer", "hardware.node", Aftermath.KILLED, (), symptom="hang"),
)
