from __future__ import annotations

import numpy as np

from llmprism.ingest.records_as_transfers import records_as_transfers


def test_every_record_is_a_transfer_of_its_own(flow_table) -> None:
    flows = flow_table([("a", "b", 10, 30, 5), ("a", "b", 12, 15, 6), ("b", "a", 1, 2, 7)])
    transfers = records_as_transfers(flows)
    assert transfers.active_ns.tolist() == [20, 3, 1]
    assert transfers.records.tolist() == [1, 1, 1]
    assert transfers.pair_gap_ns.tolist() == [0, 0]
    np.testing.assert_array_equal(transfers.bytes, flows.bytes)
    np.testing.assert_array_equal(transfers.pair_offsets, flows.pair_offsets)
