import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.report import text


@given(st.text())
def test_clean_leaves_no_character_that_acts(name):
    cleaned = text.clean(name)
    assert all(unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for character in cleaned)


@given(st.text(alphabet=st.characters(codec="ascii", categories=["L", "N", "P", "S"])))
def test_clean_keeps_ordinary_text(name):
    assert text.clean(name) == name


def test_clean_shows_what_was_there():
    assert text.clean("a\x1b[2J\u202eb\ud800") == "a\\x1b[2J\\u202eb\\ud800"
    assert text.clean("abcdef", 4) == "abc…"


@pytest.mark.parametrize(
    ("nanoseconds", "expected"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_500, "1.5 µs"),
        (336e6, "336 ms"),
        (1.15e9, "1.15 s"),
        (7.2e12, "2 h"),
        (9e13, "1.04 d"),
    ],
)
def test_durations_take_the_unit_that_fits(nanoseconds, expected):
    assert text.duration(nanoseconds) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0"),
        (1234.5, "1,234"),
        (0.001234, "0.00123"),
        (1.0, "1"),
        (float("nan"), "?"),
        (-2.5, "-2.5"),
        (1e-9, "1.00e-09"),
    ],
)
def test_significant_digits(value, expected):
    assert text.significant(value) == expected


def test_sizes_and_rates():
    assert text.data_size(22_037_036_703) == "22 GB"
    assert text.rate(0.8) == "800 Mb/s"
    assert text.rate(9.1) == "9.1 Gb/s"


def test_moments_are_calendar_time_only_where_the_stamps_are():
    assert text.moment(1_794_706_357_123_456_789, 0) == "01:32:37.123 UTC"
    assert text.moment(1_794_706_357_123_456_789, 0, date=True) == "2026-11-15 01:32:37.123 UTC"
    assert text.moment(5_000_000_000, 2_000_000_000) == "+3 s"


@given(st.lists(st.floats(0, 1e12), max_size=300), st.integers(0, 80), st.booleans())
def test_sparkline_has_one_column_per_value_up_to_the_width(values, width, ascii_only):
    line = text.sparkline(values, width, ascii_only=ascii_only)
    assert len(line) == min(width, len(values))
    assert not ascii_only or line.isascii()


def test_sparkline_never_loses_a_peak():
    values = [1.0] * 500
    values[333] = 9.0
    line = text.sparkline(values, 10)
    assert line.count("█") == 1


def test_a_steady_series_lies_flat_and_low():
    assert text.sparkline([7.0, 7.0, 7.0], 9) == "▃▃▃"
    assert text.sparkline([7.0, 14.0, 7.0], 9) == "▃█▃"
    assert text.sparkline([0.0, 0.0], 9) == "▁▁"
