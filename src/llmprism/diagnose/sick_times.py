"""When a place was sick: the stretches of steps of all jobs, and which of them it made slower."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from llmprism.arrays import Bool
from llmprism.diagnose.rules import FaultRules
from llmprism.diagnose.slow_cells import SlowCells
from llmprism.diagnose.tally import SickPlace
from llmprism.stats.robust import known_median
from llmprism.stats.stretches import stretches_of

__all__ = ["sick_stretches", "slows", "while_worse"]


def sick_stretches(suspect: SickPlace, cells: Sequence[SlowCells], rules: FaultRules) -> list[dict[str, Bool]]:
    """The steps of each job, split where nothing was sick for longer than all that was before and after together."""
    spans: list[tuple[int, int, str, int, int]] = []
    for cell in cells:
        if cell.job in suspect.steps:
            for first, after in stretches_of(suspect.steps[cell.job], bridge=0):
                spans.append(
                    (int(cell.steps.start_ns[first]), int(cell.steps.end_ns[after - 1]), cell.job, first, after)
                )
    size = {cell.job: cell.sick.shape[1] for cell in cells}
    stretches: list[tuple[int, int, dict[str, Bool]]] = []
    for start, end, job, first, after in sorted(spans):
        last = stretches[-1] if stretches else None
        if last is None or start - last[1] > rules.places.bouts_apart * (last[1] - last[0] + end - start):
            last = (start, end, {})
        else:
            stretches.pop()
        last[2].setdefault(job, np.zeros(size[job], dtype=np.bool_))[first:after] = True
        stretches.append((last[0], max(last[1], end), last[2]))
    return [steps for _, _, steps in stretches]


def while_worse(cell: SlowCells, through: Bool, affected: Bool, rules: FaultRules) -> Bool:
    """Of a place that is sick in all steps, as one that was always slower than its peers: the longer steps (nearer to
    the longest than to the usual one), if it is as much slower in these than in its others as a sick one is than a
    healthy one. Else the steps as they are."""
    rule = rules.places
    midway = float(np.sqrt(max(cell.normal_ns, 1.0) * cell.duration_ns[affected].max()))
    longer = affected & (cell.duration_ns >= max(midway, (1.0 + rule.loss) * cell.normal_ns))
    usual = affected & ~longer
    few = min(longer.sum(), usual.sum()) < rule.sick_steps
    if few or (cell.counted & ~affected).sum() >= rule.sick_steps:
        return affected
    rate = np.where(cell.known[through], cell.rate[through], np.nan)
    fall = known_median(rate[:, usual], axis=1) / known_median(rate[:, longer], axis=1)
    return longer if np.isfinite(fall).any() and log(float(np.nanmedian(fall))) > rule.drop else affected


def slows(cell: SlowCells, affected: Bool, rules: FaultRules) -> bool:
    """Do the affected steps take longer than the job's others? Without enough others nobody knows."""
    others = cell.counted & ~affected
    if others.sum() < rules.places.sick_steps:
        return False
    return float(np.median(cell.duration_ns[affected])) >= (1.0 + rules.places.loss) * float(
        np.median(cell.duration_ns[others])
    )
