"""How a job stops or starts again: every constant of that.

Each field says its unit and where the value comes from. `benchmarks/robust.py --sensitivity --match diagnose` moves
each by a fifth either way and prints what changes.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EndingRules"]


@dataclass(frozen=True, slots=True)
class EndingRules:
    """Silences, signs of life, and who was due first."""

    # Silences and who was due
    quiet_factor: float = 2.0
    """A silence is unusual when it is this many times the usual one at that point of the step,"""

    quiet_share: float = 0.1
    """and takes this share of a step at least: below it, it is jitter."""

    varying_quiet_steps: float = 2.0
    """The same, in steps, for a job whose bytes per step vary: its place in the step is not known."""

    overdue_steps: float = 0.5
    """A member that is overdue by so much while others go on has stopped, although the job has not been silent."""

    slow_pace: float = 1.5
    """Steps that the whole job may have needed for its last step's worth of bytes for a missing member to have stopped:
    in a job that still moves, but slower, everybody is overdue. Hung jobs keep their pace until all wait: 0.9 to 1.1.
    Results are the same from 1.3 to 2."""

    together_steps: float = 4.0
    """Silence, in steps, after which a job has stopped in which nobody was missing before the others; where steps are
    long `watched_ns` is enough, if it is `hang_growth` times as long as the job was ever silent, and if it does not
    rest there as it may at its end. Three captures of jobs with steps of 1.1 to 1.3 s end 2.8 to 3.5 steps after a rank
    was killed; of 4,810 windows of captures before their faults, cut in their longest silences and elsewhere, none is
    judged otherwise by that."""

    recent_steps: float = 4.0
    """Steps that tell, at first sight, how long a member may be silent,"""

    grew: float = 1.2
    """and so many times the longest of that is not unusual."""

    resting: float = 0.4
    """Share of the longest silence of a step that the usual silence at a point must reach for the job to rest there."""

    surely_resting: float = 0.8
    """The same where the clock of the job sees no end of a step there,"""

    at_step_end: float = 0.03
    """within this share of a step."""

    clock_step_end: float = 0.1
    """The same where bytes do not tell where a member stands: clocks of jobs whose records a collector loses are off by
    some hundredths. A job stops so near an end of its steps by chance in one case of five."""

    begun_bytes: float = 0.1
    """Share of a step's bytes sent since the clock saw a step end below which the next step has begun, if more than
    `clock_step_end` steps have passed since then. Of seven normal ends with less than 0.15 the last message is 0.07
    steps after the clock's end at most, of 52 real and random stops 0.059 to 1.7, of 45 more than 0.1."""

    other_phase: float = 0.15
    """Share of jobs whose clock sees the ends of their steps at another of their rests. A random job that ends at one
    of three rests has 0.048 of its step there, a real one with a killed rank 0.05 at one of eleven: results are the
    same from 0.1 to 0.4."""

    level: float = 0.1
    """Messages by which members that do the same may be apart where all of them are said to rest: of two random jobs
    that ended and of a real one with a killed rank 0.001 at most, of a real ring that hangs between two chunks 0.37."""

    talk_on: float = 2.5
    """Times as long as the talk of living ranks: the processes of a job that has ended are gone by then."""

    stretches: int = 8
    """Stretches of time before that are looked at to know whether members are heard all the time,"""

    always: float = 0.8
    """and share of members and stretches that must be."""

    starved: float = 0.008
    """Share of a step's bytes that a member must lack to wait for somebody,"""

    in_flow: float = 0.002
    """Steps below which a pause is inside a message: who usually pauses for less where it stopped had begun to send,"""

    mid_message: float = 0.0002
    """surely so below this many: pauses between the last message of a step and the first of the next one, which an
    optimizer makes, are 0.0004 and more in random jobs,"""

    same_time: float = 0.015
    """and steps by which two due times must differ to be distinguished."""

    in_vain: float = 0.08
    """Steps for which others must have gone on after a member was due, or after it had been silent for longer than
    ever, for the job not to have ended. At 55 ends of healthy captures and windows it is 0.033 at most by what was due,
    and nobody was silent for longer than ever; with hangs that were taken for ends it is 0.081 to 0.86."""

    both_signs: float = 0.5
    """Share of that from which both together tell: each is seen by other messages."""

    silent_ahead: float = 0.1
    """Steps by which the silence of one member must be longer than ever by more than that of all others, for it to have
    stopped first wherever bytes say that it stands."""

    lockstep: float = 0.01
    """Share of a step by which a member may be overdue through jitter alone when the last message was sent,"""

    sure_spreads: float = 3.0
    """and so many spreads of its pause."""

    heard_ns: int = 1_000_000
    """A message a millisecond after the last of the training is a sign of life."""

    announced: float = 1.1
    """Factor by which an announcement may come before or after the pauses of other steps end: those of two captures
    come within 3 %; at 1.25 one random crash is not named, because the victim's talk happens to fall there."""

    new_words: float = 0.03
    """Share of the control messages of the last steps that may have a size of their own, for one of a new size to say
    that its sender noticed something: 0 to 0.02 in 14 captures of deaths over NCCL, 0.05 to 0.24 in random scenarios,
    whose small messages have any size."""

    near_word: float = 0.7
    """Distance of words to messages of the training between the same two members, in that of moments by chance, up to
    which the transport talks with every message: 0.03 to 0.63 in 38 captures over gloo that stopped, 0.77 to 1.46 in 24
    random runs with as many words,"""

    far_word: float = 2.0
    """and what one of them counts for at most."""

    as_early: float = 1.25
    """Times as long after its last message that a member says something in other steps, for that to be usual."""

    heard_members: float = 0.5
    """Share of the members that must be heard again for the silence of the others to tell."""

    addressed_share: float = 0.02
    """Share of a step for which a member must be written to after its own message was due: else it may be dead."""

    addressed_ns: int = 10_000_000
    """And at least 10 ms: what is on its way when a rank dies arrives, or is refused, within that."""

    still_written_to: float = 0.5
    """Share of the time that others talk on for which they must write to a member that is not heard: else it is
    dead."""

    sent_again: float = 0.33
    """Share of the silence until which a member that cannot be reached is written to, at least: 0.43 to 0.79 in 16 real
    captures, 0.01 at most in 31 with a rank that died."""

    # Signs of life
    beats_apart_ns: int = 50_000_000
    """Control messages of a pair closer than this are one heartbeat: a question and its answer."""

    least_beats: int = 5
    """Times between heartbeats of a pair, or of all pairs with messages of one size, from which a rhythm is known."""

    regular_beats: float = 0.2
    """Relative spread of the times between heartbeats of one pair up to which they are regular."""

    slow_beats_ns: int = 300_000_000
    """Time between heartbeats at least: what comes faster belongs to micro-batches and layers; watchdogs ask once a
    second or more slowly."""

    unlike_steps: float = 0.2
    """Relative distance from the duration of a step, below which the messages belong to the steps."""

    step_multiples: int = 10
    """Steps up to which a rhythm of all pairs that is a whole number of them may belong to the training: what comes
    every few steps, such as metrics,"""

    off_multiple: float = 0.1
    """if it is that number within so many steps."""

    beating_members: float = 0.25
    """Share of the members that must send regular heartbeats."""

    control_per_step: float = 4.0
    """Control messages of a member in a usual step from which their absence says something although none has a rhythm:
    the connections of a rank that dies close, and its peers notice. Norms and metrics are one or two; over gloo there
    are 17 to 32. Results are the same from 3 to 15."""

    alive_steps: float = 3.0
    """Control messages this many steps after the last training message: the ranks live,"""

    alive_ns: int = 2_000_000_000
    """and at least two seconds: a crash takes the other ranks down within that."""

    to_the_end: float = 0.75
    """Share of the silence for which ranks must talk on to live at its end,"""

    missed_beats: float = 2.0
    """Heartbeats that must be missing in a row before they have stopped."""

    silent_growth: float = 3.0
    """Times as long as ever that a member says nothing, while most others talk on, for it to be gone or to stand still.
    30 real captures have such members: all are stopped jobs, and it is the one to blame (28) or one of two."""

    mesh_pairs: float = 0.5
    """Share of the pairs of members that never train with each other from which messages of one size are pings,"""

    mesh_peers: float = 4.0
    """if each sends them to so many such members: a store is one, and only in jobs of a few ranks all talk to all."""

    # The state of members when they stopped
    steps_back: int = 8
    """Steps before that tell what is usual."""

    longer_steps: float = 1.5
    """Usual steps that each of them may take."""

    short_of: float = 0.01
    """Share of a step's bytes that may be missing at the same point of another step: norms, metrics, lost records."""

    beyond: float = 0.002
    """Share of a step's bytes that may have been sent beyond it: more is the begin of something new."""

    state_spreads: float = 2.0
    """Spreads of the bytes per step by which the same point may be off, for every step back."""

    closer: float = 0.33
    """Share of what members that do the same are usually apart, while messages flow, up to which they stand together:
    16 of 27 normal ends of random jobs that do not rest there have 0.33 or less, three real hangs 0.7 and more,"""

    lockstep_messages: float = 0.5
    """if they are usually apart by half a message: what moves in lockstep always stands together."""

    moments: int = 16
    """Moments before, while messages flow, that tell whether members that do the same are usually apart."""

    missing: float = 0.02
    """Share of a step's bytes that a record which a collector lost takes with it, at least."""

    exact: float = 0.01
    """Relative spread of a member's bytes per step up to which bytes tell its place in the step; experts vary by
    more."""

    # Away and back
    ends_after: int = 3
    """Ends of steps after a silence up to which bytes must be whole steps for the job to have gone on where it had
    stopped. Of 62 silences of captures and random runs none of 13 restarts is within 0.05 of a whole step, and all
    others whose bytes are exact are within 0.01; results are the same from 2 to 3."""

    connects: float = 3.0
    """Times as many small messages when a job begins to train again as at other times of the same length,"""

    connects_members: float = 2.0
    """and so many for each member: a question and its answer are nothing new. Real restarts show 2.8 to 14, a job that
    waited for its data 1.5,"""

    silent: float = 0.05
    """and share of the usual ones that may be left while its ranks are gone."""

    goes_on: float = 0.5
    """Share of the usual messages of one size that are sent during a silence, from which they are not the job's,"""

    burst: float = 1.5
    """times as many of the others in a burst after it as ever before in as long a time, from which ranks connect. Over
    all captures, 969 healthy windows and 488 random faults every silence with 1.2 and more is a restart, of simulated
    ones 40 of 45 reach 1.5,"""

    shortest_burst_ns: int = 50_000_000
    """and shortest time for that: within it a step may begin."""

    away_steps: float = 5.0
    """Silence inside the window, in steps, after which a job has been away."""

    gone: float = 0.5
    """Share of a silence after which control messages may be those of a job that starts again; who leaves for good is
    no longer heard by then."""

    away_ns: int = 3_000_000_000
    """And at least three seconds: pauses for evaluation and checkpoints are as long."""

    heard: float = 0.8
    """Share of the members, and of the quarters of a silence, in which living ranks are heard."""

    short_away_ns: int = 1_000_000_000
    """A shorter silence, of a step and a second at least, is a restart where the members connect again."""

    # Hangs and crashes
    settled_steps: int = 6
    """Steps from which it is known what is usual for a job: the set-up step, and a few that vary."""

    few_steps: int = 3
    """The same for a job that was there when the window began, so that its set-up is over: two lengths of steps, and
    bytes that agree. Of 4,865 windows of captures before their faults none is judged otherwise than with four."""

    hang_steps: float = 4.0
    """Steps without a message after which a job whose ranks live hangs between two steps,"""

    hang_ns: int = 20_000_000_000
    """and 20 s at least: shorter pauses for an evaluation or a checkpoint are usual,"""

    hang_many_steps: float = 8.0
    """or, less surely, this many steps,"""

    short_hang_ns: int = 10_000_000_000
    """and 10 s: of silences of the dataset at rest without a fault the longest is 4.6 steps, and those with a slow
    server are 10 to 14 steps and 4.4 s at most,"""

    hang_growth: float = 3.0
    """and so many times the longest time from one step to the next before."""

    break_ns: int = 5_000_000_000
    """Silence of all control messages after which it is another job that talks: heartbeats come once a second or so."""

    clear_overdue: float = 0.05
    """Share of a step that others must have gone on after it was due for its silence alone to name it: of members that
    all stop in the same moment, who is heard again is chance."""

    watched_steps: float = 4.0
    """Steps since then, to the end of what was watched, from which it is clear that it will not go on,"""

    watched_ns: int = 2_000_000_000
    """and at least two seconds: stalls of a second or two are usual."""

    sure_silenced: float = 0.95
    """Confidence in a member that fell silent alone while the others talked on, or that all who noticed something have
    in common: in captures 36 of 36 are right,"""

    sure_early: float = 0.55
    """in any that has not been missing for long,"""

    sure_nobody: float = 0.93
    """and in the end of a job of which nobody stands out: of 99 findings that name no more than the job (captures that
    were opened and others, random runs) 97 are true, of four on windows of healthy captures none;"""

    sure_pause: float = 0.6
    """the same where a job whose ranks live begins no further step for many short ones, which an evaluation may be:
    four random ones of four hang."""

    most_suspects: int = 3
    """Members that are listed as alternatives."""
