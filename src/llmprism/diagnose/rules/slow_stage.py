"""Which stage computes longer, by all signs together: every constant of `stage_signs`.

The weights are fitted (`benchmarks/stage_fit.py`) to slower stretches of steps in jobs with pipelines whose truth is
known: see `fit_constant`. A weight is in natural log odds per unit of its sign.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SlowStageRules"]


@dataclass(frozen=True, slots=True)
class SlowStageRules:
    """Weights of the signs of a slow stage, and bounds of the signs."""

    fit_constant: float = -1.34
    """Score of a stage of which nothing is known, beside 0 for "no stage". This and the next four are fitted to 208
    stretches, 57 of them with a slow stage: 36 of captures (none with one), the others of even random seeds 82002 to
    82900, 140002 to 140800, 200002 to 200200 and 220002 to 220300. Of cases left out in turn 29 of 33 are right from
    0.8 on, 15 of 20 from 0.4 on, 5 of 20 from 0.2 on, 4 of 135 below;"""

    work: float = 1.9
    """for each unit (a logarithm) of the times by which nearly all of its members work longer on a micro-batch than
    they used to,"""

    handed: float = 1.15
    """of what their silences before messages to other stages grew by, those of nearly all over the largest one,"""

    silent: float = 1.41
    """of what all their own silences grew by, those of nearly all over the largest one of the other stages,"""

    fallen: float = -2.05
    """and by which the rate of any pair fell: a slow group or card holds the next pass up."""

    # Bounds of the signs
    growth_doubt: float = 0.05
    """Share of what the steps take longer below which growths of silences are alike."""
