"""Verdicts in one sentence: what, where, since when, why, and what it cost."""

from __future__ import annotations

from typing import Final

from llmprism.model.finding import FindingKind
from llmprism.model.log import Cause, CauseClass
from llmprism.model.topology import Topology
from llmprism.verdict.suspects import SuspectPlace

__all__ = ["died_silently", "ended_sentence", "time_text", "where_text"]

_VERB: Final = {FindingKind.CRASH: "failed", FindingKind.HANG: "stopped answering"}


def where_text(place: SuspectPlace, topology: Topology | None) -> str:
    """`Rank 5 (10.11.2.1, server02 GPU 1)`, with what is known of it."""
    if place.address is None and place.rank is None:
        return place.node or "A rank that cannot be named"
    details = []
    if place.rank is not None and place.address is not None:
        details.append(place.address)
    if topology is not None and place.address is not None:
        server = topology.server_of().get(place.address)
        slot = topology.slot_of().get(place.address)
        if server is not None:
            details.append(server if slot is None else f"{server} GPU {slot}")
    elif place.node:
        details.append(place.node)
    head = f"Rank {place.rank}" if place.rank is not None else f"GPU {place.address}"
    return f"{head} ({', '.join(details)})" if details else head


def ended_sentence(
    kind: FindingKind,
    place: SuspectPlace,
    cause: Cause,
    *,
    topology: Topology | None,
    iteration: int | None,
    others: int,
    waited_ns: int,
    lost_gpu_seconds: float,
    back_after_ns: int | None = None,
) -> str:
    """How a job came to its end; `back_after_ns`: it came back so much later."""
    who = where_text(place, topology) if place.address or place.rank is not None else "The job"
    when = f" in iteration {iteration}" if iteration is not None else ""
    text = f"{who} {_VERB.get(kind, 'failed')}{when}"
    if who != "The job" and kind is FindingKind.CRASH and died_silently(cause):
        text = f"{who} died{when} without writing an error"
    elif place.rank is not None and cause.summary.startswith(f"rank {place.rank} "):
        since = when.replace(" in ", " since ")
        text = f"{who} {cause.summary.removeprefix(f'rank {place.rank} ')}{since}"
    elif cause.summary and cause.cause_class is not CauseClass.NONE:
        text += f": {cause.summary}"
    if who != "The job" and others > 0:
        rank = "rank" if others == 1 else "ranks"
        then = f"waited for {time_text(waited_ns)}" if waited_ns > 0 else "stopped with it"
        text += f"; the other {others} {rank} {then}"
    if back_after_ns is not None:
        text += f"; the job came back after {time_text(back_after_ns)}"
    if lost_gpu_seconds > 0:
        text += f"; {_gpu_time(lost_gpu_seconds)} lost"
    return text


def died_silently(cause: Cause) -> bool:
    """Whether all that is known of the cause is that a rank was gone."""
    return cause.cause_class is CauseClass.HARDWARE_NODE and cause.signature is None


def time_text(ns: int) -> str:
    """`18 s`, `2.5 min`, `31 min`, `2.1 h`."""
    return _scaled(ns / 1e9, ("s", "min", "h"))


def _gpu_time(seconds: float) -> str:
    text = _scaled(seconds, ("GPU-seconds", "GPU-minutes", "GPU-hours"))
    return text.removesuffix("s") if text.startswith("1 ") else text


def _scaled(seconds: float, units: tuple[str, str, str]) -> str:
    if seconds < 120:
        return f"{seconds:.0f} {units[0]}"
    value, unit = (seconds / 60, units[1]) if seconds < 7200 else (seconds / 3600, units[2])
    return f"{value:.0f} {unit}" if value >= 10 or round(value, 1) == round(value) else f"{value:.1f} {unit}"
