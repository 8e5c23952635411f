"""Which transfers go where: pieces of pairs joined with what they are for, a cluster, a job or a server.

The tables are made on the driver, a few dozen bytes per pair; Spark joins them with the transfers where those lie.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from llmprism.arrays import Int32
from llmprism.engine.arrow_codec import encode
from llmprism.recognize.cluster_clock import witness_pairs
from llmprism.recognize.recognise_jobs import Draft, JobDraft, RailQuestion
from llmprism.recognize.segments import PairPieces
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["cluster_pieces", "job_pieces", "rail_pieces", "server_pieces"]


def cluster_pieces(draft: Draft) -> pa.Table:
    """All pieces of all clusters with their totals; only the witnesses have names, so only their transfers travel."""
    pieces, traffic = draft.pieces, draft.pieces.traffic
    chosen = _together(draft.clusters)
    cluster = np.repeat(np.arange(len(draft.clusters), dtype=np.int32), [pairs.size for pairs in draft.clusters])
    witnesses = _together([witness_pairs(pieces, traffic, pairs) for pairs in draft.clusters])
    table = _table(pieces, chosen, np.isin(chosen, witnesses))
    totals = {"sum_bytes": traffic.bytes, "largest": traffic.largest, "first_ns": traffic.first_ns}
    totals["last_ns"] = traffic.last_ns
    for name, values in totals.items():
        table = table.append_column(name, pa.array(values[chosen]))
    return table.append_column("cluster", pa.array(cluster))


def rail_pieces(draft: Draft, questions: Sequence[RailQuestion]) -> tuple[pa.Table, pa.Table]:
    """The pieces of the clusters in question and the questions, both with a number for what must meet in one place."""
    left, right = [question.left for question in questions], [question.right for question in questions]
    group = component_labels(len(draft.clusters), left, right).astype(np.int32)
    clusters = np.unique(np.array([*left, *right], dtype=np.int32))
    cluster = np.repeat(clusters, [draft.clusters[one].size for one in clusters])
    pieces = _table(draft.pieces, _together([draft.clusters[one] for one in clusters]))
    pieces = pieces.append_column("cluster", pa.array(cluster)).append_column("group", pa.array(group[cluster]))
    numbered = pa.table({"question": encode(questions, RailQuestion), "group": pa.array(group[left])})
    return pieces, numbered


def job_pieces(draft: Draft, jobs: Sequence[tuple[int, JobDraft]]) -> pa.Table:
    """The pieces of these jobs, with the jobs' numbers."""
    number = np.repeat(np.array([i for i, _ in jobs], dtype=np.int32), [job.pairs.size for _, job in jobs])
    return _table(draft.pieces, _together([job.pairs for _, job in jobs])).append_column("job", pa.array(number))


def server_pieces(draft: Draft, jobs: Sequence[JobDraft], crossing: Int32) -> pa.Table:
    """The pieces with one end in a job, with the address of the other end."""
    member = np.zeros(len(draft.pieces.addresses), dtype=np.bool_)
    for job in jobs:
        member[list(job.members)] = True
    src, dst = draft.pieces.pair_src[crossing], draft.pieces.pair_dst[crossing]
    return _table(draft.pieces, crossing).append_column("server", pa.array(np.where(member[src], dst, src)))


def _together(parts: Sequence[Int32]) -> Int32:
    return np.concatenate([*parts, np.zeros(0, dtype=np.int32)]).astype(np.int32)


def _table(
    pieces: PairPieces, chosen: Int32, named: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None
) -> pa.Table:
    names = pa.array(pieces.addresses, type=pa.string())
    last = np.append(pieces.origin[1:] != pieces.origin[:-1], True) if pieces.origin.size else pieces.origin
    rows = np.where(last, -1, np.append(pieces.row[1:], 0) - pieces.row)
    hidden = None if named is None else ~named
    src, dst = pieces.pair_src[chosen], pieces.pair_dst[chosen]
    return pa.table(
        {
            "piece": pa.array(chosen),
            "src": names.take(pa.array(src, mask=hidden)),
            "dst": names.take(pa.array(dst, mask=hidden)),
            "src_id": pa.array(src),
            "dst_id": pa.array(dst),
            "row": pa.array(pieces.row[chosen]),
            "rows": pa.array(rows[chosen]),
        }
    )
