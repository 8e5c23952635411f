"""A cluster without its all-to-alls, for the step clock.

Experts are reached by all-to-alls of uneven sizes, several times in every step and over most links. No link then
carries the same bytes step after step, and one all-to-all is as good a step as any. But the gradients' rings, which run
over some of the same links, still keep their bytes: what remains without the meshes shows the steps.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Int32
from llmprism.model.flows import TransferTable
from llmprism.recognize.bulk import PairEnds, PairTraffic, pair_traffic
from llmprism.recognize.rules import RULES, RecognitionRules
from llmprism.stats.meshes import MeshPairs, mesh_pairs, mesh_rows

__all__ = ["has_meshes", "without_meshes"]


def without_meshes(
    transfers: TransferTable, traffic: PairTraffic, pairs: Int32, rules: RecognitionRules = RULES
) -> tuple[TransferTable, PairTraffic, Int32]:
    """The transfers, their totals and the cluster's pairs, as they are where there is no mesh or nothing else."""
    src, found = transfers.pair_src[pairs].astype(np.int64), _meshes(transfers, traffic, pairs)
    if not (found.mesh >= 0).any():
        return transfers, traffic, pairs
    own = transfers.select_pairs(pairs)
    other = ~mesh_rows(found, src, own.pair_offsets, own.start_ns, own.end_ns, own.bytes)
    if not other.any():
        return transfers, traffic, pairs
    rest = own.select_rows(other)
    return rest, pair_traffic(rest, rules), np.arange(rest.pair_count, dtype=np.int32)


def has_meshes(transfers: PairEnds, traffic: PairTraffic, pairs: Int32) -> bool:
    """Is there any all-to-all among these pairs?"""
    return bool((_meshes(transfers, traffic, pairs).mesh >= 0).any())


def _meshes(transfers: PairEnds, traffic: PairTraffic, pairs: Int32) -> MeshPairs:
    src, dst = transfers.pair_src[pairs].astype(np.int64), transfers.pair_dst[pairs].astype(np.int64)
    return mesh_pairs(src, dst, traffic.bytes[pairs].astype(np.float64))
