"""Which clock explains all messages of a job: every constant of that choice.

Each field says its unit, where the value comes from, and what changed when it was tried otherwise
(`benchmarks/stage_rules.py`). Where a field of 6e1c8c6 says nothing of that, half and twice its value changed none of
22 small jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.model.clock import OUTER_STEPS

__all__ = ["ClockRules"]


@dataclass(frozen=True, slots=True)
class ClockRules:
    """Candidates for the step of a job, and how they are judged."""

    # What a clock explains
    least_pause_ns: int = 10_000
    """Shorter pauses are not distinguished: a collector's time stamps and a NIC's scheduling are no finer."""

    places_per_pause: float = 2.0
    """Places distinguished for each pause that a step has: enough to keep neighbours apart, few enough to meet again.
    Tried 1 to 4 on 22 small jobs: 1 changes 2."""

    most_places: int = 2048
    """Places of one pair at most."""

    exact_bytes: float = 1e-3
    """Relative variation of a step's bytes below which they are the same (0.02-0.15 % in real captures). Tried 0.0005
    to 0.002 on 22 small jobs: 0.002 changes 1."""

    pauses_together: int = 25
    """Pauses of a step that are as much evidence as its bytes, at most: those of records that a message was cut into
    depend on each other. Bytes count so only as far as they are off by more than a message, which is what a tick may
    be misplaced by. Tried 12 to 50 on 412 captures and random jobs: one changes, which is right from 18 to 25."""

    outer_steps: float = OUTER_STEPS
    """Share of the steps on either side that may carry anything: faults, checkpoints, cut windows."""

    absent_share: float = 0.2
    """Share of its mean below which a pair sends next to nothing in a step..."""

    often_absent: float = 0.3
    """...and share of the steps in which it does so, from which its bytes do not repeat with the clock at all."""

    pause_range: float = 8.0
    """Range of a pair's pauses in units of their median deviation."""

    pause_resolution_bits: float = 0.05
    """Resolution of the logarithm of a pause; keeps pauses that are all alike from being worth everything."""

    # Sizes of messages by their place in the step
    sizes_per_octave: int = 8
    """Sizes distinguished within a factor of two: chunks of two collectives differ by a tenth and more."""

    size_prior: float = 0.5
    """Weight of each size before any was seen (Krichevsky and Trofimov)."""

    # Candidates and rivals
    same_bytes: float = 0.03
    """Difference of the logarithms of two pairs' bytes within which they carry the same: losses and cut windows."""

    sorts_sampled: int = 3
    """Sorts of pairs, by their bytes, that are searched for spacings: all of a job's pairs repeat with its step."""

    pairs_together: int = 64
    """Pairs of one sort that are looked at as one series at most; of more somebody is always sending."""

    judges: int = 24
    """Pairs that judge the clocks, spread over all sorts."""

    judged_messages: int = 12_000
    """Messages of the judges at most."""

    silences_per_step: int = 12
    """Silences of each step, the longest, that a chain is sought through."""

    step_tolerance: float = 0.03
    """Relative deviation of one step's bytes. Tried 0.015 to 0.06 on 22 small jobs: 0.015 changes 7, 0.024 changes 5,
    0.0375 changes 2, 0.06 changes 3."""

    most_ticks: int = 128
    """Ticks taken together at most: the layers of a deep sharded model, forward and backward."""

    regular_ticks: float = 0.75
    """Share of the ticks taken together that must be regular: embeddings and heads are unlike the other layers."""

    same_period: float = 0.02
    """Relative difference of periods, and of phases relative to the period, within which two clocks are one."""

    rival_bits: float = 1.5
    """Bits per pause by which a finer clock may be behind its multiple and still be compared with it at all phases."""

    margin_bits: float = 0.1
    """Bits per pause by which a multiple must be better than the finer clock: it has fewer ticks to misplace..."""

    uneven_margin_bits: float = 0.5
    """...and where its steps are less even in length than those of the finer clock, which whole steps are not (none
    where those of the finer clock are the less even ones)..."""

    uneven: float = 0.1
    """...by so much, relative to the usual step: jitter of real steps is a few percent. Ends of steps that scatter so
    much more than the clock are none either."""

    step_parts: int = 8
    """Parts of a step, of equal bytes, whose messages are compared: collectives of one sort fill a part or more."""

    phases: int = 8
    """Phases of the step at which the two are compared."""

    known_bytes: float = 0.1
    """Relative difference of a step's bytes from those that are known of the job within which they are the same:
    collectors lose some records, and the next other candidates have half or twice the bytes."""

    # A slower clock whose layout explains more
    slower: float = 1.5
    """Times the period of a clock from which on another one is slower: the least multiple is two, and medians of uneven
    ticks are off by a few percent."""

    slower_nats: float = 0.25
    """Log odds by which the layout with the slower clock must be surer: what a few steps more or less are worth (half
    as many steps cost 0.1). Of 54 random jobs with such a rival 7 are right with the slower clock alone, 0.3 to 9 nats
    ahead, and of those that are right with the faster one alone the slower is ahead by 0.2 at most..."""

    stands_out: float = 0.9
    """Share of the steps of a slower rhythm that end in their longest silence, from which on it is tried whatever its
    lead, and share of faster ticks, and of pairs, that must look like those of steps for them to be some. Of 590 random
    jobs 17 have such a rhythm besides a faster clock, 10 of them the true one..."""

    standing_out_uneven: float = 0.05
    """...with steps that differ in length by less than this share, or by less than the faster ticks do: a fault makes
    both uneven..."""

    standing_out_steps: int = 5
    """...and so many of them: fewer may be alike by chance."""

    same_batches: float = 0.15
    """...but for those in which it tells the same of several steps together, with so many times the micro-batches to
    within this share: periods of faster ticks do not add up to the slower one exactly."""

    # Ticks that differ in the rhythm of a slower clock
    compound_bits: float = 6.0
    """Bits that a slower clock must save on the lengths of a faster one's ticks, one in 64 of those that say nothing;
    and twice as many with those of the parts: a few slow steps reach 11."""

    telling_steps: int = 6
    """Whole steps of a clock from which their bytes tell what noise is: one step does not vary at all, and two or three
    may agree by chance."""

    even_in_time: float = 0.05
    """Median deviation of the steps' lengths, relative to the usual one, up to which a clock goes on by time where its
    bytes do not tell: a hole of ten steps is then known to within a sixth of one."""

    bridged_off: float = 0.1
    """Steps by which the length of a hole may be off a whole number of them..."""

    bridged_jitters: float = 2.0
    """...and how many times the root of their number times what each varies by."""

    bridged_reach: float = 0.15
    """Steps from a place within which the silence that ends a step is looked for."""

    bridged_bytes: tuple[float, float] = (0.6, 1.2)
    """Bytes of the steps in a hole relative to usual ones: a collector loses some, set-up traffic and evaluations have
    other amounts."""

    least_walked: int = 3
    """Steps that must be missing before the first tick, or behind the last one: one or two are set-up, or cut."""

    dealt_places: int = 20
    """Times that places are dealt out by chance, to see what that saves: parts of two lengths by chance save more than
    the most of these in one job of twenty."""

    compound_steps: int = 5
    """Steps that a slower clock must have before the ticks of a faster one are parts of them. Of 33 random jobs whose
    ticks were 28 slower clocks are the true one, with five steps and more; both with three held eight true steps and a
    checkpoint."""

    least_extra: float = 0.03
    """Ticks by which those that differ must be longer than the others: what clocks of real jobs jitter by."""

    certain_bits: float = 100.0
    """Bits from which ticks differ however little longer they are, and from which their insides do whatever pause
    stands out: steps with checkpoints and evaluations reach 90 in random windows and 30 in captures, layers and passes
    140 to 2000."""

    compound_whole: float = 0.6
    """Share of the slower steps that must hold the same number of faster ticks: lost records misplace single ticks."""

    compound_share: float = 0.25
    """Share of the most bits that any slower clock saves from which a faster one is taken: multiples of a step save
    about as much as it does, with fewer of each place to predict from."""

    once_share: float = 0.7
    """Share of the bits that a checkpoint or an evaluation saves at its own place and the next: the steps after it are
    slower too, and some of the others differ by chance."""

    rare_ticks: int = 4
    """Ticks below which they are parts of a step: nobody evaluates or writes checkpoints so often. In real captures it
    is after ten and more."""

    overhead: float = 0.4
    """Share of the time that nobody spends on checkpoints and evaluations; a quarter in the captures with most."""

    few_parts: int = 8
    """Ticks up to which they are parts of a step rather than steps between two checkpoints or evaluations..."""

    whole_share: float = 0.8
    """Share of the slower steps in which a pair must send, at the same place, for them to be whole steps,"""

    only_there: float = 0.9
    """and share of the ticks in which it sends that must be there: gradients go over pairs of their own where every
    micro-batch is a tick. Of random jobs whose ticks are micro-batches such pairs have 1.0."""

    few_parts_contrast: float = 7.0
    """...as long as their longest pause is not so many times as long as the second. Of 22 random jobs with such parts
    17 stay below 5.5 and 5 reach 9 to 100; steps with checkpoints and evaluations have 2 to 60, those of real captures
    15 to 40, but for one of gloo with 2."""

    many_parts_contrast: float = 1.5
    """The same for more ticks: micro-batches of random jobs reach 1.4, steps of gloo with evaluations have 2..."""

    inside_bits: float = 2.0
    """...unless the bits of ticks and parts are so many times those of the ticks alone: a pause more or less changes
    one part. Real checkpoints and evaluations reach 1.7, passes with other insides 2.2 to 5..."""

    step_contrast: float = 12.0
    """...and no pause stands out as much as that of a step with evaluations: passes mostly stay below 5, such steps
    reach 16 and more."""

    other_tick_bits: float = 6.0
    """Bits per pause that an evaluation costs where a clock of the steps does not foresee it: 3 in the one capture that
    shows it, while layers and passes that are no steps cost 10 and more."""

    often: int = 6
    """Times that a single differing tick must have been seen: evaluations of random jobs are seen 3 to 7 times in a
    window, their steps 5 times and more."""

    too_often: int = 12
    """Times that a differing tick of a few must have been seen to be the step's own, whatever pause stands out. Of 500
    random jobs seven with such passes were seen 13 to 36 times, evaluations and checkpoints after four to eight steps 5
    to 11 times; real captures have them after nine steps and more."""

    length_resolution_bits: float = 0.02
    """Resolution of the logarithm of a tick's length: 1.4 %, what clocks of real jobs jitter by at least."""

    no_silence: float = 1e-3
    """Share of a tick. A silence that is much shorter is as good as none where those half a tick apart are compared:
    silences between passes take 0.05 and more of one."""

    least_steps: int = 3
    """Steps that a clock must show. Tried 1 to 6 on 22 small jobs: 1 changes 1, 2 changes 1."""

    covered_time: float = 0.5
    """Share of the job's time that a clock must tick through. Tried 0.25 to 1 on 22 small jobs: 1 changes 8."""

    # What is outstanding on links of pipelines
    uneven_ways: float = 0.1
    """Share by which the two ways of a link may differ whose answers are counted."""

    outstanding_links: int = 4
    """Links of each sort that are looked at."""

    outstanding_silences: tuple[float, ...] = (0.1, 0.3)
    """Shares of a link's usual silence that divide its messages: some pause among the pieces of a message, others
    between messages hardly longer."""

    outstanding_levels: int = 3
    """Levels from the lowest up, and from the highest down, below (above) which a step may end: a burst that was cut in
    two is a level beyond, once or twice. Tried 1 to 3: with 1 fewer links of two stages show their step."""

    drift_bursts: int = 31
    """Bursts that share what their sum of bytes is off whole messages by: more than a step has in most jobs."""

    stalls_in_step: int = 3
    """Stalls in a step that look like its end, at most: with more, places at any distance are found."""

    stalled_steps: float = 0.6
    """Places between those at one distance, for each of these, at most: where every second step is taken, there is
    one."""

    chained_places: int = 200
    """Places at most among which those at one distance are looked for: as many steps as tell, with their stalls."""

    chained_distances: int = 3
    """Distances that are tried, the most frequent ones."""

    outstanding_messages: float = 1.9
    """Messages each way in a step at least: with one, trees of two members go up and down as passes do."""

    outstanding_even: float = 0.7
    """Share of the steps between silences at the lowest level, or the highest, that are of equal bytes, times the share
    of the time that they cover. Of 112 random pipelines 41 reach it, and 40 of them at the true step."""

    outstanding_agreed: float = 0.5
    """Share of the links of a sort that must show a clock, and of all of these that must agree about the period."""

    outstanding_sort: float = 0.75
    """Share of the links of a sort that must agree about the step before all of them pass activations on: half of the
    links of some trees do."""
