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
    fitted_to="240 layouts of captures and sources, 444 of random scenarios (of even seeds 59002 to 83600) and 308 "
    "of random faults (of even seeds 80002 to 82300), at commit 6622bea0 (the constant, width, "
    "open_shards and the terms that were new; the others at an earlier one)",
    weights=(
        ("constant", 0.131),
        ("links", 0.0),
        ("weakest_link", 0.347),
        ("overruled_links", -0.086),
        ("width", 0.322),
        ("clock", 0.191),
        ("steps", 0.138),
        ("unnamed_bytes", -0.563),
        ("uneven", -0.532),
        ("pipelines", 0.337),
        ("interleaved", -0.653),
        ("micro_batch_bits", -0.714),
        ("hybrid", -0.531),
        ("experts", -1.0),
        ("contexts", -1.308),
        ("open_degrees", -2.956),
        ("unknown_sharding", -0.822),
        ("silent_pairs", -0.315),
        ("varied_bytes", -0.521),
        ("uneven_hops", -0.158),
        ("irregular_steps", -0.218),
        ("open_micro_batches", -1.37),
        ("varied_pairs", -0.202),
        ("unclear_direction", -0.489),
        ("partly_exchanging", -1.47),
        ("sharded_stages", -0.619),
        ("sharded_alone", -1.065),
        ("other_readings", 0.153),
        ("behind", -1.328),
        ("not_composed", -0.43),
        ("contexts_of_one", -1.563),
        ("two_replicas", -0.319),
        ("no_schedule", -1.111),
        ("one_micro_batch", -0.907),
        ("tensors_across", -1.513),
        ("doubtful_job", -0.406),
        ("open_shards", -2.538),
        ("no_moments", -2.241),
        ("like_chance", -1.217),
    ),
)
