"""Windows wait for partitions that may still bring records, and for no others."""

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")

from llmprism.service.workers.shared_store import PartitionMark, awaited, common_mark

S = 10**9
NOW = 1_000 * S
IDLE = 3 * S


def partition(latest, stored_ago=0.0, empty_ago=None):
    return PartitionMark(latest, int(NOW - stored_ago * S), 0 if empty_ago is None else int(NOW - empty_ago * S))


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ([], 0),
        ([partition(50), partition(40)], 40),
        ([partition(50), partition(0, stored_ago=1000)], 0),
        ([partition(50), partition(40, stored_ago=10, empty_ago=1)], 50),
        ([partition(50), partition(40, stored_ago=1, empty_ago=0.5)], 40),
        ([partition(50), partition(40, stored_ago=30, empty_ago=20)], 40),
        ([partition(50, stored_ago=9, empty_ago=1), partition(40, stored_ago=10, empty_ago=1)], 50),
        ([partition(50), PartitionMark(0, 0, NOW - S)], 50),
    ],
    ids=["none", "the slowest", "never read", "empty for a while", "just empty", "owner gone", "all empty", "unused"],
)
def test_the_common_mark(marks, expected):
    assert common_mark(marks, NOW, IDLE) == expected


def test_a_partition_without_an_owner_is_waited_for():
    lost = partition(40, stored_ago=600, empty_ago=600)
    assert awaited([partition(50, stored_ago=9, empty_ago=1), lost], NOW, IDLE) == [lost]
