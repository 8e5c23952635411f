"""What there is to know of each kind of finding: the one list that reports, costs, documents and tests read.

A kind that a detector reports must be here: its title, the first checks that separate a broken part from a symptom,
what is healed when its cost is played again, and what must have been seen for it to be found at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from llmprism.model.finding import FindingKind

__all__ = ["KIND_FACTS", "KindFacts", "Need", "Replay"]


class Replay(StrEnum):
    """What is healed when steps are played again without the fault; NONE: what the detector measured is the cost.

    PACE: the whole time from one step's end to the next, pauses between steps included, becomes the usual one.
    """

    NONE = "none"
    PACE = "pace"
    COMPUTATION = "computation"
    TRANSFERS = "transfers"


class Need(StrEnum):
    """What a kind cannot be found without."""

    STEPS = "steps that show"
    RATES = "messages of 128 KB or more, finely stamped"
    PATHS = "paths of the records"
    PEERS = "replicas or groups"
    WATCHED = "silence that was watched (--until)"
    STORAGE = "transfers with storage servers"
    LOGS = "logs of the job (--logs)"


@dataclass(frozen=True, slots=True)
class KindFacts:
    """`checks` says where to look and with which tool: the summary of a finding says what is wrong, this says how to
    make sure."""

    title: str
    checks: str
    replay: Replay
    needs: tuple[Need, ...]


KIND_FACTS: Final = {
    FindingKind.SLOW_STEP: KindFacts(
        "Slower, cause not visible",
        "storage and data loading at that time (iostat -x, nfsiostat); jobs that started then",
        Replay.NONE,
        (Need.STEPS,),
    ),
    FindingKind.SLOW_GPU: KindFacts(
        "Slow GPU",
        "nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE,ECC; dmesg | grep -i xid; load of its host (top)",
        Replay.COMPUTATION,
        (
            Need.STEPS,
            Need.PEERS,
        ),
    ),
    FindingKind.SLOW_NIC: KindFacts(
        "Slow NIC",
        "on its host: ethtool (speed), ethtool -S (errors), lspci -vv (LnkSta); mlxlink or ibstat for the cable",
        Replay.TRANSFERS,
        (
            Need.STEPS,
            Need.RATES,
        ),
    ),
    FindingKind.SLOW_LINK: KindFacts(
        "Slow link",
        "error counters of the ports on both ends; swap cable or transceiver and measure again",
        Replay.TRANSFERS,
        (
            Need.STEPS,
            Need.RATES,
            Need.PATHS,
        ),
    ),
    FindingKind.SLOW_SWITCH: KindFacts(
        "Slow switch",
        "port errors, pause frames (PFC), ECN marks, buffer drops; drain it before taking it down",
        Replay.TRANSFERS,
        (
            Need.STEPS,
            Need.RATES,
            Need.PATHS,
        ),
    ),
    FindingKind.SLOW_GROUP: KindFacts(
        "Slow group",
        "what its members share and the other groups do not: rack, leaf, host image, driver",
        Replay.TRANSFERS,
        (
            Need.STEPS,
            Need.RATES,
            Need.PEERS,
        ),
    ),
    FindingKind.IMBALANCE: KindFacts(
        "Imbalanced stages",
        "layers per stage in the job's configuration; no part is broken, the owner moves layers",
        Replay.NONE,
        (
            Need.STEPS,
            Need.PEERS,
        ),
    ),
    FindingKind.CONGESTION: KindFacts(
        "Congestion",
        "ECMP hashing and use of the links on the path; place the jobs apart",
        Replay.TRANSFERS,
        (
            Need.STEPS,
            Need.RATES,
            Need.PATHS,
        ),
    ),
    FindingKind.STALL: KindFacts(
        "Stall",
        "checkpoints, data loading and storage at that time (iostat -x, nfsiostat); NCCL retries",
        Replay.NONE,
        (Need.STEPS,),
    ),
    FindingKind.HANG: KindFacts(
        "Hang",
        "py-spy dump and the NCCL flight recorder on the first silent member, before any restart",
        Replay.NONE,
        (
            Need.STEPS,
            Need.WATCHED,
        ),
    ),
    FindingKind.CRASH: KindFacts(
        "Crash",
        "dmesg and the rank's log on its host: Xid, out of memory, segmentation fault",
        Replay.NONE,
        (
            Need.STEPS,
            Need.WATCHED,
        ),
    ),
    FindingKind.SLOW_STORAGE: KindFacts(
        "Slow storage",
        "load and network of the storage servers first, then the clients' mounts (nfsiostat)",
        Replay.PACE,
        (Need.STORAGE,),
    ),
    FindingKind.DIVERGED: KindFacts(
        "Loss out of range",
        "data and learning rate at that iteration; the checkpoint before it; the same step on other GPUs",
        Replay.NONE,
        (Need.LOGS,),
    ),
}
