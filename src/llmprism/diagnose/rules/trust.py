"""How sure a finding is, what it costs and what remains unexplained: every constant of that.

Each field says its unit and where the value comes from. `benchmarks/robust.py --sensitivity --match diagnose` moves
each by a fifth either way and prints what changes.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TrustRules"]


@dataclass(frozen=True, slots=True)
class TrustRules:
    """What is said of findings, and of slow steps without one."""

    # Bouts
    short_share: float = 0.2
    """Share of all that was seen of a job from which a bout that would be too short otherwise is news: what lasts for a
    second is noise in a minute, and not in three seconds."""

    # Confidence
    likely: float = 0.5
    """Confidence below which a finding is less likely than not."""

    fit_constant: float = -1.18
    """Log odds of a finding on a slow member whose detector and layout are both undecided. This and the next two are
    fitted to 92 findings (also on places, which have had a fit of their own since) of dev cases, sources and random
    seeds 3001 to 3100, of which 72 are right: calibration error 0.038 (before: 0.072), held out by source 0.069."""

    fit_own: float = 1.16
    """Log odds for each unit of the detector's own,"""

    fit_peers: float = 0.35
    """and of those of the layout that says who does the same."""

    worth_a_look: float = 0.33
    """Fitted confidence below which a finding on a member or place is not reported: right less often than one time in
    three. Of the 92, five wrong ones and one right one lie below; at 0.4 six and two."""

    most_sure: float = 0.97
    """No finding is surer: of those that were stated with 0.97 and more, nine in ten to nineteen in twenty were
    right."""

    few_healthy: float = 0.1
    """Share of the steps without a fault up to which it was there all the time,"""

    healthy_steps: int = 3
    """and so many of them."""

    hidden: float = 0.02
    """Share of the GPU-seconds of the steps that a slow GPU touches below which nobody waited for it."""

    # Slow steps without a finding
    unexplained_slowdown: float = 1.15
    """Slower steps against the others, in the median: what costs a tenth of the speed is worth a word, with a
    margin."""

    unexplained_least: float = 1.11
    """The same without the margin, a tenth of the speed itself, where the usual steps vary by less than a fourth
    (`jitter_growth`) of what that takes longer."""

    unexplained_steps: int = 4
    """Slower steps, and others, that must have been seen, those that take several times as long counting for as
    many,"""

    unexplained_few: int = 2
    """but no fewer than these, or one that is slow all along. Fewer than `unexplained_steps` must take `short_share` of
    all that was seen of the job: two long steps are news among ten and not among a hundred, and not where another
    one is as long: in healthy captures one in ten is half as long again, all along,"""

    unexplained_clear: float = 1.25
    """Steps that one counts for which is longer than the usual one by many times (`jitter_growth`) of what a tenth of
    the usual steps are: four of these in a row are news, of others five. The four longest of twenty steps are in a row
    by chance three times in a thousand,"""

    parts: int = 32
    """Equal parts of a step's bytes that are looked at: an evaluation sends next to nothing, and stays in one of them,
    """

    one_rest: float = 0.6
    """share of what a step takes longer that may lie in one of them for it to be slow all along: 0.7 and more where a
    capture evaluates or stands still, 0.1 to 0.25 where most GPUs, groups and switches are slow (seeds 3001 to 3300),
    """

    member_messages: int = 8
    """Messages that a member sends in a step, on average and at least, for these to tell whether it is slow all along.
    In 16 long steps of healthy jobs, evaluations and checkpoints that stand still (0.7 and more in one part) no member
    is below 0.81; in four random jobs with a slow GPU somebody is at 0.06 to 0.53."""

    more_bytes: float = 0.25
    """and share of a step's bytes that it may hold beyond one step: a clock that lost an end holds two."""

    unexplained_ns: int = 5_000_000_000
    """and how long the slower ones last."""

    unexplained_sure: float = 0.85
    """Confidence that something is wrong with the job then: of 33 such findings 28 were true. The others are about jobs
    whose steps switch between two lengths by themselves, which look the same in a window of few such changes."""

    unexplained_apart: float = 1.05
    """Times the ninth decile of the other steps that the first quartile of the slower ones must reach."""

    unexplained_price: float = 4.0
    """Steps' worth of evidence that a stretch must bring: single long steps are nobody's news."""

    unexplained_finer: float = 1.07
    """Times by which one cut between slower and other steps is above the one before: half of what is news at least, so
    that a cut lies between any two lengths that differ by as much."""

    unexplained_before: int = 6
    """Steps before a stretch that are clearly shorter than it is, where fewer than three are as short as the job's
    usual one: twice as many. With three of them, and nothing asked of the longest other step, three of 448 windows of
    healthy captures, all of them still being set up, had a false finding more."""

    unexplained_runs: int = 3
    """Runs of slower steps that a stretch may consist of: where usual ones come between them more often, the job's
    steps switch between two lengths by themselves."""

    unexplained_weight: float = 3.0
    """Steps that one which takes as many times as long counts for at most."""

    explained: float = 0.25
    """Share of the stretch that other findings may cover before it is theirs."""

    # Playing steps again
    healthy_to_replay: int = 2
    """Healthy steps from which they tell how long something takes."""

    blocked: float = 0.5
    """Share of the lateness of those held up from which a member of their group waits for them."""
