"""The published L4 rules (arXiv 2503.20263), plainly: the baseline that the benchmark prints beside ours.

Drain templates; events that successful jobs of the same kind print are dropped; an Isolation Forest over the actors'
event counts ranks them; the stage comes from marker lines; every iteration's sequence of events is compared by dynamic
time warping with the ten before it, and the first one below mean - 3 sigma is reported. No roles, no consequences, no
accusations: what the paper says and no more.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.logs.isolation import isolation_scores
from llmprism.logs.masking import mask_text
from llmprism.logs.templates import group_shapes

__all__ = ["L4Line", "L4Verdict", "l4_diagnose"]

LOOK_BACK: Final = 10
"""Iterations before the current one that it is compared with, as in the paper."""


@dataclass(frozen=True, slots=True)
class L4Line:
    """`actor` is a rank or node; `iteration` and `stage` are those that rules read off the log around the line."""

    actor: int
    text: str
    iteration: int
    stage: str


@dataclass(frozen=True, slots=True)
class L4Verdict:
    """`events` are indices of the lines reported as indicating the failure; `actors` are ranked, the worst first."""

    events: tuple[int, ...]
    actors: tuple[int, ...]
    stage: str | None
    iteration: int | None


def _warping_distance(one: list[int], other: list[int]) -> float:
    """Dynamic time warping of two event sequences, per step of the longer."""
    if not one or not other:
        return 1.0
    costs = np.full((len(one) + 1, len(other) + 1), np.inf)
    costs[0, 0] = 0.0
    for i, a in enumerate(one):
        for j, b in enumerate(other):
            costs[i + 1, j + 1] = (a != b) + min(costs[i, j + 1], costs[i + 1, j], costs[i, j])
    return float(costs[-1, -1]) / max(len(one), len(other))


def _templates(texts: list[str]) -> tuple[list[str], dict[str, str]]:
    masks = [mask_text(text.encode()).decode("utf-8", "replace") for text in texts]
    groups = group_shapes(masks)
    return masks, {mask: group.text for mask, group in groups.items()}


def l4_diagnose(lines: list[L4Line], good: list[str]) -> L4Verdict:
    """`good` are the texts of all lines of successful jobs of the same kind."""
    masks, names = _templates([line.text for line in lines] + good)
    events = [names[mask] for mask in masks[: len(lines)]]
    normal = {names[mask] for mask in masks[len(lines) :]}
    kept = tuple(i for i, event in enumerate(events) if event not in normal)
    return L4Verdict(kept, _ranked(lines, events, kept), _stage(lines, kept), _odd_iteration(lines, events))


def _ranked(lines: list[L4Line], events: list[str], kept: tuple[int, ...]) -> tuple[int, ...]:
    actors = sorted({line.actor for line in lines if line.actor >= 0})
    columns = sorted({events[i] for i in kept})
    place = {event: k for k, event in enumerate(columns)}
    row = {actor: k for k, actor in enumerate(actors)}
    counts = np.zeros((len(actors), len(columns)))
    for i in kept:
        if lines[i].actor >= 0:
            counts[row[lines[i].actor], place[events[i]]] += 1
    scores = isolation_scores(counts)
    return tuple(actors[k] for k in np.argsort(-scores, kind="stable"))


def _stage(lines: list[L4Line], kept: tuple[int, ...]) -> str | None:
    return lines[kept[0]].stage if kept else None


def _odd_iteration(lines: list[L4Line], events: list[str]) -> int | None:
    sequences: dict[int, list[int]] = defaultdict(list)
    codes: dict[str, int] = {}
    for line, event in zip(lines, events, strict=True):
        if line.iteration > 0 and len(sequences[line.iteration]) < 200:
            sequences[line.iteration].append(codes.setdefault(event, len(codes)))
    numbers = sorted(sequences)
    history: list[float] = []
    for k, number in enumerate(numbers):
        before = numbers[max(0, k - LOOK_BACK) : k]
        if not before:
            continue
        likeness = 1.0 - float(np.mean([_warping_distance(sequences[number], sequences[b]) for b in before[-3:]]))
        recent = history[-LOOK_BACK:]
        if len(recent) >= 3 and likeness < np.mean(recent) - 3 * max(float(np.std(recent)), 1e-3):
            return number
        history.append(likeness)
    return numbers[-1] if numbers else None
