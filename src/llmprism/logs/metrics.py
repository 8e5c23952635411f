"""Numbers that training lines print: loss, gradient norm, loss scale, time per iteration.

Which number of a line is which is decided once per shape: the bytes before it (its *anchor*) are the same in every line
of the shape, so a kernel finds the number in all of them. `nan` and `inf` are numbers here.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64, Int32, Int64, UInt8
from llmprism.kernel_cache import compiled

__all__ = ["ANCHOR_BYTES", "METRICS", "Metric", "metric_anchors", "metric_values"]

ANCHOR_BYTES: Final = 20


class Metric(IntEnum):
    LOSS = 0
    GRAD_NORM = 1
    LOSS_SCALE = 2
    STEP_SECONDS = 3


METRICS: Final = len(Metric)
_NUMBER: Final = r"['\"]?\s*[:=]?\s*['\"(\[]?(?:tensor\()?(?=[-+]?\d|[-+]?nan\b|[-+]?inf)"
_OTHER_LOSS: Final = re.compile(
    r"(?:val\w*|eval\w*|test\w*|aux\w*|\bz|mtp\w*|balanc\w*|best|min|kl|target|scale)[ _/.-]*$", re.I
)
"""Words before `loss` that make it another number than the training loss."""

_PATTERNS: Final = (
    (
        Metric.LOSS,
        1.0,
        re.compile(rf"(?:^|[\s\[({{|,:'\"/_])(?:lm |lm_|train(?:ing)?[ _/]?|total[ _])?loss{_NUMBER}", re.I),
    ),
    (Metric.GRAD_NORM, 1.0, re.compile(rf"(?:grad(?:ient)?s?[ _]?norm|gnorm){_NUMBER}", re.I)),
    (Metric.LOSS_SCALE, 1.0, re.compile(rf"loss[ _]scale{_NUMBER}", re.I)),
    (Metric.STEP_SECONDS, 1e-3, re.compile(r"(?:time|duration)[^|\d]{0,24}\(ms\)\s*[:=]?\s*(?=\d)", re.I)),
    (
        Metric.STEP_SECONDS,
        1e-3,
        re.compile(r"(?:iter\w*|step|batch)[ _](?:time|duration)(?:_ms|/ms)['\"]?\s*[:=]\s*(?=\d)", re.I),
    ),
    (
        Metric.STEP_SECONDS,
        1.0,
        re.compile(
            r"(?:(?:iter\w*|step|batch)[ _](?:time|duration)|sec(?:ond)?s?[ _/]?(?:per[ _])?(?:step|iter\w*)"
            r"|time[ _/](?:per[ _])?(?:step|iter\w*))(?: ?\(s(?:ec)?\)|_s(?:ec)?)?['\"]?\s*[:=]\s*(?=\d)",
            re.I,
        ),
    ),
    (Metric.STEP_SECONDS, -1.0, re.compile(r"<[\d:?]+,\s*(?=[\d.]+ ?it/s)")),
    (Metric.STEP_SECONDS, 1.0, re.compile(r"<[\d:?]+,\s*(?=[\d.]+ ?s/it)")),
)
"""(what, scale to seconds, where): a negative scale marks a rate. Megatron-LM, DeepSpeed, NeMo, MaxText, tqdm."""


_SUMMARY: Final = re.compile(r"train_runtime|eval_runtime|validation loss at|test loss at")
"""Lines that sum up a run or an evaluation: their numbers belong to no iteration."""


def metric_anchors(text: str) -> list[tuple[Metric, bytes, float]]:
    """The numbers of a line that are known: (what, the bytes before it, scale)."""
    found: dict[Metric, tuple[Metric, bytes, float]] = {}
    if _SUMMARY.search(text):
        return []
    for metric, scale, pattern in _PATTERNS:
        if metric in found:
            continue
        for match in pattern.finditer(text):
            if metric is Metric.LOSS and _OTHER_LOSS.search(text[: match.start() + 1]):
                continue
            if metric is Metric.STEP_SECONDS and re.search(
                r"(?:fwd|bwd|forward|backward|optimizer|data|load|save|eval|comm)\w*[ _-]*$",
                text[: match.start()],
                re.I,
            ):
                continue
            kept = re.search(rf"[^\d\s][^\d]{{0,{ANCHOR_BYTES - 1}}}$", text[: match.end()].rstrip())
            if kept:
                found[metric] = (metric, kept[0].encode()[-ANCHOR_BYTES:], scale)
                break
    return list(found.values())


@compiled
def _number_at(buf: UInt8, j: int, end: int) -> tuple[bool, float]:
    """The number at `j`: digits with sign, thousands commas, point and exponent, or nan or inf."""
    sign = 1.0
    if j < end and (buf[j] == 45 or buf[j] == 43):
        sign = -1.0 if buf[j] == 45 else 1.0
        j += 1
    if j + 3 <= end:
        a, b, c = buf[j] | 32, buf[j + 1] | 32, buf[j + 2] | 32
        if a == 110 and b == 97 and c == 110:
            return True, np.nan
        if a == 105 and b == 110 and c == 102:
            return True, sign * np.inf
    if j >= end or not (48 <= buf[j] <= 57):
        return False, 0.0
    value, scale, point = 0.0, 1.0, False
    while j < end and (48 <= buf[j] <= 57 or (buf[j] == 46 and not point)):
        if buf[j] == 46:
            point = True
        else:
            value = value * 10.0 + float(buf[j]) - 48.0
            scale = scale * 10.0 if point else scale
        j += 1
    exponent = 0
    if j + 1 < end and (buf[j] | 32) == 101:
        j += 1
        negative = buf[j] == 45
        if buf[j] == 45 or buf[j] == 43:
            j += 1
        while j < end and 48 <= buf[j] <= 57 and exponent < 400:
            exponent = exponent * 10 + int(buf[j]) - 48
            j += 1
        exponent = -exponent if negative else exponent
    return True, sign * value / scale * 10.0**exponent


@compiled
def metric_values(
    buf: UInt8,
    start: Int64,
    end: Int64,
    which: Int32,
    metric: int,
    anchors: UInt8,
    sizes: Int32,
    out: Float64,
    known: Bool,
) -> None:
    """For each line the number behind the first place where the anchor of its shape for this metric stands."""
    for row in range(start.size):
        size = sizes[which[row], metric]
        known[row] = False
        if size == 0:
            continue
        first = anchors[which[row], metric, 0]
        for i in range(start[row], end[row] - size):
            if buf[i] != first:
                continue
            same = True
            for k in range(1, size):
                if buf[i + k] != anchors[which[row], metric, k]:
                    same = False
                    break
            if not same:
                continue
            j = i + size
            while j < end[row] and buf[j] == 32:
                j += 1
            good, value = _number_at(buf, j, end[row])
            if good:
                out[row], known[row] = value, True
                break
