"""Whether stamps and traffic speak of the same steps: bytes per step between two replicas hardly vary.

Replicas exchange the same gradients in every step, so the bytes that a pair carried from one step's end to the next are
the same again and again, whatever the times do. A clock, a window or a step number that is off breaks that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["step_byte_deviation"]

MIN_STEPS = 5


def step_byte_deviation(
    start_ns: NDArray[np.int64], end_ns: NDArray[np.int64], count: NDArray[np.int64], step_ends: NDArray[np.int64]
) -> float | None:
    """Third quartile of the relative distance of a pair's bytes per step from their median; None with few steps.

    A record that crosses the end of a step counts on both sides in proportion. The first two steps are left out.
    """
    if len(step_ends) < MIN_STEPS + 2:
        return None
    length = np.maximum(end_ns - start_ns, 1)
    shares = np.clip((step_ends[:, None] - start_ns[None, :]) / length[None, :], 0, 1)
    per_step = np.diff(shares @ count.astype(np.float64))[1:]
    typical = float(np.median(per_step))
    if typical <= 0:
        return None
    return float(np.percentile(np.abs(per_step - typical) / typical, 75))


def deviation_of_job(job: dict[str, Any], records: dict[str, NDArray[Any]], number_of: dict[str, int]) -> float | None:
    """The median deviation over the pairs of replicas of a job; None where it has none."""
    ends = np.array([step["end_ns"] for step in job["steps"]], dtype=np.int64)
    found = []
    for pair in job["pairs"]:
        if pair["kind"] != "dp" or pair.get("setup"):
            continue
        mine = (records["src"] == number_of[pair["src"]]) & (records["dst"] == number_of[pair["dst"]])
        value = step_byte_deviation(records["start_ns"][mine], records["end_ns"][mine], records["bytes"][mine], ends)
        if value is not None:
            found.append(value)
    return float(np.median(found)) if found else None
