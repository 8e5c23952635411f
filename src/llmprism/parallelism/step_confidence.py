"""How sure it is that the steps are the job's: their period, and where they end.

Natural log odds add up over the evidence of the layout (`layout_evidence.terms_of`) and how parameters are sharded: a
sharded step has many pauses, and the one of the optimizer may not stand out. Steps are right where nine in ten of their
ends are within a tenth of a step of a true one.

The weights are fitted to 386 jobs: odd seeds from 3001 to 3499 of the random scenarios, and 96 jobs of captures,
frameworks, gloo, production and the dataset's dev cases. For 295 jobs of even seeds, which they were not fitted to, the
calibration error is 0.07; of the surest of those four in five are right, of the surest of real captures all. So nothing
is said with more than 0.9, and steps of real captures are right more often than it says.
"""

from __future__ import annotations

import math
from typing import Final

from llmprism.model.layout import Layout, Sharding

__all__ = ["steps_confidence"]

CONSTANT: Final = 0.838
WEIGHTS: Final = (
    ("clock", 0.176),
    ("irregular_steps", -20.8),
    ("pipelines", 0.31),
    ("hybrid", -1.127),
    ("experts", -0.993),
    ("contexts", -1.0),
    ("unknown_sharding", -1.048),
    ("varied_bytes", -5.729),
    ("open_micro_batches", -2.746),
    ("unnamed_bytes", -0.502),
)
"""Log odds per unit of each term of evidence."""

SHARDED: Final = {Sharding.FSDP: -1.263, Sharding.ZERO: -1.01}
"""Log odds where parameters or optimizers are sharded."""

MOST: Final = {"irregular_steps": 0.2, "varied_bytes": 1.0}
"""Amounts beyond which these terms say nothing more: few jobs of the fit had more."""


SUREST: Final = 0.9
"""No more is said: the surest steps of random jobs are right four times in five."""


def steps_confidence(layout: Layout, evidence: dict[str, float]) -> float:
    """Between 0 and 1; `evidence` by the names of `terms_of`."""
    odds = CONSTANT + SHARDED.get(layout.sharding, 0.0)
    odds += sum(weight * min(evidence.get(name, 0.0), MOST.get(name, math.inf)) for name, weight in WEIGHTS)
    return min(SUREST, 1.0 / (1.0 + math.exp(-odds)))
