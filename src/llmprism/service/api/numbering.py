"""The numbers that a producer gives its pushes: which of them were stored, and what to make of one that is lower.

A producer numbers its pushes upwards and sends one again when the answer was lost. What is saved is the latest number
with digests of the last bodies. The same number with the same body is a repeat and counts once. A number that is not
higher and whose body was never seen is no repeat: the producer was restarted and counts from the beginning. Then its
records are taken and the restart is counted; to drop them would lose everything it sends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["Numbering"]

REMEMBERED: Final = 4
"""Last pushes whose digests are kept: a producer sends one at a time, some send a few."""

DIGEST_CHARS: Final = 8


@dataclass(frozen=True, slots=True)
class Numbering:
    """`recent` are (number, digest), the latest first; an empty digest is one that an earlier version did not save."""

    recent: tuple[tuple[int, str], ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> Numbering:
        found = []
        for item in (text or "").split(";"):
            number, _, digest = item.partition("=")
            if number.isascii() and number.isdigit():
                found.append((int(number), digest))
        return cls(tuple(found[:REMEMBERED]))

    def text(self) -> str:
        return ";".join(f"{number}={digest}" if digest else str(number) for number, digest in self.recent)

    def is_repeat(self, number: int, digest: str) -> bool:
        return any(number == known and (not saved or saved == digest[:DIGEST_CHARS]) for known, saved in self.recent)

    def restarts(self, number: int, digest: str) -> bool:
        """Is this a new body under an old number?"""
        return bool(self.recent) and number <= self.recent[0][0] and not self.is_repeat(number, digest)

    def after(self, number: int, digest: str) -> Numbering:
        return Numbering(((number, digest[:DIGEST_CHARS]), *self.recent)[:REMEMBERED])
