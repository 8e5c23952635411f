"""The reliability plot as one SVG without any outside resource: share right by stated confidence, per kind of claim."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from claims import CLAIM_KINDS, Bin, Claim, reliability

__all__ = ["reliability_svg"]

SIDE: Final = 190
"""Pixels of one panel's square."""
LEFT, TOP, STEP_X, STEP_Y, COLUMNS = 46, 40, 250, 268, 3
WIDEST: Final = 9.0
"""Radius of the circle of a bin that holds all claims of its panel."""


def reliability_svg(claims: Iterable[Claim]) -> str:
    """One panel per kind of claim; a circle's area is the weight of its bin, the diagonal is perfect."""
    listed = list(claims)
    kinds = [kind for kind in CLAIM_KINDS if any(claim.kind == kind for claim in listed)]
    rows = -(-max(len(kinds), 1) // COLUMNS)
    width, height = LEFT + COLUMNS * STEP_X, TOP + rows * STEP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11" role="img">',
        "<title>Share right by stated confidence</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for i, kind in enumerate(kinds):
        x, y = LEFT + i % COLUMNS * STEP_X, TOP + i // COLUMNS * STEP_Y
        parts += _panel(x, y, kind, [claim for claim in listed if claim.kind == kind])
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(x: int, y: int, kind: str, claims: list[Claim]) -> list[str]:
    found = reliability(claims)
    title = f"{kind}: error {found.error or 0:.3f}, weight {found.weight:.0f}"
    parts = [
        f'<text x="{x}" y="{y - 10}" font-weight="bold" fill="#222">{title}</text>',
        f'<rect x="{x}" y="{y}" width="{SIDE}" height="{SIDE}" fill="none" stroke="#999"/>',
        f'<line x1="{x}" y1="{y + SIDE}" x2="{x + SIDE}" y2="{y}" stroke="#bbb" stroke-dasharray="4 3"/>',
    ]
    for mark in (0.0, 0.5, 1.0):
        across, up = x + mark * SIDE, y + (1 - mark) * SIDE
        parts.append(f'<text x="{across:.0f}" y="{y + SIDE + 14}" text-anchor="middle" fill="#555">{mark:g}</text>')
        parts.append(f'<text x="{x - 6}" y="{up + 4:.0f}" text-anchor="end" fill="#555">{mark:g}</text>')
    parts.append(f'<text x="{x + SIDE / 2:.0f}" y="{y + SIDE + 28}" text-anchor="middle" fill="#555">stated</text>')
    parts.append(
        f'<text x="{x - 28}" y="{y + SIDE / 2:.0f}" text-anchor="middle" fill="#555" '
        f'transform="rotate(-90 {x - 28} {y + SIDE / 2:.0f})">right</text>'
    )
    points = [_point(x, y, item) for item in found.bins]
    if len(points) > 1:
        line = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="#1f6fb2" stroke-width="1.5"/>')
    for (px, py), item in zip(points, found.bins, strict=True):
        radius = max(2.0, WIDEST * (item.weight / found.weight) ** 0.5)
        tip = f"stated {item.confidence:.2f}, right {item.right:.2f}, weight {item.weight:.1f}"
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{radius:.1f}" fill="#1f6fb2" fill-opacity="0.65">'
                     f"<title>{tip}</title></circle>")  # fmt: skip
    return parts


def _point(x: int, y: int, item: Bin) -> tuple[float, float]:
    return x + item.confidence * SIDE, y + (1 - item.right) * SIDE
