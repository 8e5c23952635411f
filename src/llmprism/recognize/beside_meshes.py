"""A cluster without its all-to-alls, for the step clock.

Experts are reached by all-to-alls of uneven sizes, several times in every step and over most links. No link then
carries the same bytes step after step, and one all-to-all is as good a step as any. But the gradients' rings, which run
over some of the same links, still keep their bytes: what is beside the meshes shows the steps.
"""

from __future__ import annotations

import numpy as np

from llmprism.model.flows import Int32, TransferTable
from llmprism.recognize.bulk import PairTraffic, pair_traffic
from llmprism.stats.meshes import mesh_pairs, mesh_rows

__all__ = ["beside_meshes"]


def beside_meshes(
    transfers: TransferTable, traffic: PairTraffic, pairs: Int32
) -> tuple[TransferTable, PairTraffic, Int32]:
    """The transfers, their totals and the cluster's pairs, as they are where there is no mesh or nothing beside it."""
    src, dst = transfers.pair_src[pairs].astype(np.int64), transfers.pair_dst[pairs].astype(np.int64)
    found = mesh_pairs(src, dst, traffic.bytes[pairs].astype(np.float64))
    if not (found.mesh >= 0).any():
        return transfers, traffic, pairs
    own = transfers.select_pairs(pairs)
    beside = ~mesh_rows(found, src, own.pair_offsets, own.start_ns, own.end_ns, own.bytes)
    if not beside.any():
        return transfers, traffic, pairs
    rest = own.select_rows(beside)
    return rest, pair_traffic(rest), np.arange(rest.pair_count, dtype=np.int32)
