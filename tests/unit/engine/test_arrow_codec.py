"""What is written to Arrow is read back bit by bit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

pa = pytest.importorskip("pyarrow", reason="the engine's tables are Arrow's")

from llmprism.engine.arrow_codec import arrow_type, decode, encode, spark_type  # noqa: E402
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType  # noqa: E402


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 0
    HIGH = 7


@dataclass(frozen=True, slots=True)
class Leaf:
    colour: Colour
    level: Level
    place: str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    leaves: tuple[Leaf, ...]
    ends: tuple[tuple[str, int], ...]
    matrix: NDArray[np.float64]
    mask: NDArray[np.bool_] | None
    best: Leaf | None
    weight: float
    known: dict[tuple[Colour, int], list[str]]


leaves = st.builds(Leaf, st.sampled_from(Colour), st.sampled_from(Level), st.text() | st.lists(st.text()).map(tuple))
trees = st.builds(
    Tree,
    st.lists(leaves).map(tuple),
    st.lists(st.tuples(st.text(), st.integers(-(2**63), 2**63 - 1))).map(tuple),
    arrays.arrays(np.float64, st.tuples(st.integers(0, 3), st.integers(0, 3))),
    st.none() | arrays.arrays(np.bool_, st.integers(0, 5)),
    st.none() | leaves,
    st.floats(allow_nan=False),
    st.dictionaries(st.tuples(st.sampled_from(Colour), st.integers(0, 9)), st.lists(st.text())),
)


@settings(deadline=None, max_examples=50)
@given(st.lists(trees, max_size=3))
def test_every_value_comes_back(values):
    again = decode(encode(values, Tree), Tree)
    assert len(again) == len(values)
    for old, new in zip(values, again, strict=True):
        assert (new.leaves, new.ends, new.best, new.weight) == (old.leaves, old.ends, old.best, old.weight)
        assert list(new.known.items()) == list(old.known.items())
        assert new.matrix.tobytes() == old.matrix.tobytes()
        assert new.matrix.shape == old.matrix.shape
        assert (new.mask is None) == (old.mask is None)
        assert old.mask is None or (new.mask == old.mask).all()


def test_chunks_are_one_column():
    leaf = Leaf(Colour.RED, Level.HIGH, ("a", "b"))
    column = pa.chunked_array([encode([leaf], Leaf), encode([leaf, leaf], Leaf)])
    assert decode(column, Leaf) == [leaf] * 3


def test_a_finding_comes_back():
    finding = Finding(
        FindingKind.SLOW_LINK,
        None,
        Where(WhereType.LINK, ("a", "b")),
        1,
        None,
        0.5,
        0.9,
        1.5,
        "slow",
        (Evidence("x", 1.0),),
    )
    assert decode(encode([finding], Finding), Finding) == [finding]


def test_types_in_the_notation_of_spark():
    assert spark_type(arrow_type(Leaf)) == (
        "struct<colour:string,level:bigint,place:struct<choice0:string,choice1:array<string>>>"
    )


def test_what_has_no_form_is_refused():
    with pytest.raises(TypeError, match="no form in Arrow"):
        arrow_type(frozenset[str])
