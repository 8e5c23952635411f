"""The silences between some rows of a job's transfers, taken together, and which messages break none."""

from __future__ import annotations

from llmprism.arrays import Bool, Int64
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.integer_order import stable_order
from llmprism.stats.robust import half_of_sum
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
    usual = half_of_sum(size[:: max(1, size.size // rules.ends.message_sample)])
    return max(float(MESSAGE_FLOOR_BYTES), min(rules.ends.control_share * usual, float(rules.ends.control_bytes)))
