"""Records of a window from segments, also when one of them is torn, and of some addresses only."""

import pytest

from llmprism.errors import StoreError
from llmprism.ingest import read_flows
from llmprism.model import Window
from llmprism.service.reading import read_members, read_window
from llmprism.service.store import Segment
from support.reports import EXAMPLES

FLOWS = EXAMPLES / "crash" / "flows.parquet"
ALWAYS = Window(0, 2**62)


def segment(path, records=1):
    return Segment(1, path, records, 0, 2**62, 2**62, 0)


def test_a_torn_segment_costs_its_own_records_only(tmp_path):
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(FLOWS.read_bytes()[:5000])
    whole = read_flows([FLOWS])
    found = read_window([segment(FLOWS), segment(torn)], ALWAYS)
    assert found.start_ns.size == whole.start_ns.size
    assert read_window([segment(torn)], ALWAYS) is None
    assert read_window([segment(tmp_path / "gone.parquet")], ALWAYS) is None


def test_only_the_records_of_some_addresses_are_read(tmp_path):
    whole = read_flows([FLOWS])
    wanted = whole.addresses[0]
    found, count = read_members([segment(FLOWS)], ALWAYS, [wanted], tmp_path, 10**6)
    assert count == found.counts.records
    ends = zip(found.pair_src.tolist(), found.pair_dst.tolist(), strict=True)
    assert all(wanted in (found.addresses[one], found.addresses[other]) for one, other in ends)
    assert 0 < found.start_ns.size < whole.start_ns.size
    everybody, _ = read_members([segment(FLOWS)], ALWAYS, whole.addresses, tmp_path, 10**6)
    assert everybody.start_ns.size == whole.start_ns.size
    assert read_members([segment(FLOWS)], ALWAYS, whole.addresses, tmp_path, 10) == (None, 25_090), "too many"
    assert read_members([segment(FLOWS)], ALWAYS, ["it's nobody"], tmp_path, 10**6) == (None, 0)
    assert list(tmp_path.iterdir()) == []


def test_trouble_that_is_no_torn_file_is_not_hidden(tmp_path, monkeypatch):
    from llmprism.errors import InputError
    from llmprism.service import reading

    def broken(_paths):
        raise InputError("no memory")

    monkeypatch.setattr(reading, "read_flows", broken)
    with pytest.raises(StoreError):
        read_window([segment(FLOWS)], ALWAYS)
