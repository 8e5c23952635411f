"""The measures that every part of the score is made of. A rate without anything to measure is None, never 0 or 1."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rate", "SetScore"]


@dataclass(frozen=True, slots=True)
class Rate:
    """`right` out of `total`."""

    right: int
    total: int

    @property
    def value(self) -> float | None:
        return self.right / self.total if self.total else None

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.right + other.right, self.total + other.total)


@dataclass(frozen=True, slots=True)
class SetScore:
    """Claimed things against true things: `right` of `claimed` are among the `expected`."""

    right: int
    claimed: int
    expected: int

    @property
    def precision(self) -> float | None:
        if self.claimed:
            return self.right / self.claimed
        return 0.0 if self.expected else None

    @property
    def recall(self) -> float | None:
        return self.right / self.expected if self.expected else None

    @property
    def f1(self) -> float | None:
        total = self.claimed + self.expected
        return 2 * self.right / total if total else None

    def __add__(self, other: SetScore) -> SetScore:
        return SetScore(self.right + other.right, self.claimed + other.claimed, self.expected + other.expected)
