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
    fitted_to="98 layouts of dev cases and odd seeds from 3001 on, at commit a533ca7",
    weights=(
        ("constant", -4.316),
        ("links", 0.67),
        ("weakest_link", 0.0),
        ("overruled_links", -1.0),
        ("width", 0.521),
        ("clock", 0.0),
        ("steps", 0.0),
        ("unnamed_bytes", 0.0),
        ("uneven", 0.0),
        ("pipelines", -0.311),
        ("interleaved", -0.378),
        ("micro_batch_bits", -1.053),
        ("hybrid", -0.934),
        ("experts", -0.07),
        ("contexts", -0.539),
        ("open_degrees", -0.419),
        ("unknown_sharding", -1.067),
    ),
)
