"""Records come out of the buckets as they went into the spool, from memory and from files."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.ingest.bucket_store import Buckets, Spool
from llmprism.ingest.interning import NUMBERED, NUMBERED_BY_EXPORTER, Ids

PAIRS, PATHS, EXPORTERS = 9, 4, 3


@pytest.mark.parametrize("spilled", [False, True])
@pytest.mark.parametrize("kind", [NUMBERED, NUMBERED_BY_EXPORTER])
def test_every_record_is_dealt_once(kind: np.dtype[np.void], spilled: bool) -> None:
    rng = np.random.default_rng(0)
    records = np.zeros(200, dtype=kind)
    for name, most in zip(kind.names or (), (99, 99, 99, 99, PAIRS, PATHS, EXPORTERS), strict=False):
        records[name] = rng.integers(0, most, records.size)
    pair, path, exporter = (rng.permutation(count).astype(np.int32) for count in (PAIRS, PATHS, EXPORTERS))
    ends = np.zeros(PAIRS, dtype=np.int32)
    ids = Ids(pair, path, exporter if "exporter" in (kind.names or ()) else exporter[:0], ends, ends)
    expected = records.copy()
    ids.put_into(expected)

    spool = Spool(spilled=spilled)
    for block in np.split(records, [20, 20, 90]):
        spool.add(block.copy())
    bucket_of_pair = np.array([0, 0, 0, 1, 2, 2, 2, 2, 3], dtype=np.int32)
    sizes = np.bincount(bucket_of_pair[expected["pair"]], minlength=4)
    buckets = Buckets(sizes, spool.kind, spilled=spilled)
    for block in spool.blocks():
        buckets.deal(block, ids, bucket_of_pair)
    assert not list(spool.blocks())
    for number in range(4):
        dealt = buckets.take(number)
        assert dealt.dtype == kind
        np.testing.assert_array_equal(dealt, expected[bucket_of_pair[expected["pair"]] == number])
