"""Weights of the evidence for a layout, fitted to layouts whose truth is known.

Written by `python benchmarks/calibration_fit.py --write`; nobody edits the numbers by hand. `docs/accuracy.md` has the
reliability that they reach on cases that they were not fitted to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FITTED", "FittedConfidence"]


@dataclass(frozen=True, slots=True)
class FittedConfidence:
    """Natural log odds per unit of each term (`layout_evidence.terms_of`), and where they come from."""

    fitted_to: str
    weights: tuple[tuple[str, float], ...]

    def weight(self, name: str) -> float:
        return dict(self.weights)[name]


FITTED: Final = FittedConfidence(
    fitted_to="91 layouts of dev cases and odd seeds from 3001 on, at commit 6de8500",
    weights=(
        ("constant", -7.326),
        ("links", 0.753),
        ("weakest_link", 0.502),
        ("overruled_links", 0.0),
        ("width", 0.639),
        ("clock", 0.0),
        ("steps", 0.0),
        ("unnamed_bytes", 0.0),
        ("uneven", 0.0),
        ("pipelines", 0.241),
        ("interleaved", -0.61),
        ("micro_batch_bits", -0.957),
        ("hybrid", -0.281),
        ("experts", 0.0),
        ("contexts", 0.0),
        ("open_degrees", 0.0),
        ("unknown_sharding", -1.221),
        ("silent_pairs", 0.0),
        ("varied_bytes", 0.0),
        ("uneven_hops", 0.0),
        ("irregular_steps", 0.0),
        ("open_micro_batches", 0.0),
    ),
)
