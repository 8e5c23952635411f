"""The unit of time stamps, which says how fine the moments of two members can be compared."""

import pytest

from llmprism.parallelism.peer_signs import _stamp_unit_ns
from unit.builders import Flow, transfer_table

US = 1_000


def flows(count, last):
    """Two pairs whose stamps are whole microseconds, but for the end of the very last transfer; the second pair is
    shifted by a clock that is off by less than that."""
    times = [(100_000 * US * i, 100_000 * US * i + 2 * US) for i in range(count)]
    shifted = [(start + 7, end + 7) for start, end in times]
    shifted[-1] = shifted[-1][0], shifted[-1][1] + last
    return [Flow("a", "b", *both, 10**6) for both in times] + [Flow("b", "c", *both, 10**6) for both in shifted]


@pytest.mark.parametrize(("last", "unit"), [(0, 2 * US), (US, US), (500, 500), (1, 1)])
@pytest.mark.parametrize("count", [2, 5, 50, 203])
def test_the_unit_divides_all_stamps_of_a_pair_the_last_one_too(last, unit, count):
    assert _stamp_unit_ns(transfer_table(flows(count, last))) == unit


def test_where_nothing_lasts_there_is_no_unit():
    empty = transfer_table([Flow("a", "b", 5, 5, 10**6)])
    assert _stamp_unit_ns(empty) == 0
