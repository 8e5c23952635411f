"""Which job of a look is which run: by the members they have in common.

A job and a run are the same when their member sets agree (Jaccard similarity), best matches first. A short look may
show a run in parts, a longer one several parts as one job: a job whose members all belong to one larger run is a
*part* of it, and a run without steps whose members all belong to a job that is another run is absorbed by that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from llmprism.model.live import TrackedRun
from llmprism.service.rules import RULES, LiveRules

__all__ = ["inside", "match", "whole_of"]


def match(
    members: Mapping[str, tuple[str, ...]], runs: Sequence[TrackedRun], rules: LiveRules = RULES
) -> dict[str, str]:
    """Job id → run id: greatest agreement first; the living before the dead, the latest before older ones."""
    pairs = []
    sets = [(run, frozenset(run.members)) for run in runs]
    runs_of: dict[str, list[int]] = {}
    for number, (_, there) in enumerate(sets):
        for address in there:
            runs_of.setdefault(address, []).append(number)
    for name, names in members.items():
        here = frozenset(names)
        shared = Counter(number for address in here for number in runs_of.get(address, ()))
        for number, common in shared.items():
            run, there = sets[number]
            agreement = common / max(len(here) + len(there) - common, 1)
            if agreement >= rules.runs.same_job:
                pairs.append((-agreement, not run.state.alive, -run.first_ns, name, run.id))
    matched: dict[str, str] = {}
    taken: set[str] = set()
    for _, _, _, name, run_id in sorted(pairs):
        if name not in matched and run_id not in taken:
            matched[name] = run_id
            taken.add(run_id)
    return matched


def inside(names: Iterable[str], larger: frozenset[str], rules: LiveRules = RULES) -> bool:
    """Do almost all of these names belong to the larger set?"""
    chosen = list(names)
    return len(chosen) < len(larger) and sum(name in larger for name in chosen) >= rules.runs.part_of * len(chosen)


def whole_of(names: Sequence[str], runs: Sequence[TrackedRun], rules: LiveRules = RULES) -> TrackedRun | None:
    """The run that these members are a part of: the living before the dead, then the latest."""
    wholes = [run for run in runs if inside(names, frozenset(run.members), rules)]
    return max(wholes, key=lambda run: (run.state.alive, run.first_ns), default=None)
