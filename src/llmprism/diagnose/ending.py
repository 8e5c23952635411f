"""What is known about the end of a job's traffic: how it stands, since when, and through whom."""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.arrays import Float64
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import FaultRules
from llmprism.diagnose.usual_rest import WholeJob
from llmprism.model.job import Job, JobState

__all__ = ["Ending", "Stop"]


@dataclass(frozen=True, slots=True)
class Ending:
    """The traffic after step `step - 1`, which ended at `begun_ns`, ends at `last_ns`; then came `silence_ns`.

    `state` is running, ended, crashed or hung. `culprit` (row of the member, -1: nobody stands out) was due at
    `since_ns`, `lead_ns` before the next one; `chance` is how likely it is the one. `suspects` are who else may be to
    blame, each with its chance, the likeliest first. `sure` is how likely it is that the job broke off at all,
    `kind_sure` that it crashed where it is said to have crashed, and hangs where it is said to hang.
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
    kind_sure: float = 1.0

    @property
    def broken_off(self) -> bool:
        return self.state in (JobState.CRASHED, JobState.HUNG)


@dataclass(frozen=True, slots=True)
class Stop:
    """What is known of a silence: `running` of the silence itself, `whole` of the job as a whole, `state` of its
    members, for how much longer than ever each of them was `silent_ns` since the set-up at `since_ns`, and `until_ns`
    when it was watched. `connects`: the members connected anew before they went on."""

    running: Ending
    job: Job
    whole: WholeJob
    state: LastState
    silent_ns: Float64
    since_ns: int
    until_ns: int
    connects: bool

    def watched(self, rules: FaultRules) -> bool:
        """For so long that ranks of a job that ends have left?"""
        long = min(rules.endings.watched_ns, rules.endings.watched_steps * self.running.period_ns)
        return self.running.silence_ns >= long
