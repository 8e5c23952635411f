"""How many messages make up a step where every message has a length of its own: ends that all links agree about.

With sequences of many lengths the silences of a link are not at equal distances in the bytes of a step. But a pipeline
hands every micro-batch on from stage to stage and its gradient back: message j has the same length on all of its links,
each way. So in the bytes of one step of one pipeline the ends of messages are at the same places for all of its pairs,
whatever these places are, while a record that a collector ended within a message ended there on one pair only. The
places at which half of the pairs are silent are counted, step by step; most steps have the same number.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.rows_in_steps import RowsInSteps, rows_in_steps
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.disjoint_sets import component_labels
from llmprism.stats.quantum import EDGE
from llmprism.stats.robust import half_of_sum, segment_medians

__all__ = ["agreed_messages"]


def agreed_messages(transfers: TransferTable, pairs: Int64, clock: StepClock, rules: LayoutRules = RULES) -> int | None:
    """Messages per step that most steps of most pipelines agree about; `pairs` are those between stages, both ways."""
    members = np.concatenate([transfers.pair_src[pairs], transfers.pair_dst[pairs]])
    label = component_labels(len(transfers.addresses), members[: pairs.size], members[pairs.size :])
    pipeline = np.unique(label[transfers.pair_src[pairs]], return_inverse=True)[1]
    size = np.bincount(pipeline)
    steps = clock.regular.size
    sent = rows_in_steps(transfers, pairs, clock)
    pair, step, place, length = _silences(transfers, sent)
    cell = pipeline[pair] * steps + step
    alike = _alike(sent.total.reshape(pairs.size, steps), pipeline, rules)
    if not clock.regular.any() or alike[:, clock.regular].mean() < rules.stages.agreed_steps:
        return None  # records are missing
    kept = clock.regular[step] & alike.ravel()[cell]
    kept &= (place > EDGE) & (place < 1.0 - EDGE)
    rest = half_of_sum(np.maximum(length[kept], 0.0))  # between messages, in however many pieces these come
    kept &= length >= rules.stages.agreed_silence * rest
    pair, cell, place = pair[kept], cell[kept], place[kept]
    if not cell.size:
        return None
    usual = float(np.median(np.bincount(np.unique(cell, return_inverse=True)[1]) / size[pipeline[pair]].mean()))
    near = rules.stages.agreed_apart / max(usual, 1.0)
    order = np.lexsort((place, cell))
    pair, cell, place = pair[order], cell[order], place[order]
    number = np.cumsum(np.concatenate([[True], (np.diff(cell) != 0) | (np.diff(place) > near)])) - 1
    voters = np.bincount(np.unique(number * pairs.size + pair) // pairs.size)
    of_cell = cell[np.flatnonzero(np.diff(number, prepend=-1))]
    pairs_of_cell = size[of_cell // steps]
    agreed = voters >= np.minimum(rules.stages.agreed_least, pairs_of_cell)
    ends = np.bincount(number, place)[agreed] / np.bincount(number)[agreed]
    counts = _messages(of_cell[agreed], ends, np.unique(of_cell), rules)
    messages = int(np.argmax(np.bincount(counts)))
    return messages if messages > 1 and (counts == messages).mean() >= rules.stages.agreed_steps else None


def _messages(cell: Int64, place: Float64, cells: Int64, rules: LayoutRules) -> Int64:
    """Messages of each of these cells, which end at these places and at 1: sequences differ in length by a little, so
    what is many times as large or as small as most messages of the step is something else (tied embeddings)."""
    every = np.concatenate([cell, cells, cells])
    edge = np.concatenate([place, np.zeros(cells.size), np.ones(cells.size)])
    order = np.lexsort((edge, every))
    every, edge = every[order], edge[order]
    inside = np.diff(every) == 0
    of_cell = np.searchsorted(cells, every[1:][inside])
    size = np.diff(edge)[inside]
    usual = segment_medians(size, np.searchsorted(of_cell, np.arange(cells.size + 1)))[of_cell]
    most = rules.stages.agreed_alike
    alike = (size <= most * usual) & (most * size >= usual)
    return np.bincount(of_cell, alike, minlength=cells.size).astype(np.int64)


def _silences(transfers: TransferTable, sent: RowsInSteps) -> tuple[Int64, Int64, Float64, Float64]:
    """Silences inside steps: the pair (an index into `pairs`), the step, the place in its bytes of the step, and how
    long they are."""
    before = np.flatnonzero(sent.cell[1:] == sent.cell[:-1])
    place = sent.sent[before] / np.maximum(sent.total[sent.cell[before]], 1.0)
    length = (transfers.start_ns[sent.rows[before + 1]] - transfers.end_ns[sent.rows[before]]).astype(np.float64)
    return sent.pair[before], sent.step[before], place, length


def _alike(total: Float64, pipeline: Int64, rules: LayoutRules) -> Bool:
    """Pipelines (rows) and steps (columns) in which all pairs carry the same bytes: what passes one link passes all.

    `total` are the bytes of each pair (rows) in each step (columns)."""
    shape = int(pipeline.max()) + 1, total.shape[1]
    most, least = np.zeros(shape), np.full(shape, np.inf)
    np.maximum.at(most, pipeline, total)
    np.minimum.at(least, pipeline, total)
    same: Bool = (least > 0) & (most - least <= rules.stages.fitted_step * most)
    return same
