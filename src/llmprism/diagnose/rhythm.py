"""Steps that come in a rhythm: a clock that ticks at a part of the step is made whole before anything is compared.

Where a clock takes the layers of a sharded job, or the two halves of a step, for steps, long and short ones follow each
other in the same order again and again. Nothing is slow then: the long ones are the same part of every step. Steps are
put together, as many as the rhythm has, if the rhythm explains a good part of how their lengths differ and the lengths
differ by much. Jobs whose true steps alternate lose nothing but resolution.

Must not do: put steps together that differ because a fault lasts (that is no rhythm) or because every so many of them
an evaluation follows (too few would be left).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.arrays import Float64
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.timeline import Steps, Timeline

__all__ = ["rhythm_of", "with_whole_steps"]


def with_whole_steps(timeline: Timeline, rules: FaultRules = RULES) -> Timeline:
    """The timeline with the steps of each round of the rhythm put together; the same where there is none."""
    steps = timeline.steps
    first = int(np.flatnonzero(steps.setup)[-1]) + 1 if steps.setup.any() else 0
    lengths = np.diff(steps.end_ns[max(first - 1, 0) :]).astype(np.float64)
    rhythm = rhythm_of(lengths, rules)
    if rhythm < 2:
        return timeline
    first = max(first, 1)  # the length of the first step is not known from end to end
    first += (int(np.argmax(_medians_by_place(lengths, rhythm))) + 1) % rhythm  # a round ends with its longest part
    rounds = (steps.count - first) // rhythm
    last = first + rhythm * np.arange(1, rounds + 1) - 1
    kept = np.flatnonzero(steps.setup)
    start = np.concatenate([steps.start_ns[kept], steps.start_ns[last - rhythm + 1]])
    ends = np.concatenate([kept, last])
    setup = np.concatenate([steps.setup[kept], np.zeros(rounds, dtype=np.bool_)])
    merged = Steps(start, steps.end_ns[ends], setup)
    return replace(timeline, steps=merged, member_end_ns=timeline.member_end_ns[:, ends])


def rhythm_of(lengths_ns: Float64, rules: FaultRules = RULES) -> int:
    """After how many steps their lengths repeat; 1 where they do not."""
    rule = rules.evidence
    logs = np.log(np.maximum(lengths_ns, 1.0))
    whole = float(np.abs(logs - np.median(logs)).mean()) if logs.size else 0.0
    best, found = rule.rhythm_share, 1
    for rhythm in range(2, min(rule.longest_rhythm, logs.size // rule.rhythm_rounds) + 1):
        middles = _medians_by_place(logs, rhythm)
        left = np.abs(logs - middles[np.arange(logs.size) % rhythm]).sum() / (logs.size - rhythm)
        explained = 1.0 - left / whole if whole > 0.0 else 0.0
        if explained > best and middles.max() - middles.min() > np.log(rule.rhythm_swing):
            best, found = explained + rule.rhythm_gain, rhythm
    return found


def _medians_by_place(values: Float64, rhythm: int) -> Float64:
    """For each place of a round of so many values, the median of those at that place; there is one round at least."""
    rounds = -(-values.size // rhythm)
    table = np.full(rounds * rhythm, np.inf)
    table[: values.size] = values
    ordered = np.sort(table.reshape(rounds, rhythm), axis=0)
    place = np.arange(rhythm)
    seen = rounds - (place >= values.size - (rounds - 1) * rhythm)  # the last round may be cut off
    middles: Float64 = 0.5 * (ordered[(seen - 1) // 2, place] + ordered[seen // 2, place])
    return middles
