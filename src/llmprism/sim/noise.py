"""Random numbers without a state: a hash of what they are for.

The noise of an operation depends on the seed, the operation and the step, not on the order in which the engine meets
them, so a run is the same whatever else changes.
"""

from __future__ import annotations

import numpy as np

from llmprism.sim.compiled import inlined, kernel

__all__ = ["bell", "uniform"]


@inlined
def uniform(seed: np.uint64, a: int, b: int, c: int) -> float:
    """A number in [0, 1) from the SplitMix64 finaliser over the four values."""
    x = np.uint64(seed) ^ (np.uint64(a) * np.uint64(0x9E3779B97F4A7C15))
    x = x ^ (np.uint64(b) * np.uint64(0xC2B2AE3D27D4EB4F)) ^ (np.uint64(c) * np.uint64(0x165667B19E3779F9))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return float(x >> np.uint64(11)) / 9007199254740992.0


@kernel
def bell(seed: np.uint64, a: int, b: int, c: int) -> float:
    """Roughly normal, mean 0 and deviation 1, never beyond 3.5: the sum of four uniform numbers."""
    total = 0.0
    for i in range(4):
        total += uniform(seed, a, b, c * 4 + i)
    return (total - 2.0) * 1.7320508075688772
