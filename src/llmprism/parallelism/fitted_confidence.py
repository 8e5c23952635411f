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
    fitted_to="285 layouts of dev cases, sources and odd seeds from 3001 on, at commit bad2d8e",
    weights=(
        ("constant", -3.89),
        ("links", 0.0),
        ("weakest_link", 0.644),
        ("overruled_links", 0.0),
        ("width", 0.379),
        ("clock", 0.113),
        ("steps", 0.092),
        ("unnamed_bytes", 0.0),
        ("uneven", -0.917),
        ("pipelines", 0.514),
        ("interleaved", -0.702),
        ("micro_batch_bits", -1.013),
        ("hybrid", -2.266),
        ("experts", -0.641),
        ("contexts", -0.191),
        ("open_degrees", -0.371),
        ("unknown_sharding", -1.438),
        ("silent_pairs", 0.0),
        ("varied_bytes", -0.417),
        ("uneven_hops", -0.491),
        ("irregular_steps", -0.603),
        ("open_micro_batches", -1.074),
    ),
)
