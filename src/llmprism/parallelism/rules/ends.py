"""Where in the clock's cycle the steps of a job end: every constant of that search.

Each field says its unit, where the value comes from, and what changed when it was tried otherwise
(`benchmarks/stage_rules.py`). Where a field of 6e1c8c6 says nothing of that, half and twice its value changed none of
22 small jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.model.flows import CONTROL_BYTES, CONTROL_SHARE, MESSAGE_SAMPLE

__all__ = ["StepEndRules"]


@dataclass(frozen=True, slots=True)
class StepEndRules:
    """Silences, norms and stragglers at the end of a step."""

    # Pairs that an exporter stopped reporting
    dark_steps: float = 3.0
    """Steps of silence that no pair of a running job keeps. Tried 1.5 to 6 on 22 small jobs: 1.5 changes 1, 3.75
    changes 2, 6 changes 3."""

    messages_per_step: float = 0.5
    """Messages per step from which a pair's silence says anything: others send only now and then. Tried 0.25 to 1 on 22
    small jobs: 0.625 changes 1, 1 changes 1."""

    lit_pairs: float = 0.6
    """Share of the pairs that must be free of such silences: a pause of the whole job darkens no exporter. Tried 0.3 to
    1.2 on 22 small jobs: 0.3 changes 2, 0.48 changes 1, 0.75 changes 2, 1.2 changes 3."""

    # The heavier half of a sharded step
    compared_bytes: float = 0.2
    """Share of a step's bytes before and after a pause that are compared: less than the forward pass, a quarter to a
    third of the bytes; more than the embedding or the head alone."""

    heavy_places: int = 200
    """Places of the step that are distinguished."""

    pauses_of_parts: int = 4
    """Pauses per step from which a series shows the parts of the step."""

    compared_pauses: float = 0.2
    """Pauses are compared down to this share of the mean of the longest pause of each step over the number of
    bursts..."""

    longest_stands_out: float = 1.8
    """Longest pause of a step relative to the next longest one, from which it ends the step by itself. Tried 0.9 to 3.6
    on 22 small jobs: 2.25 changes 2, 3.6 changes 2."""

    heavier_before: float = 0.3
    """Logarithm of the weight before relative to the weight after: a third more. Backward bursts are twice as heavy or
    more; a job without this difference is not sharded."""

    first_burst: float = 0.15
    """Share of a step's bytes that the first burst takes at most: two layers and the embedding."""

    longer_after: float = 1.3
    """Pause after a light burst relative to the one before it, from which the light burst ends the step: the first
    pause of the next step's forward pass is half as long as those of the backward pass."""

    most_bursts: int = 25
    """Bursts that are distinguished when the place is looked for in each step: it varies by more than a hundredth."""

    heavy_seen: float = 0.6
    """Share of the steps in which the place must be a pause."""

    # The turn of a sharded step
    forward_shares: tuple[float, ...] = (0.28, 0.32, 0.36, 0.4, 0.44)
    """Shares of a step's bytes that are tried for the forward pass: of n layers it gathers n, and the backward pass
    gathers n - 1 again and reduces n, a third of all for many layers and 0.4 for two; the next grid points on either
    side, because bursts lie across the turn."""

    turn_reach: float = 0.08
    """Share of a step's bytes by which the turn may lie off the place: one burst of a step of four layers."""

    turn_grid: float = 0.02
    """Places of the step that are tried, as a share of its bytes: half of a burst of twelve layers."""

    turn_pauses: int = 5
    """Pauses per step from which it can be seen that those of one pass are shorter: buckets of replicated training
    leave one to four."""

    turn_pause: float = 4.0
    """Pause at the turn relative to the usual one: a layer forward and backward against a layer backward, less what the
    network takes of either. 1.6 to 3 in random jobs; the silence of a whole forward pass has 5 and more."""

    turn_margin_bits: float = 0.15
    """Bits per pause and burst by which a place must be the better turn than end: 0.22 and more in random jobs whose
    turn passed for their end, 0.14 at most in those and in captures whose end did not."""

    turn_resolution_bits: float = 0.15
    """Resolution of the logarithms of pauses and bursts, a tenth: layers of one model differ by that."""

    # Interruptions
    interruption: float = 1.5
    """Silence of everybody relative to the longest one of a usual step, from which it interrupts the job..."""

    interruption_spreads: float = 6.0
    """...and how many times their median deviation it must be longer by: a few in a thousand of usual steps are..."""

    interruption_share: float = 0.05
    """...and by which share of a step: a twentieth matters to nobody."""

    interruption_place: float = 0.03
    """Share of a step's bytes within which interruptions lie at one place: a message or two."""

    interruption_near: float = 0.1
    """Share of a step's bytes within which a tick is next to an interruption: the first gathers or activations of a
    step, or its last bucket."""

    interruptions: int = 2
    """Interruptions at one place, more than elsewhere, from which they say where steps end: two at one of thirty places
    by chance are rarer than one in twenty..."""

    interruptions_elsewhere: int = 3
    """...and from which they overrule the ticks, which silences of all steps speak for: rarer than one in five
    hundred."""

    # Ticks on a line in byte-space
    off_line: float = 0.05
    """Steps by which a tick must be off the line of the others' bytes to be moved there: in captures without
    pipelines all that are off by more are misplaced..."""

    off_line_spreads: float = 6.0
    """...and how many times the median distance of all ticks from it, 0.0001 steps in most captures."""

    line_ticks: int = 5
    """Ticks before and after one that the line is taken from: more than a fault misplaces in a row, fewer than those
    after which bytes that vary have added up."""

    # The begin of a job
    handed_out: tuple[float, ...] = (0.0, 1.0 / 3.0, 0.5)
    """Bytes by which parameters are handed out before the first step, relative to those of a step: none, those of one
    of three or of one of two passes over all ranks."""

    exactly_begun: float = 0.005
    """Steps by which that may be off: bytes of real steps are exact to 0.0002 to 0.0015, and what else is sent at the
    begin adds as much. In 64 captures without pipelines the longest of the first silences lies at such a place, and is
    the end of a step in each; in 9 it lies elsewhere, and is one in 4."""

    first_ticks: int = 5
    """Ticks whose place the begin is compared with: the further away, the more do bytes that vary add up."""

    # Ticks at one phase
    near_phase: float = 0.15
    """Share of a step by which ticks may vary around one phase of it: jitter, not the next pause of a sharded step."""

    ticks_in_phase: float = 0.5
    """Share of the ticks at one phase below which the chain knows of no phase."""

    negligible_jitter: float = 0.01
    """Share of a step by which ticks vary around their phase in any case. Beyond that they may vary by as much as the
    steps of the clock do: real chains vary by 0.1 to 0.8 of it, chains that jump by twice and more."""

    phases_compared: int = 100
    """Ticks whose phase is tried for that of most."""

    # The exchange of norms and the optimizer
    moment: float = 0.01
    """Share of a step within which the messages of one exchange end..."""

    moment_floor_ns: int = 2_000_000
    """...or the time by which the clocks of two switches differ."""

    tiny_places: int = 50
    """Places of the step, in equal bytes, at which the tiny messages are counted."""

    take_part: float = 0.25
    """Tiny messages per step and member at the place: the exchange goes round all of them, partly within servers."""

    norm_seen: float = 0.7
    """Share of the steps in which it must be seen there."""

    tiny_stands_out: float = 1.5
    """Tiny messages at the place relative to any other place of the step; of several such places the optimizer's is the
    one with the longest pause."""

    beyond_chatter: float = 1.5
    """Share of the tiny messages in a pause relative to its share of the time: heartbeats come at any time."""

    exchanged_alone: float = 0.8
    """Share of the tiny messages that are exchanged in the optimizer's pause where nothing else exchanges any."""

    pause_filled: float = 0.25
    """Longest time without a tiny message, as a share of a pause, below which they fill it."""

    gather_pause: float = 0.25
    """Longest pause while parameters are gathered, relative to the silent forward pass after it: nobody computes."""

    clearly_longer: float = 1.5
    """A pause relative to another from which it is clearly longer: that of the optimizer relative to the longest other
    one where no forward pass is silent elsewhere. And the time that a byte takes to be gathered relative to that of a
    byte that is reduced, from which a forward pass paces it: 0.13 to 0.94 in nine real captures that gather at the end
    of a step, 3.0 in the one that gathers under the next forward pass."""

    gathered_share: tuple[float, float] = (0.28, 0.55)
    """Share of the step's bytes that parameters are gathered in: a third after an all-reduce or a reduction in twice
    the precision, half after a reduction in the same."""

    # Silences that end a step
    settled: float = 0.1
    """Share of the most outstanding activations below which a pipeline is at rest; a lossy collector never counts to
    0."""

    straggle: float = 0.08
    """Share of the next step by which a straggler may run into it; one that takes longer is not of this step..."""

    surely_behind: float = 10.0
    """Times the noise of a step's bytes (`clock.exact_bytes`) that a pair must be behind for it to be a straggler."""

    left_behind: float = 0.1
    """...unless it still has this share of its bytes to send: then its ranks are simply slower than those that have
    begun the next step already... Tried 0.05 to 0.2 on 22 small jobs: 0.05 changes 1, 0.08 changes 1, 0.125 changes 1,
    0.2 changes 2."""

    far_behind: float = 0.4
    """...and may take this share of it: ranks of one step end up to a third of it apart. Tried 0.2 to 0.8 on 22 small
    jobs: 0.2 changes 2, 0.32 changes 1, 0.5 changes 4, 0.8 changes 4."""

    mostly_behind: float = 0.5
    """Where it has most of its bytes to send (a slow NIC keeps the last stage, while the first goes on), it is not the
    next step's..."""

    whole_behind: float = 0.9
    """...however far into it the sending lasts, but for its end..."""

    goes_on: float = 0.2
    """...as long as it rests for no more than this share of the time until it is done: records that are missing leave
    the pair at rest until the end of the next step."""

    look_back: float = 0.5
    """Share of a step before its supposed end within which the rest of the pipelines that ends it began."""

    rest_stands_out: float = 2.0
    """Times the second longest rest of the replicas that the longest one of a step takes: it lasts through all passes
    but the end of the last one."""

    scattered: float = 2.0
    """Times the mean unevenness of the clock from which on it is the ends that are misplaced, where many are elsewhere
    in its steps than most. Of 60 such captures and random jobs those that are wrong for this reason have 2.4 to 3,
    those that are right reach 1.6."""

    same_steps: float = 0.15
    """Relative difference allowed between the steps found here and those the job was recognised by."""

    # Parameters gathered under the next forward pass of a pipeline
    gathered_at_least: float = 0.1
    """Share of a pair's bytes of a step that it sends in the first half of the passes where it gathers there: the
    gathering is a third to a half of all (2-byte parameters against gradients of 2 or 4 bytes)."""

    still_gathers: float = 0.25
    """Time from the first stage's last gather to its first activation, relative to that between its first two
    activations, below which it computed while it gathered. Whoever gathers first has a whole forward pass between; the
    second activation comes one pass later, or three where it waits for a gradient."""

    gathers_at_once: float = 0.5
    """Bytes in the first eighth of the passes relative to the most in another one: gathers go on from before the first
    activation. What the last stage reduces, where the direction of the pipelines is wrong, begins in their midst."""

    exchanged_ahead: float = 0.01
    """Share of its bytes of a step that the first stage may send after its last gather: what a pass exchanges."""

    single_messages: float = 0.1
    """Quantile of the sizes of records at which they hold one message: sequences are of several lengths, and most
    records may hold several messages."""

    left_to_gather: float = 0.02
    """Share of its bytes of a step that the first stage must have gathered before its first activation, for a place to
    be looked for where it began to: bytes vary by as much."""

    gathered_once: float = 0.15
    """Bytes in the next eighth of the passes relative to those: what every pass needs is sent throughout."""

    first_waits: float = 0.03
    """Share of its bytes that the first stage may send in the first half of the passes: it has gathered before. Where
    it sends more, chunks of an interleaved pipeline are reduced in mid-step."""

    gathered_within: float = 0.5
    """Relative difference allowed between the bytes that the first stage gathers before the pipelines wake up and what
    the other stages lead to expect: its embedding makes its share another one."""

    gathering_stages: float = 0.3
    """Share of the bytes of gradients on stages that do so: all but the first, so half or more."""

    # Sharded stages
    as_long_a_rest: float = 0.5
    """Share of the longest rest of the pipelines near a tick from which the one in which the tick lies ends the step:
    in a job of two stages others are within 1 %."""

    most_of_one: float = 0.9
    """Share of an activation's bytes after which the first one has been sent: sequences of one step differ by less."""

    hardly_any: float = 0.1
    """Share of what the first stage sends in the rest that it sends between its first two activations at most where it
    keeps its parameters; where it gathers them again it is a third of it at least."""

    gathered_of_rest: tuple[float, ...] = (1.0 / 2.0, 1.0 / 3.0)
    """Shares of what it sends in the rest that it gathers then, if it keeps its parameters: as much as it scatters, or
    half as much where gradients are of twice the width."""

    first_gather_within: float = 0.1
    """Relative difference of what is gathered for the first and for the second forward pass: records that straddle an
    activation; bytes vary by 0.03 in random jobs at most."""

    # The end of the job
    counted_bytes: float = 0.5
    """Share of the bytes on pairs whose steps repeat (to `clock.step_tolerance`) from which the job's end tells the
    place of a step's: those of a pipeline's activations or of its gradients at least."""

    counted_ticks: int = 6
    """Ticks from which the line of a pair's bytes is known: so many that two misplaced ones leave its median alone."""

    gathered_at_most: float = 0.5
    """Share of a pair's bytes of a step that are parameters for the next one: as many as its gradients, at most. A pair
    that lacks more when the job ends has not sent its gradients, and the job has not ended its step."""

    counted_early: float = 0.01
    """Share of a step, of its bytes and of its time, from the place of the job's end to that of the ticks, from which
    it is another place: ten times what bytes vary by (`clock.exact_bytes`)."""

    # Norms of pipelines without replicas
    norm_steady: float = 0.05
    """Share of a step by which its place in the rest may vary."""

    # Messages without tensors
    control_share: float = CONTROL_SHARE
    """Messages below this share of the usual one carry no tensors..."""

    control_bytes: int = CONTROL_BYTES
    """...if they are below this size too."""

    message_sample: int = MESSAGE_SAMPLE
    """Messages that the usual size is taken from."""
