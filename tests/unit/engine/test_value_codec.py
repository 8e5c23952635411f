"""Plain values hold what a dataclass holds; what does not fit is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pytest
from numpy.typing import NDArray

from llmprism.engine.value_codec import from_values, to_values


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Thing:
    colour: Colour
    place: str | tuple[str, ...]
    ends: tuple[tuple[str, int], ...]
    counts: NDArray[np.int32] | None
    weight: float | None = None


THING = Thing(Colour.RED, ("a", "b"), (("x", 1),), np.array([[1, 2], [3, 4]], dtype=np.int32), np.float64(0.5))


def text(thing):
    return json.dumps(to_values(thing, Thing, lambda values: values.tolist()))


def read(simple):
    return from_values(simple, Thing, lambda values, dtype, count: np.array(values, dtype=dtype))


def test_json_text_gives_the_same_back():
    again = read(json.loads(text(THING)))
    assert (again.colour, again.place, again.ends, again.weight) == (THING.colour, THING.place, THING.ends, 0.5)
    assert again.counts.tolist() == [[1, 2], [3, 4]]
    assert again.counts.dtype == np.int32


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("colour", "green"), ("colour", None), ("ends", None), ("ends", [{"part0": 1, "part1": 1}]), ("weight", "heavy")],
)
def test_what_does_not_fit_is_refused(field, wrong):
    simple = {**json.loads(text(THING)), field: wrong}
    with pytest.raises((KeyError, TypeError, ValueError)):
        read(simple)
