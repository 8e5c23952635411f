"""Long steps that are slow all along, against those that stand still once.

A checkpoint, an evaluation, late data or a stall stop a job at one point of its step: the same bytes pass before and
after it as fast as ever. Where something is slow, nothing moves as it used to, from one message to the next: what the
step takes longer is spread over its bytes. So one such step tells as much as several that are short. What holds more
bytes than a step does is no long step but several, or something else besides.

Where one of many pipelines or replicas is slow, the others run ahead and then wait, so that the messages of the job
stand still at one point. Those of the slow one do not: it is enough that the step is slow all along for one member.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.byte_curves import ByteCurve, training_messages
from llmprism.diagnose.evidence import JobEvidence, usual_steps
from llmprism.diagnose.rules import RULES, FaultRules

__all__ = ["beyond_jitter_times", "slow_throughout", "stand_out"]


def beyond_jitter_times(evidence: JobEvidence, rules: FaultRules = RULES) -> float:
    """What a step must take longer, in usual ones, to be far beyond what these vary by."""
    off = np.abs(evidence.duration_ns[usual_steps(evidence, rules)] / evidence.normal_ns - 1.0)
    jitter = float(np.quantile(off, rules.members.jitter_quantile)) if off.size else np.inf
    return rules.members.jitter_growth * jitter


def stand_out(evidence: JobEvidence, among: Bool, rules: FaultRules = RULES) -> Bool:
    """Of some steps those that are slow all along and take twice as long, or are two at least in a row that do so by
    far more than the job's steps vary by. One of these alone is no news: a neighbour on its host, a late file."""
    times, usual = evidence.duration_ns / evidence.normal_ns, usual_steps(evidence, rules)
    long = times >= rules.members.long_step
    clear = (times >= rules.trust.unexplained_slowdown) & (times - 1.0 > beyond_jitter_times(evidence, rules))
    among = among & (long | _in_a_row(among & (long | clear)))
    found = slow_throughout(evidence, among, usual, rules.trust.unexplained_slowdown, rules, one_member=True)
    return found & (long | _in_a_row(found))


def _in_a_row(steps: Bool) -> Bool:
    """Those next to which is another."""
    near = np.zeros_like(steps)
    near[1:] |= steps[:-1]
    near[:-1] |= steps[1:]
    return steps & near


def slow_throughout(
    evidence: JobEvidence,
    among: Bool,
    usual: Bool,
    times: float,
    rules: FaultRules = RULES,
    *,
    one_member: bool = False,
) -> Bool:
    """Of some steps those of so many times the usual length, with the bytes of one, whose excess over `usual` ones is
    not mostly in one of many equal parts of their bytes, or of their messages: the passes of a pipeline hold many
    messages and few bytes. With `one_member` those of any single one will do."""
    all_along = among & (evidence.duration_ns >= times * evidence.normal_ns)
    transfers, rows, steps = evidence.job.transfers, training_messages(evidence.job), evidence.timeline.steps
    if not all_along.any() or not usual.any() or not rows.any():
        return np.zeros(evidence.steps, dtype=np.bool_)
    start, end, size = transfers.start_ns[rows], transfers.end_ns[rows], transfers.bytes[rows]
    curve = ByteCurve.of(start, end, size)
    _, held = _bytes(curve, steps.start_ns.astype(np.float64), steps.end_ns.astype(np.float64))
    all_along &= held <= (1.0 + rules.trust.more_bytes) * float(np.median(held[usual]))
    spread = _spread(evidence, curve, usual, rules)
    if (all_along & ~spread).any():
        spread = spread | _spread(evidence, ByteCurve.of(start, end, np.ones_like(size)), usual, rules)
    if one_member and (all_along & ~spread).any():
        spread = spread | _for_one_member(evidence, rows, usual, rules)
    return np.asarray(all_along & spread)


def _for_one_member(evidence: JobEvidence, rows: Bool, usual: Bool, rules: FaultRules) -> Bool:
    """The steps whose excess is spread over the messages that some member sends; `rows` are those of the training."""
    job, transfers = evidence.job, evidence.job.transfers
    source = np.where(rows, transfers.pair_src[transfers.pair_of_row], -1)
    enough = max(rules.trust.member_messages * evidence.steps, 1)
    found = np.zeros(evidence.steps, dtype=np.bool_)
    for member in job.members if len(job.members) <= rules.blame.most_members else ():
        own = np.flatnonzero(source == member)
        if own.size >= enough:
            curve = ByteCurve.of(transfers.start_ns[own], transfers.end_ns[own], np.ones(own.size, dtype=np.int64))
            found |= _spread(evidence, curve, usual, rules)
    return found


def _spread(evidence: JobEvidence, curve: ByteCurve, usual: Bool, rules: FaultRules) -> Bool:
    """The steps whose excess over `usual` ones is not mostly in one of many equal parts of what a curve counts."""
    rule, steps = rules.trust, evidence.timeline.steps
    begin, held = _bytes(curve, steps.start_ns.astype(np.float64), steps.end_ns.astype(np.float64))
    inner = np.arange(1, rule.parts) / rule.parts
    passed = curve.moments((begin[:, None] + held[:, None] * inner).ravel()).reshape(evidence.steps, -1)
    took = np.diff(np.column_stack([steps.start_ns, passed, steps.end_ns]), axis=1)
    excess = took - np.median(took[usual], axis=0)
    return np.asarray(excess.max(axis=1) <= rule.one_rest * (evidence.duration_ns - evidence.normal_ns))


def _bytes(curve: ByteCurve, start_ns: Float64, end_ns: Float64) -> tuple[Float64, Float64]:
    """Bytes before each step, and in it."""
    before = curve.at(start_ns)
    return before, curve.at(end_ns) - before
