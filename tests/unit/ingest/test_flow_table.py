"""Order, duplicates and table: the same for all pairs at once and for a part of them."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.ingest.flow_table import flow_table, rows_by_pair
from llmprism.ingest.interning import NUMBERED_BY_EXPORTER, Names

NAMES = Names(("a", "b", "c"), (), ("left", "right"))
SRC, DST = np.array([0, 0, 1], dtype=np.int32), np.array([1, 2, 2], dtype=np.int32)

# start, end, bytes, connection, pair, path, exporter; each of the first two is reported by both exporters
SEEN = [
    (50, 60, 10, 7, 2, -1, 0),
    (50, 60, 10, 7, 2, -1, 1),
    (10, 20, 99, 5, 0, -1, 1),
    (10, 20, 99, 5, 0, -1, 0),
    (5, 9, 1, 5, 0, -1, 0),
    (1, 2, 3, 6, 1, -1, 1),
]


def made(records, low, high, *, several_exporters):
    rows, offsets = rows_by_pair(np.array(records, dtype=NUMBERED_BY_EXPORTER), high - low, low)
    return flow_table(rows, offsets, NAMES, SRC[low:high], DST[low:high], several_exporters=several_exporters)


def test_rows_are_ordered_and_every_transfer_is_there_once():
    table = made(SEEN, 0, 3, several_exporters=True)
    assert table.pair_offsets.tolist() == [0, 2, 3, 4]
    assert table.start_ns.tolist() == [5, 10, 1, 50]
    assert table.bytes.tolist() == [1, 99, 3, 10]
    assert (table.counts.records, table.counts.used, table.counts.dropped) == (6, 4, (("duplicate", 2),))


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 3), (0, 3)])
def test_a_part_of_the_pairs_has_the_rows_of_the_whole(low, high):
    whole = made(SEEN, 0, 3, several_exporters=True)
    part = made([one for one in SEEN if low <= one[4] < high], low, high, several_exporters=True)
    first, last = whole.pair_offsets[[low, high]]
    assert part.start_ns.tolist() == whole.start_ns[first:last].tolist()
    assert part.pair_src.tolist() == whole.pair_src[low:high].tolist()


def test_whether_there_are_several_exporters_is_known_from_all_records():
    alone = [one for one in SEEN if one[6] == 0]
    rows, _ = rows_by_pair(np.array(alone, dtype=NUMBERED_BY_EXPORTER), 3)
    assert not rows.several_exporters
    rows, _ = rows_by_pair(np.array(SEEN, dtype=NUMBERED_BY_EXPORTER), 3)
    assert rows.several_exporters
