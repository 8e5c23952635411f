"""What is known about the end of a job's traffic: how it stands, since when, and through whom."""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.model.job import JobState

__all__ = ["Ending"]


@dataclass(frozen=True, slots=True)
class Ending:
    """The traffic after step `step - 1`, which ended at `begun_ns`, ends at `last_ns`; then came `silence_ns`.

    `state` is running, ended, crashed or hung. `culprit` (row of the member, -1: nobody stands out) was due at
    `since_ns`, `lead_ns` before the next one; `chance` is how likely it is the one. `suspects` are who else may be to
    blame, each with its chance, the likeliest first. `sure` is how sure it is that the job has not ended, where nobody
    is to blame.
    `resumed_ns` is None where the job did not come back; `alive_ns` is the time of the last message of any sort between
    its members before it did.
    """

    state: JobState
    step: int
    begun_ns: int
    last_ns: int
    resumed_ns: int | None
    silence_ns: int
    alive_ns: int
    period_ns: float
    culprit: int = -1
    since_ns: int = 0
    lead_ns: float = 0.0
    chance: float = 0.0
    suspects: tuple[tuple[int, float], ...] = ()
    sure: float = 1.0

    @property
    def broken_off(self) -> bool:
        return self.state in (JobState.CRASHED, JobState.HUNG)
