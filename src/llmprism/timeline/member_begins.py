"""When each member begins a step, and when the first one does: with a message, when its own optimizer is done."""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.job import Job
from llmprism.stats.by_moment import NEVER, first_from
from llmprism.stats.robust import half_of_sum
from llmprism.stats.stretches import stretch_starts
from llmprism.timeline.rules import RULES, TimelineRules

__all__ = ["first_messages", "member_begins", "usual_size"]


def first_messages(transfers: TransferTable, boundary: Int64, rules: TimelineRules = RULES) -> Int64:
    """Per step the start of its first message with a tensor (its own start where there is none)."""
    begin, floor = boundary[:-1], _least_tensor(transfers.bytes, rules)
    every = np.ones(transfers.pair_count, dtype=np.bool_)
    first = first_from(transfers.pair_offsets, transfers.start_ns, transfers.bytes, floor, every, begin)
    first = np.where(first < NEVER, first, begin)
    return np.minimum(first, boundary[1:]).astype(np.int64)


def member_begins(job: Job, boundary: Int64, sent: Bool, rules: TimelineRules = RULES) -> Int64:
    """When each member (rows) sends its first message with a tensor of each step (columns), of those that are marked as
    sent; `NEVER` where it sends none."""
    transfers, members = job.transfers, np.array(sorted(job.members), dtype=np.int64)
    rows = np.flatnonzero(sent & (transfers.bytes >= _least_tensor(transfers.bytes[sent], rules)))
    step = np.searchsorted(boundary, transfers.start_ns[rows], side="right") - 1
    pair = transfers.pair_of_row[rows]
    begins = stretch_starts(pair, step)
    begins = begins[(step[begins] >= 0) & (step[begins] < boundary.size - 1)]
    member = np.searchsorted(members, transfers.pair_src[pair[begins]])
    first = np.full((members.size, boundary.size - 1), NEVER)
    np.minimum.at(first, (member, step[begins]), transfers.start_ns[rows[begins]])
    return first


def usual_size(size: Int64, rules: TimelineRules = RULES) -> float:
    """Bytes of the messages, of such sizes, that most bytes are sent in; 0 without any."""
    sample = size[:: max(1, size.size // rules.message_sample)]
    sample = sample[sample >= MESSAGE_FLOOR_BYTES]
    return half_of_sum(sample.astype(np.float64)) if sample.size else 0.0


def _least_tensor(size: Int64, rules: TimelineRules) -> int:
    """Bytes below which messages of such sizes carry no tensor."""
    return max(MESSAGE_FLOOR_BYTES, int(min(rules.control_share * usual_size(size, rules), rules.control_bytes)))
