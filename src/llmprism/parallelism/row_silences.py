"""The silences between some rows of a job's transfers, taken together."""

from __future__ import annotations

from llmprism.model.flows import MESSAGE_FLOOR_BYTES, Int64, TransferTable
from llmprism.stats.order import stable_order
from llmprism.stats.silences import Silences, silences_of

__all__ = ["silences_of_rows"]


def silences_of_rows(transfers: TransferTable, rows: Int64) -> Silences:
    """Silences while none of these rows sends; control messages add their bytes but break no silence."""
    start: Int64 = transfers.start_ns[rows]
    order = stable_order(start)
    rows = rows[order]
    return silences_of(start[order], transfers.end_ns[rows], transfers.bytes[rows], MESSAGE_FLOOR_BYTES)
