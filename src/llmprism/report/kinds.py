"""Words for each kind of finding: its title, and the first checks that separate a broken part from a symptom."""

from __future__ import annotations

from typing import Final

from llmprism.model.finding import FindingKind

__all__ = ["CHECKS", "TITLES"]

TITLES: Final = {
    FindingKind.SLOW_STEP: "Slow steps",
    FindingKind.SLOW_GPU: "Slow GPU",
    FindingKind.SLOW_NIC: "Slow NIC",
    FindingKind.SLOW_LINK: "Slow link",
    FindingKind.SLOW_SWITCH: "Slow switch",
    FindingKind.SLOW_GROUP: "Slow group",
    FindingKind.IMBALANCE: "Imbalanced stages",
    FindingKind.CONGESTION: "Congestion",
    FindingKind.STALL: "Stall",
    FindingKind.HANG: "Hang",
    FindingKind.CRASH: "Crash",
    FindingKind.SLOW_STORAGE: "Slow storage",
}

CHECKS: Final = {
    FindingKind.SLOW_STEP: "storage and data loading at that time (iostat -x, nfsiostat); jobs that started then",
    FindingKind.SLOW_GPU: (
        "nvidia-smi -q -d CLOCK,PERFORMANCE,TEMPERATURE,ECC; dmesg | grep -i xid; load of its host (top)"
    ),
    FindingKind.SLOW_NIC: (
        "on its host: ethtool (speed), ethtool -S (errors), lspci -vv (LnkSta); mlxlink or ibstat for the cable"
    ),
    FindingKind.SLOW_LINK: "error counters of the ports on both ends; swap cable or transceiver and measure again",
    FindingKind.SLOW_SWITCH: "port errors, pause frames (PFC), ECN marks, buffer drops; drain it before taking it down",
    FindingKind.SLOW_GROUP: "what its members share and the other groups do not: rack, leaf, host image, driver",
    FindingKind.IMBALANCE: "layers per stage in the job's configuration; no part is broken, the owner moves layers",
    FindingKind.CONGESTION: "ECMP hashing and use of the links on the path; place the jobs apart",
    FindingKind.STALL: "checkpoints, data loading and storage at that time (iostat -x, nfsiostat); NCCL retries",
    FindingKind.HANG: "py-spy dump and the NCCL flight recorder on the first silent member, before any restart",
    FindingKind.CRASH: "dmesg and the rank's log on its host: Xid, out of memory, segmentation fault",
    FindingKind.SLOW_STORAGE: "load and network of the storage servers first, then the clients' mounts (nfsiostat)",
}
"""Where to look and with which tool. The summary of a finding says what is wrong; this says how to make sure."""
