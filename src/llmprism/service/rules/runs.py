"""When a job is believed, slowed, stalled, stopped and forgotten: every constant of that.

Each field says its unit and where the value comes from.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.units import SECOND

__all__ = ["RunRules"]


@dataclass(frozen=True, slots=True)
class RunRules:
    """What is concluded about runs from one window to the next."""

    # Between two windows
    less: float = 0.9
    """Share of its usual bytes below which a run sends less than it used to..."""

    less_steps: float = 2.0
    """...if this many steps' worth is missing too: bytes come in bursts."""

    open_hops: int = 3
    """A run with an open finding, or one that stands still but for a few messages, is looked at every so many hops."""

    young_hops: int = 2
    """The same for a run whose steps have not shown clearly twice."""

    newcomers: int = 2
    """Addresses that nobody has seen before that are worth a window of everybody: a job has two at least."""

    # Time without records, and looks at everybody
    idle_windows: int = 3
    """Without records, time passes for three windows at most: then everything has ended and nothing can change."""

    idle_intervals: int = 3
    """A source is idle after so many of its usual intervals without a batch."""

    whole: float = 0.5
    """Share of all addresses from which looks at single runs cost as much as a window of everybody."""

    # Layouts that are carried over
    refresh_ns: int = 600 * SECOND
    """A layout is found anew in every ten minutes, so that a mistake of one window does not last."""

    young_share: float = 0.5
    """Share of a window at its beginning in which a job must have sent something for its layout to be carried over: a
    window that shows less of it may show less of its layout."""

    # Steps that a look shows clearly
    clear_steps: int = 5
    """Steps that a look must show: the fewest of which a median and a spread mean something."""

    filled: float = 0.5
    """Share of the time since the first of them that the steps must fill: a burst of ticks after which nothing comes is
    no sequence of steps."""

    steady_steps: float = 0.6
    """Share of the steps in which a pair must be active to belong to every step: collectors lose records."""

    steady_bytes: float = 0.9
    """Share of the job's bytes on such pairs. Where micro-batches are taken for steps the gradients are missing in
    most, and those are a tenth of the traffic at least."""

    # The same job
    same_job: float = 0.5
    """Jaccard similarity of member sets from which two sightings are one job: half of the members may come and go."""

    part_of: float = 0.8
    """Share of the members that must belong to a larger set for the smaller one to be a part of it."""

    # The usual pace
    slowed: float = 1.3
    """Recent step time against the baseline from which a job is slowed."""

    slowed_high: float = 1.1
    """And against what nine of ten usual steps stay below: healthy jobs may alternate between 215 and 360 ms."""

    high_quantile: float = 0.9
    """Quantile of the usual steps that is their high end."""

    healthy: float = 1.1
    """Below this ratio the baseline follows the job's own slow drift."""

    drift: float = 0.05
    """Weight of one slower window in the baseline: it follows within twenty windows."""

    settle: float = 0.3
    """Weight of one faster window: the first steps of a job are slow, and the baseline soon forgets them."""

    recent_steps: int = 7
    """Steps whose median is the recent step time: one odd step in three does not move it."""

    settled_ns: int = 60 * SECOND
    """A baseline is only settled when the run has been watched for a whole window: the first ones see few steps, and
    the first steps are slow."""

    settled_steps: int = 30
    """And so many steps of it were seen."""

    rebase_ns: int = 1_800 * SECOND
    """A job that has been slower for half an hour with nothing found has changed its work: that is its new baseline."""

    # The bytes of a step, from window to window
    step_bytes: float = 0.1
    """Relative difference of a step's bytes within which two looks agree: collectors lose some records, and looks that
    disagree have half or twice as many."""

    step_known_ns: int = 60 * SECOND
    """Time of the looks that must agree before the others are looked at with what they know: a whole window."""

    step_kept_ns: int = 240 * SECOND
    """Time of looks that is remembered: a job that changes its work has another step after half of it."""

    # States
    believed_windows: int = 3
    """Windows with the same members that make a job with few visible steps believable."""

    settled_looks: int = 2
    """Looks in a row that show a run's steps clearly: the end of a window can make one burst look like many steps
    once."""

    stop_silence_ns: int = 5 * SECOND
    """A stop needs this much silence: longer than the pauses of jobs with short steps, a third of the 15 s allowed."""

    stop_silence_steps: float = 2.0
    """And this many steps, or this many times the job's usual longest pause: checkpoints stay below it."""

    end_silence_ns: int = 30 * SECOND
    """An orderly end is reported after this much silence; checkpoints are shorter. Until then the job is stalled."""

    end_silence_steps: float = 5.0
    """And this many steps."""

    unsettled_windows: int = 4
    """A run without clear steps that has been silent for so many windows is over: steps of 46 s pause for less."""

    part: float = 0.75
    """Share of a run's members up to which a job inside it is taken for a part of it rather than for all that is
    left."""

    parts_windows: int = 2
    """After so many of a run's looks in which only parts of it were seen, the parts are jobs of their own."""

    hung_ns: int = 3_600 * SECOND
    """A run that hangs and sends nothing at all for an hour is over."""

    forget_ns: int = 3_600 * SECOND
    """A run that ended is kept in mind for an hour, to recognise its restart."""

    streamed: float = 0.5
    """Share of a job's members in runs of the sources that stream from which late files say nothing of it: members come
    and go as between two windows."""

    # Falling silent together
    together_ns: int = 3 * SECOND
    """Runs that fall silent within this time of each other did so together."""

    before_ns: int = 10 * SECOND
    """How long before the silence is looked for who reported on the runs."""

    members_looked_up: int = 20_000
    """Members that are looked up; of larger groups a part says enough."""
