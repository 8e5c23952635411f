"""Isolation Forest (Liu et al., ICDM 2008): how strange each row of a table is among the others."""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Float64, Int64

__all__ = ["isolation_scores"]

TREES: Final = 100
SAMPLE: Final = 256
"""Trees and rows per tree as in the paper."""


def _path_correction(size: int) -> float:
    if size <= 1:
        return 0.0
    return float(2.0 * (np.log(size - 1) + 0.5772156649) - 2.0 * (size - 1) / size)


def _depths(
    data: Float64,
    rows: Int64,
    depth: int,
    limit: int,
    rng: np.random.Generator,
    out: Float64,
    sample: Int64,
) -> None:
    """Path length of every row of `rows` in one random tree grown on `sample`."""
    if depth >= limit or sample.size <= 1 or not rows.size:
        out[rows] += depth + _path_correction(sample.size)
        return
    spread = data[sample].max(axis=0) - data[sample].min(axis=0)
    usable = np.flatnonzero(spread > 0)
    if not usable.size:
        out[rows] += depth + _path_correction(sample.size)
        return
    column = int(rng.choice(usable))
    low = data[sample, column].min()
    split = rng.uniform(low, low + spread[column])
    left, sample_left = data[rows, column] < split, data[sample, column] < split
    _depths(data, rows[left], depth + 1, limit, rng, out, sample[sample_left])
    _depths(data, rows[~left], depth + 1, limit, rng, out, sample[~sample_left])


def isolation_scores(data: Float64, seed: int = 0) -> Float64:
    """Isolation Forest (Liu et al., ICDM 2008): 0..1 per row, higher is stranger."""
    rows = data.shape[0]
    if rows < 2 or not data.shape[1]:
        return np.zeros(rows)
    rng = np.random.default_rng(seed)
    size = min(SAMPLE, rows)
    limit = int(np.ceil(np.log2(max(size, 2))))
    total = np.zeros(rows)
    for _ in range(TREES):
        sample = rng.choice(rows, size, replace=False)
        _depths(data, np.arange(rows), 0, limit, rng, total, sample)
    scores: Float64 = 2.0 ** (-(total / TREES) / max(_path_correction(size), 1e-9))
    return scores
