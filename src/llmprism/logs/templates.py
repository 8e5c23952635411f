"""Shapes → templates: Drain for what masking leaves apart, in a fixed order so that two runs give the same templates.

Masking already puts together lines that differ in numbers. What is left are lines that differ in words (a user's name,
a path). Shapes are taken in the order of their tokens, not of their arrival; those with the same number of tokens and
the same first two tokens are compared, and one that shares enough tokens with a group joins it, with `<*>` where they
differ. This is Drain (He et al., ICWS 2017) over shapes instead of lines: thousands of steps instead of millions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["Template", "group_shapes", "similar_key", "token_similarity"]

SIMILARITY: Final = 0.7
"""Share of equal tokens from which two shapes are one template; one value for all (docs/reference/log-templates.md)."""

KEY_TOKENS: Final = 2
"""First tokens that must be equal; Drain's depth of 4 counts the root and the length as well."""

WILDCARD: Final = "<*>"
MAX_CANDIDATES: Final = 300
"""Groups under one key that a shape is compared with: bounds the work on a log of nothing but random words."""

_PATH: Final = re.compile(r"^[^/]*/[^/]*/")


@dataclass(slots=True)
class Template:
    tokens: list[str]
    shapes: list[str]

    @property
    def text(self) -> str:
        return " ".join(self.tokens)


def _tokens(shape: str) -> list[str]:
    """Tokens of a masked text; a token with two or more slashes is a path and varies."""
    return [WILDCARD if _PATH.match(token) else token for token in shape.split()]


def _key(tokens: list[str]) -> tuple[str, ...]:
    first = (WILDCARD if "*" in token else token for token in tokens[:KEY_TOKENS])
    return (str(len(tokens)), *first)


def _similarity(template: list[str], tokens: list[str]) -> tuple[float, int]:
    """(share of equal tokens, wildcards of the template): the better match is the larger."""
    same = sum(mine == other for mine, other in zip(template, tokens, strict=True))
    return same / max(len(tokens), 1), template.count(WILDCARD)


def group_shapes(shapes: Iterable[str]) -> dict[str, Template]:
    """The template of every masked text; the same set of texts gives the same templates in any order."""
    groups: dict[tuple[str, ...], list[Template]] = defaultdict(list)
    found: dict[str, Template] = {}
    for tokens, shape in sorted(
        ((_tokens(shape), shape) for shape in set(shapes)), key=lambda item: (len(item[0]), item)
    ):
        candidates = groups[_key(tokens)]
        best = max(candidates[-MAX_CANDIDATES:], key=lambda t: _similarity(t.tokens, tokens), default=None)
        if best is not None and _similarity(best.tokens, tokens)[0] >= SIMILARITY:
            best.tokens = [mine if mine == other else WILDCARD for mine, other in zip(best.tokens, tokens, strict=True)]
            best.shapes.append(shape)
        else:
            best = Template(tokens, [shape])
            candidates.append(best)
        found[shape] = best
    return found


def similar_key(shape: str) -> tuple[str, ...]:
    """The key under which similar shapes are found."""
    return _key(_tokens(shape))


def token_similarity(one: str, other: str) -> float:
    """Share of equal tokens of two masked texts with the same key."""
    return _similarity(_tokens(one), _tokens(other))[0]
