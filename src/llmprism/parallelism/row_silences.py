"""The silences between some rows of a job's transfers, taken together, and which messages break none."""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.integer_order import stable_order
from llmprism.stats.silences import Silences, silences_of

__all__ = ["control_limit", "silences_of_rows"]


def silences_of_rows(transfers: TransferTable, rows: Int64, limit: float = MESSAGE_FLOOR_BYTES) -> Silences:
    """Silences while none of these rows sends; messages below the limit add their bytes but break no silence."""
    start: Int64 = transfers.start_ns[rows]
    order = stable_order(start)
    rows = rows[order]
    return silences_of(start[order], transfers.end_ns[rows], transfers.bytes[rows], int(limit))


def control_limit(transfers: TransferTable, pairs: Bool, rules: LayoutRules = RULES) -> float:
    """Size below which messages of these pairs carry no tensors."""
    size = transfers.bytes[transfers.rows_of(pairs)]
    size = np.sort(size[:: max(1, size.size // rules.ends.message_sample)])
    up_to = np.cumsum(size)
    if not size.size or up_to[-1] <= 0:
        return float(MESSAGE_FLOOR_BYTES)
    usual = float(size[np.searchsorted(up_to, 0.5 * up_to[-1])])
    return max(float(MESSAGE_FLOOR_BYTES), min(rules.ends.control_share * usual, float(rules.ends.control_bytes)))
