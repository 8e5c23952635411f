"""Every constant by which the diagnosis of logs decides, in one place.

Each field says its unit and where the value comes from. `benchmarks/logs_rules.py` tried 0.5, 0.8, 1.25 and 2 times
each value on 28 planted faults and 20 real runs: outcome, symptom, stage, class and first suspect stay as they are in
all 48, except where the field says otherwise. A millionth and a million times each value change something in the
documents of 150 runs and 53 public reports, or fail a unit test. Limits on what is read and shown are in their files
and in `limits.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["RULES", "LogConfidence", "LogRules"]


@dataclass(frozen=True, slots=True)
class LogConfidence:
    """How sure each kind of evidence makes, from 0 to 1: of a cause, of a suspect, of a sign, of "nothing wrong".

    No number here was fitted. They order kinds of evidence by how directly these speak of the cause (an own error line
    before a launcher's report, that before silence, that before what others say), and keep what several causes may have
    left below 0.5. One decision rests on them: a peer that is named is the cause where its score is above `hearsay`.
    """

    # Of a cause
    known_line: float = 0.9
    """The library knows the line, and it is clear whom it concerns."""

    known_line_of_nobody: float = 0.7
    """The library knows the line; whom it concerns is not clear."""

    second_hand: float = 0.3
    """Less, where the line may be the consequence of something else, or may mean several things."""

    clear_exception: float = 0.6
    """The library does not know the exception, but its type or its stack says what it is about."""

    vague_exception: float = 0.4
    """Neither does."""

    silent_rank: float = 0.6
    """A rank is gone without a word."""

    lost_peer: float = 0.5
    """Ranks lost the connection to one peer."""

    death_of_a_kind: float = 0.5
    """A launcher says how a process ended, and only one sort of cause ends it like that."""

    only_that_it_failed: float = 0.3
    """It ended badly and nothing says why."""

    ended_from_outside: float = 0.9
    """The scheduler or somebody ended the run."""

    hardware_near_a_sign: float = 0.6
    """At most, where a hardware line stands near the beginning of a sign."""

    only_said: float = 0.1
    """Only the user says that something happened."""

    # That nothing is wrong
    success: float = 0.9
    """The run says that it succeeded."""

    probable_success: float = 0.85
    """It reached its last iteration, or says so in words that also mean less."""

    damaged_success: float = 0.5
    """Part of its logs cannot be read."""

    runs_for_long: float = 0.7
    """It runs, and has for `many_iterations`."""

    runs: float = 0.5
    """It runs."""

    doubtful: float = 0.3
    """The logs are damaged, cut, or too short."""

    # Of a suspect
    own_line: float = 0.95
    """It wrote the line that began it."""

    seen_dying: float = 0.9
    """A launcher saw its own death, before the others ended."""

    fell_silent: float = 0.85
    """It fell silent while the others complain."""

    log_of_node: float = 0.8
    """The kernel log of the node has the line."""

    named: float = 0.8
    """Those that complain name it."""

    lagging: float = 0.75
    """Its last collective lies behind the others'."""

    first_exit: float = 0.6
    """A launcher saw it end first, or the only line names it."""

    ordinary_exit: float = 0.4
    """It ended first with an exit code that any error gives."""

    cut_off: float = 0.5
    """It lost the store before anybody complained."""

    next_suspect: float = 0.8
    """Share of the score that the next suspect of the same evidence has."""

    weak_signs: float = 0.9
    """Share of the lowest suspect's score that weak evidence reaches at most."""

    more_on_node: float = 0.05
    """Share by which each further suspect on a node raises the node's score,"""

    surely: float = 0.99
    """up to here."""

    # Of a sign
    lag: float = 0.7
    """A flight record or a time-out shows who did not enter a collective."""

    far_behind: float = 0.7
    """A rank is two printed lines behind or more."""

    behind: float = 0.45
    """It is one line behind: the logs may have been copied in mid-step."""

    behind_as_expected: float = 0.5
    """The same where the user says that the job hangs."""

    hardly_a_copy: float = 0.6
    """At least, where ranks print within `rare_copy` of one another."""

    no_more_iterations: float = 0.5
    """The logs go on without iterations."""

    stopped_growing: float = 0.6
    """Logs that are watched no longer grow."""

    slower: float = 0.4
    """A slowdown,"""

    slower_per_ratio: float = 0.1
    """and for each time that an iteration is longer,"""

    much_slower: float = 0.9
    """up to here."""

    not_a_number: float = 0.8
    """Losses or gradient norms that stay NaN."""

    not_a_number_here: float = 0.6
    """Of a suspect: its own are NaN while the others' are not."""

    loss_scale: float = 0.6
    """A loss scale that fell and stays."""

    diverged: float = 0.5
    """A loss that left its range."""

    # Of an event, for the order in which they are shown
    cascade_event: float = 0.6
    """What follows from the cause; the cause itself has 1."""

    symptom_event: float = 0.2
    """How the run noticed."""

    late_event: float = 0.1
    """After the run had ended."""

    heavy_entry: float = 1.2
    """At most this weight of a library entry counts."""


@dataclass(frozen=True, slots=True)
class LogRules:
    """Passed to every function that judges a job by its logs."""

    confidence: LogConfidence = LogConfidence()

    # How far the job got
    rising_share: float = 0.8
    """Share of steps between printed numbers that must not fall for them to count iterations. Above 1 nothing
    counts."""

    goes_on_iterations: int = 2
    """Iterations a run must complete after a line for that line not to have stopped it: one may have been under way."""

    restart_iterations: int = 5
    """Iterations by which the count must fall back, and that must follow, for another attempt under the same name:
    ranks of one job are one or two apart. The thresholds on real logs hold with 3 and with 20."""

    many_iterations: int = 20
    """Iterations without a complaint from which a running job is probably well."""

    few_iterations: int = 5
    """Iterations below which it is too early to say."""

    # How it ended
    stop_slack_ns: int = 5 * 1_000_000_000
    """Nanoseconds. Complaints this short before the first sign of a stop are part of it: processes of a job do not end
    at once."""

    training_collectives: int = 50
    """Collectives that no start-up makes: a time-out of a later one happened in training."""

    precursor_ns: int = 10 * 60 * 1_000_000_000
    """Nanoseconds. How long before the first complaint a survived hardware line may be its cause: retries and watchdogs
    take minutes."""

    noise_share: float = 1 / 3
    """Share of the other actors, by the rule of succession, that may have written of broken hardware and gone on for
    such a line to be the cause of what came later."""

    # Who is to blame
    widespread_share: float = 0.5
    """Share of the actors above which a fault hits everyone. At 0.25 one of 48 jobs changes (`zoo/frozen`), at 1 two
    planted faults of all ranks."""

    few_share: float = 0.25
    """Share of the actors up to which those that lost the store first were cut off, and above which an error of the
    settings that a launcher cut short on the others is everyone's."""

    wrote_before: float = 0.2
    """Share of the usual number of lines that a silent actor must have written for its silence to mean something."""

    several_meanings: float = 0.8
    """Weight of a library entry below which its line may mean several things."""

    unknown_weight: float = 0.9
    """Weight of an exception that the library does not know, among those that it does: most entries have 1."""

    chain_lines: int = 80
    """Lines of one writer within which exceptions are one chain, and from its end within which one ended it: a
    launcher's report after the exception has some 40 lines, a long stack some 60."""

    message_lines: int = 8
    """Lines of one writer that an exception's own message may have: those of Ascend and DeepSpeed have up to six."""

    accuser_share: float = 0.5
    """Share of all accusations that must name the same actor for it to be a suspect by hearsay alone."""

    store_lead_ns: int = 1_000_000_000
    """Nanoseconds. How much earlier than all other complaints a lost store must be: rank 0 closes it for everyone when
    it ends."""

    teardown_ns: int = 20 * 1_000_000_000
    """Nanoseconds. Complaints later than this after the first are of the ending job: time-outs of one collective fire
    within seconds of each other, and a launcher ends the others 30 s after the signal to stop (torchrun, srun)."""

    teardown_steps: int = 2
    """The same in iterations, for jobs with long ones: ranks enter a collective at most one iteration apart."""

    hearsay: float = 0.4
    """Score of a peer that the only writer known names: it may have closed the connection because of somebody else."""

    # Who else may be: how much each kind of weak evidence counts; together they stay below a suspect's own score
    weight_first_end: float = 0.35
    """A launcher reports it as the first to end."""

    weight_named: float = 0.3
    """Peers name it."""

    weight_behind: float = 0.3
    """Its last iteration lies behind the others'."""

    weight_silent: float = 0.15
    """It fell silent before the others."""

    weight_first_complaint: float = 0.1
    """It complained first."""

    weight_unlike: float = 0.1
    """Its lines are unlike the others'."""

    # What the numbers show: hang
    behind_share: float = 1 / 3
    """Share of the ranks that may be behind for them to be the ones that hang; more is a log copied in mid-step."""

    rare_copy: float = 0.2
    """Share of moments at which a copied log would show a healthy rank one line behind; below it a hang is five times
    as likely an explanation. Healthy runs of the captures print within 0.05 of a step, one host's clock for all."""

    silence_steps: int = 20
    """Iterations. Logs that go on longer after the last iteration show a hang, where it is more than `silence_ns`."""

    silence_ns: int = 300 * 1_000_000_000
    """Nanoseconds. The least such time: shorter pauses are checkpoints and evaluations."""

    watched_silence_s: float = 120.0
    """Seconds without a new line after which a job that is watched live has stopped, where `silence_steps` of its
    iterations are shorter or carry no times."""

    # Slow
    slow_ratio: float = 2.0
    """A level this many times longer than before is a slowdown: levels of healthy captures differ by up to
    1.7. At 1 five healthy captures are called slow."""

    expected_slow_ratio: float = 1.15
    """The same where the user says that the job is slow."""

    pace_segment: int = 5
    """Iterations of a level: fewer are a checkpoint or an evaluation."""

    pace_window: int = 10
    """Iterations of which the median is the level: half of them may be evaluations or checkpoints. Even: of values that
    alternate between two levels the median is then the middle between them."""

    warm_up: int = 2
    """First values left out: compilation and connection set-up."""

    coarse_step_ns: int = 3 * 1_000_000_000
    """Nanoseconds. Differences of times that lines print in whole seconds say nothing of shorter iterations."""

    # What good runs print
    often_ratio: float = 3.0
    """How many times more often than in any good run a line may appear and still be normal: runs differ in length."""

    strict_ratio: float = 1.25
    """The same for exceptions and root entries: good runs that survive one per rank do not excuse a second one."""

    often_share: float = 0.2
    """Share of the good runs that must show an error line for it to be normal there: one that a single run of ten
    survived is rare in good runs, and its presence in a failed one still means something."""

    few_runs: int = 4
    """Below this number of good runs one of them is enough: shares of so few say nothing."""

    nearly_same: float = 0.85
    """Share of equal tokens from which an unknown shape counts as one that good runs print; above the template's 0.7,
    because `saved` and `failed` may be the only words that differ."""

    # NaN and divergence
    nan_values: int = 3
    """NaN values in a row at the end that are no accident: a skipped step of mixed precision shows one or two."""

    long_nan_values: int = 10
    """NaN values in a row that are worth a note although the run recovered."""

    scale_fall: float = 256.0
    """A loss scale that fell by this factor (eight halvings) and stays met an overflow in every try since."""

    diverged_ratio: float = 2.0
    """Of its lowest level so far: a loss above it has left its range."""

    diverged_values: int = 5
    """Values that such a level must last."""


RULES: Final = LogRules()
