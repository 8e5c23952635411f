"""How a whole job stands still and goes on: every constant of that.

Each field says its unit and where the value comes from.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StandstillRules"]


@dataclass(frozen=True, slots=True)
class StandstillRules:
    """Silences in the middle of a step."""

    still_steps: float = 1.5
    """Silence, in normal steps, that is a stall. 969 healthy windows and nine sources are the same from 1 to 2; a real
    stall has 1.9, and with 1 one of 488 random runs is called stalled that is not."""

    most_of_slower: float = 0.75
    """Share of what a stretch of slower steps takes longer that a stall in it is, at least: where a GPU is slow in two
    steps of a random run the longest silence of all is 0.65 of it."""

    never_rests: float = 10.0
    """Times as long as the rests of a tenth of the steps from which a silence of one step is enough: a job that is
    hardly ever silent does not compute for so long. A real one stands still for 43 times that."""

    clear_still_steps: float = 3.0
    """The same for a silence of less than a second, which is nothing unusual in itself."""

    near_step_end: float = 0.02
    """Share of a step's bytes from the clock's end of a step within which a silence is the one between two steps, or as
    much as the bytes of steps vary by: long silences of healthy windows are within 0.01, the nearest stall of random
    faults at 0.027; evaluations of three jobs whose bytes vary by 0.035 were up to 0.034 before that end."""

    passing: float = 0.3
    """Share of the longest rest of a step below which the job does not rest at a point although the clock sees a step
    end there. Of the long silences of 969 healthy windows all reach 0.79; of simulated runs one checkpoint has 0.37 and
    three stalls 0.23 and less. Results are the same from 0.24 to 0.36."""

    passing_growth: float = 1.5
    """Times as long as the rests of a tenth of the steps that a silence must be at such a point."""

    as_long: float = 0.1
    """Relative difference up to which two silences are of the same length: simulated evaluations differ by 0.002, the
    silences of a stall and of anything else by more than 0.4."""

    sure_standstill: float = 0.8
    """Confidence that a whole job stood still, at most: a step that the clock cut in the wrong place looks alike,"""

    least_standstill: float = 0.5
    """and at least: of four in jobs whose clock is less sure than that two were evaluations."""
