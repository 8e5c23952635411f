"""Late members, slow stages and uneven ones: every constant by which they are found.

Each field says its unit and where the value comes from. `benchmarks/robust.py --sensitivity --match diagnose` moves
each by a fifth either way and prints what changes.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MemberRules"]


@dataclass(frozen=True, slots=True)
class MemberRules:
    """Who works longer than those that do the same."""

    # Holding others up
    held_points: int = 32
    """Points of a step's bytes at which a member is looked at: more than the exchanges of a step that matter."""

    held_quantile: float = 0.9
    """Quantile of the points of a step that counts: a slow GPU holds in its computations, not in all that it sends."""

    released_ns: int = 1_000_000
    """How long before a message a small one releases it, at most: an answer takes a millisecond at most."""

    released_pause_ns: int = 2_000_000
    """Pause of two members, as a pair, after which a message between them may have been released: shorter ones lie
    inside of a message."""

    agreed: float = 0.15
    """Share of the messages after such a pause that a small one must release for the transport to agree on messages:
    over gloo 0.3 to 0.5 in jobs without pipelines, over NCCL 0.04 at most."""

    # Silences that a member ends by itself
    answered_ns: int = 1_000_000
    """Time after which a member that was sent something, or whose receiver went on, goes on itself if it waited for
    that: an answer takes a millisecond at most (as `released_ns`),"""

    answered_share: float = 0.05
    """or share of the silence: large pieces take longer on their way. The slow GPU of rings over NCCL comes first from
    0.02 with 0.2 ms to 0.05 with 3 ms."""

    gap_most: float = 0.8
    """Share of its silences' time that counts them: where a GPU is slow there are 0.1 to 2.5 times as many of its own
    as it has in usual steps, own or not (28 captures and random runs), where a card or link is 3.3 times and more (24
    of 28)."""

    # Uneven stages
    imbalance_ratio: float = 1.4
    """A stage's computation against the median of the others."""

    last_stage_passes: float = 3.0
    """Forward and backward pass of the last stage, in forward passes."""

    least_passes: float = 2.0
    """Forward passes that a stage computes for each micro-batch of a step at least: its backward pass takes no less. A
    stage that would take longer than the step by that does not compute all the time: clocks of exporters differ, or
    micro-batches wait in line. An uneven stage takes 0.6 of the step so, one of a job with passes of 1.5 ms and clocks
    that are 1 ms apart took 1.2."""

    recomputed_share: float = 0.75
    """Share of the last stage's excess that counts: where activations are recomputed it takes four forward passes."""

    stage_agreement: float = 0.8
    """Share of pipelines and steps in which the stage must be the longest by that much."""

    imbalance_cells: int = 16
    """Pipelines times steps before anything is said."""

    imbalance_pipelines: int = 32
    """Pipelines looked at: all of them are split alike."""

    # Late members
    late: float = 0.15
    """Lateness, in normal steps, from which a member counts as late; healthy members reach 0.1 in one step of ten."""

    always_late: float = 0.08
    """The same for a member of a job whose steps are longer then, or that is late in nearly all steps,"""

    nearly_all: float = 0.9
    """in this share of them,"""

    many_steps: int = 10
    """of so many at least."""

    spreads: float = 5.0
    """Lateness must also exceed this many robust spreads of the whole job's lateness."""

    by_chance_runs: float = 0.01
    """Runs as striking as this one, or members as often late in the job's slower steps, that a job may show by chance,
    over all of its members and steps. Two right findings by such members have 0.007 and less, four healthy random jobs
    0.03 and more. At 0.02 one of
    1,618 windows of healthy captures has a slow GPU that is none; at 0.002 one right finding of 18 is lost."""

    half_as_late: float = 0.5
    """Share of a member's lateness in a run from which other cells count as late as that, to know how often chance
    makes one."""

    sure_late: float = 0.85
    """Confidence in a member that is late at the synchronisation, or works longer than its peers, at most (0.89 after
    the fit): 42 of 53 were right over dev cases, sources and 225 random seeds, and of the eleven wrong ones seven had
    0.9 and more. Neither how many steps it was late in nor how sure the clock and the layout are tells them apart."""

    sure_stall: float = 0.75
    """Confidence in a member that stood still while all others waited: a job that stands still as a whole between the
    first messages of its members looks like it (two of three, on random seeds)."""

    sure_imbalance: float = 0.9
    """Confidence in a stage that is longer in all pipelines, at most: a slow server under all of it looks the same."""

    late_steps: int = 3
    """Late steps before a GPU is called slow,"""

    long_step: float = 2.0
    """or two that each take so many times as long as usual, or are slow all along (`throughout.stand_out`)."""

    late_ns: int = 4_000_000_000
    """And for so long: shorter bouts are data loading, garbage collection or a neighbour on the host."""

    slowdown: float = 1.1
    """Steps with the late member must take at least this many times the job's other steps, where there are others."""

    consistent: float = 0.75
    """Share of the steps of a run in which the member is late."""

    consistent_work: float = 0.85
    """The same for the work of one micro-batch, which varies more than that of a step."""

    excess: float = 0.25
    """Work of a pipeline stage beyond the same stage of other replicas, from which its GPU is slow; jitter stays below
    0.1 in the median."""

    most_excess: float = 5.0
    """And up to which it is: no GPU is six times slower than its replicas, but a stage that is mistaken for another
    is."""

    often: float = 0.5
    """Share of the steps in which that is required of a member's lateness, too: a stall may be longer."""

    traced: float = 0.12
    """The same where somebody of the pipeline is known to be late: the one that most exceeds its peers, by so much at
    least, is the one that the others waited for."""

    held: float = 0.03
    """Holding the others up at the worst points of a step, in normal steps; healthy members stay below 0.01."""

    paused: float = 0.4
    """What the own pauses of a slow GPU grow by, in shares of what the step takes longer; 0.5 to 2 in captures."""

    few_slow: int = 4
    """Slower steps of a job, anywhere in the window, from which those that come and go tell something,"""

    by_chance: float = 0.05
    """and share of the other steps in which a member may work as long."""

    alone: float = 0.6
    """Share of the time that one member holds which no other may reach."""

    jitter_quantile: float = 0.9
    """Quantile of the time that a job's steps take beyond the usual one that is its own jitter,"""

    jitter_growth: float = 4.0
    """and how many times of that a stall must take. Results on captures are the same from 2 to 5."""

    stall_steps: float = 4.0
    """A single step's lateness, in normal steps, that is a stall."""

    stood_still: float = 0.5
    """Share of what it is late by that one own silence of a member which stood still takes: 0.86 in a capture, 0.03 and
    less where a slow GPU or all of the job were taken for it,"""

    stall_ns: int = 1_000_000_000
    """And at least a second: shorter stand-stills are the operating system's."""

    # Many late at once
    as_late: float = 0.8
    """Share of a member's lateness from which another one is as late."""

    many_late: float = 0.2
    """Share of a job's members that are as late: then all stood still, and the groups' medians fell among the late
    ones; or, where they always are, they have something else to send first."""
