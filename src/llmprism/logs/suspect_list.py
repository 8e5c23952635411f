"""Actors of a job as suspects, with scores that fall from one to the next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from llmprism.logs.members import LogMembers
from llmprism.logs.rules import LogRules
from llmprism.model.log import Suspect

__all__ = ["MAX_SUSPECTS", "in_turn", "suspect_actor"]

MAX_SUSPECTS: Final = 8
"""More names than this help nobody."""


def suspect_actor(members: LogMembers, actor: int, score: float, why: str) -> Suspect:
    return Suspect(members.actors[actor].rank, members.actors[actor].node, round(score, 3), why)


def in_turn(members: LogMembers, actors: Iterable[int], first: float, why: str, rules: LogRules) -> tuple[Suspect, ...]:
    """The actors as suspects by the same evidence, the first with that score and each next one with less."""
    return tuple(
        suspect_actor(members, actor, first * rules.confidence.next_suspect**place, why)
        for place, actor in enumerate(actors)
    )
