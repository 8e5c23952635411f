"""How many bytes a step of a run has, by all windows that have shown it: what the next window is looked at with.

One window may take several steps for one, while a NIC is slow or because of coarse time stamps (`known_step`). Each
window therefore votes for the bytes of a step as its records alone show them, with the time that it adds to what was
seen before; the windows of the last minutes together decide. While a finding slows the run nobody votes, as with its
baselines. The votes are part of the run, so that a restarted service decides as one that was never disturbed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from llmprism.model.layout import JobLayout
from llmprism.model.live import TrackedRun
from llmprism.service.rules import RULES, LiveRules

__all__ = ["known_step_bytes", "may_last", "member_key", "step_bytes_of", "with_vote"]


def member_key(names: Iterable[str]) -> str:
    """The same for the same members in any order."""
    return hashlib.sha256("\n".join(sorted(names)).encode(errors="surrogatepass")).hexdigest()[:16]


def with_vote(
    run: TrackedRun, step_bytes: int, end_ns: int, rules: LiveRules = RULES, *, known: bool = True
) -> TrackedRun:
    """The run after a look that ends here and shows clear steps of so many bytes. Its vote weighs as much as the time
    since the last such look. Where its members are not the `known` ones, nothing is left of the earlier votes."""
    run = run if known else replace(run, step_votes=())
    new_ns = end_ns - max(run.whole_ns, run.first_ns)
    if step_bytes <= 0 or new_ns <= 0:
        return run
    votes = dict(run.step_votes)
    near = [known for known in votes if abs(step_bytes - known) <= rules.runs.step_bytes * known]
    chosen = min(near, key=lambda known: abs(step_bytes - known), default=step_bytes)
    votes[chosen] = votes.get(chosen, 0) + min(new_ns, rules.windows.length)
    total = sum(votes.values())
    if total > rules.runs.step_kept_ns:
        votes = {known: weight * rules.runs.step_kept_ns // total for known, weight in votes.items()}
    least = rules.windows.hop // 2
    return replace(run, step_votes=tuple(sorted((known, weight) for known, weight in votes.items() if weight >= least)))


def known_step_bytes(run: TrackedRun, rules: LiveRules = RULES) -> int:
    """The bytes for which most of the time votes; 0 while too little has been seen, or no step has a majority."""
    known, weight = max(run.step_votes, key=lambda vote: vote[1], default=(0, 0))
    total = sum(vote for _, vote in run.step_votes)
    return known if weight >= rules.runs.step_known_ns and 2 * weight > total else 0


def step_bytes_of(runs: Iterable[TrackedRun], rules: LiveRules = RULES) -> dict[str, int]:
    """The key of the members of each living run whose step is known, and its bytes; 0 where the looks disagree and none
    has a majority."""
    known = ((run, known_step_bytes(run, rules)) for run in runs if run.state.alive)
    return {member_key(run.members): found for run, found in known if found or len(run.step_votes) > 1}


def may_last(layout: JobLayout, known_bytes: int | None, rules: LiveRules = RULES) -> bool:
    """May this layout be carried over to the next windows? Not while it is open what a step is, and not where this
    window alone shows another step than the others. `known_bytes` is None where no look has disagreed so far."""
    return known_bytes is None or abs(layout.step_bytes - known_bytes) <= rules.runs.step_bytes * known_bytes
