"""The mean + k sigma rule, as the LLMPrism paper states it.

A value is called abnormal when it lies more than `sigmas` standard deviations from the mean of all values, itself
included. Its limit is arithmetic: of n values none can lie further than (n - 1) / sqrt(n) standard deviations out, so
with k = 3 and fewer than 11 values it never fires, and a few sick members raise the spread until none of them is seen.
`robust.py` does better; this is kept as the named baseline. Reference: arXiv 2505.00342 (2025), section on diagnosis.

>>> beyond_sigmas([1.0] * 20 + [2.0]).nonzero()[0].tolist()
[20]
>>> beyond_sigmas([1.0] * 9 + [1000.0]).any().item()
False
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from llmprism.arrays import Bool, Float64

__all__ = ["PAPER_SIGMAS", "beyond_sigmas"]

PAPER_SIGMAS: Final = 3.0
"""Standard deviations from the mean: the value of the LLMPrism paper."""


def beyond_sigmas(values: ArrayLike, *, sigmas: float = PAPER_SIGMAS, low: bool = False) -> Bool:
    """Values above mean + `sigmas` standard deviations; with `low`, below mean - `sigmas` of them."""
    data = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(data).max(initial=0.0))
    if not largest > 0.0:
        return np.zeros(data.shape, dtype=np.bool_)
    data = data / largest
    # Rounding must not make an outlier of a constant series, nor of the largest z that n values can have.
    limit = sigmas * float(data.std()) + 1e-12
    distance: Float64 = data - float(data.mean())
    return np.less(distance, -limit) if low else np.greater(distance, limit)
