"""Raw records of a span of time from the stored segments: of everybody, or of some addresses only.

A segment that cannot be read (a disk that lies) costs its own records and no more; it is named in the log. An address
keeps its id within one table only.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np

from llmprism.errors import InputError, StoreError
from llmprism.ingest import read_flows
from llmprism.ingest.extract import extract_flows, readable
from llmprism.model.flows import FlowTable, InputCounts, Window
from llmprism.service.store import Segment

__all__ = ["affordable", "cut", "read_members", "read_window"]

log = logging.getLogger(__name__)


def affordable(segments: list[Segment], most: int) -> tuple[list[Segment], str]:
    """The latest segments within the cap on records, and a note where some were left out."""
    total = sum(segment.records for segment in segments)
    if total <= most:
        return segments, ""
    kept: list[Segment] = []
    for segment in reversed(segments):
        if kept and sum(item.records for item in kept) + segment.records > most:
            break
        kept.insert(0, segment)
    return kept, f"{total:,} records are more than one window may hold ({most:,}): only the latest part was looked at"


def read_window(segments: Sequence[Segment], window: Window) -> FlowTable | None:
    """The records of these segments that end inside the window; None where there is none."""
    flows = _read([segment.path for segment in segments if segment.path.exists()])
    if flows is None:
        return None
    flows = cut(flows, window)
    return flows if flows.start_ns.size else None


def read_members(
    segments: Sequence[Segment], window: Window, members: Sequence[str], folder: Path, most: int
) -> tuple[FlowTable | None, int]:
    """The records of these addresses that end inside the window, and how many there are; None where there is none or
    more than `most`."""
    paths = [segment.path for segment in segments if segment.path.exists()]
    if not paths:
        return None, 0
    with tempfile.TemporaryDirectory(dir=folder, prefix="look-") as name:
        file = Path(name) / "look.parquet"
        try:
            found = extract_flows(paths, file, members, window.start_ns, window.end_ns, most)
        except duckdb.Error:
            found = extract_flows(_good(paths), file, members, window.start_ns, window.end_ns, most)
        return (read_flows([file]) if 0 < found <= most else None), found


def _read(paths: list[Path]) -> FlowTable | None:
    if not paths:
        return None
    try:
        return read_flows(paths)
    except InputError:
        paths = _good(paths)
    return read_flows(paths) if paths else None


def _good(paths: list[Path]) -> list[Path]:
    good, bad = readable(paths)
    for path, reason in bad:
        log.error("a segment cannot be read and is left out", extra={"segment": path.name, "reason": reason})
    if not bad:
        raise StoreError("segments could not be read together, although each can")
    return good


def cut(flows: FlowTable, window: Window) -> FlowTable:
    """The records that end after the window's start and not after its end. Addresses keep their ids."""
    keep = (flows.end_ns > window.start_ns) & (flows.end_ns <= window.end_ns)
    pair = np.repeat(np.arange(flows.pair_src.size), np.diff(flows.pair_offsets))
    counts = np.bincount(pair[keep], minlength=flows.pair_src.size)
    alive = np.flatnonzero(counts)
    offsets = np.concatenate(([0], np.cumsum(counts[alive]))).astype(np.int64)
    used = int(keep.sum())
    return replace(
        flows,
        pair_src=flows.pair_src[alive],
        pair_dst=flows.pair_dst[alive],
        pair_offsets=offsets,
        start_ns=flows.start_ns[keep],
        end_ns=flows.end_ns[keep],
        bytes=flows.bytes[keep],
        path=flows.path[keep],
        counts=InputCounts(used + sum(count for _, count in flows.counts.dropped), used, flows.counts.dropped),
    )
