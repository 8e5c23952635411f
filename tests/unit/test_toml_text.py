from __future__ import annotations

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.toml_text import toml_text

_values = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text()
_settings = st.dictionaries(st.text(), _values | st.lists(_values, min_size=1) | st.dictionaries(st.text(), _values))


@given(st.dictionaries(st.text(), _values | _settings | st.lists(_settings)))
def test_what_was_written_is_read_back(document: dict[str, object]) -> None:
    assert tomllib.loads(toml_text(document)) == document


def test_settings_stand_before_tables_and_small_tables_on_one_line() -> None:
    text = toml_text({"job": [{"name": "a", "ranks": (0, 4)}], "cluster": {"nic": {"speed": 1.0}}, "seed": 7})
    assert text == 'seed = 7\n\n[[job]]\nname = "a"\nranks = [0, 4]\n\n[cluster]\nnic = {speed = 1.0}\n'


def test_a_number_that_is_none_is_read_back() -> None:
    assert math.isnan(tomllib.loads(toml_text({"limit": math.nan}))["limit"])


def test_what_toml_cannot_say_is_refused() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        toml_text({"limit": None})
