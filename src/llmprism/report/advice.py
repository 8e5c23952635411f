"""What to do about each kind of finding: the first checks that separate a broken part from a symptom."""

from __future__ import annotations

from typing import Final

from llmprism.model.finding import FindingKind

__all__ = ["ADVICE", "TITLES"]

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

ADVICE: Final = {
    FindingKind.SLOW_STEP: (
        "All members slowed together: look at what they share (storage, data loading, the fabric) at that time."
    ),
    FindingKind.SLOW_GPU: (
        "Check this GPU's clocks, power cap, temperature and Xid or ECC errors, and the load on its host; "
        "drain the server if it stays slow."
    ),
    FindingKind.SLOW_NIC: (
        "Check this NIC's link speed, error counters, PCIe width and cable; swap cable, then transceiver, then NIC."
    ),
    FindingKind.SLOW_LINK: (
        "Check the error counters on both ports of this path and swap the cable or transceiver between them."
    ),
    FindingKind.SLOW_SWITCH: (
        "Check this switch's port errors, pause (PFC, ECN) counters and buffer drops; move traffic away before "
        "taking it down."
    ),
    FindingKind.SLOW_GROUP: (
        "Compare the members' hosts and paths: something these members share is slower than elsewhere."
    ),
    FindingKind.IMBALANCE: (
        "The layout gives this stage more work: ask the job's owner to move layers; no part is broken."
    ),
    FindingKind.CONGESTION: "Jobs compete for this path: check ECMP hashing and placement, and spread the jobs.",
    FindingKind.STALL: (
        "Look at what the members waited for at that time: checkpoint, data loading, storage or a retrying link."
    ),
    FindingKind.HANG: (
        "Take stack dumps (py-spy, NCCL flight recorder) on the first silent member, then restart the job without it."
    ),
    FindingKind.CRASH: "Read the logs and kernel messages of the first lost member's host; restart the job without it.",
    FindingKind.SLOW_STORAGE: "Check the storage servers' load and network before the training nodes.",
}
