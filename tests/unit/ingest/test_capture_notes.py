"""What packets say besides their records survives the way through a Parquet file."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import packet_frames as build
from llmprism.errors import FormatError
from llmprism.ingest import convert_flows, read_flows
from llmprism.ingest.capture_notes import METADATA_KEY, decoded, encoded, merged
from llmprism.ingest.fitness import inspect_flows
from llmprism.model.fitness import CongestedPair

T0 = 1_794_706_221_000_000_000
BACK = {"source": "10.0.0.2", "target": "10.0.0.1"}


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    """A WRITE with a lost packet and one sent again; two CNPs and a NAK come back; a SEND loses its Last."""
    write, send = build.write_message(7, 0, 6 * 1024), build.send_message(8, 0, 3 * 1024)
    packets = [*write[:2], *write[3:], write[5], *send[:-1], *build.send_message(8, 3, 2 * 1024)]
    packets += [build.roce(build.CNP, 3, 0, **BACK), build.roce(build.CNP, 3, 0, **BACK)]
    packets += [build.roce(build.ACKNOWLEDGE, 3, 2, syndrome=0x60, **BACK)]
    file = tmp_path / "mirror.pcap"
    file.write_bytes(build.pcap([(T0 + 1_000 * n, build.ethernet(packet)) for n, packet in enumerate(packets)]))
    return file


def test_notes_survive_conversion_and_are_read_back(mirror: Path, tmp_path: Path) -> None:
    convert_flows([mirror], tmp_path / "flows.parquet")
    convert_flows([tmp_path / "flows.parquet"], tmp_path / "again.parquet")
    direct = inspect_flows([mirror]).packets
    assert direct is not None
    assert (direct.messages, direct.estimated, direct.cut) == (3, 1, 0)
    assert (direct.notifications, direct.negative, direct.retransmitted) == (2, 1, 1)
    assert direct.congested == (CongestedPair("10.0.0.1", "10.0.0.2", 2, 1, 1),)
    assert direct.loss == pytest.approx(2 / (direct.packets + 2))
    for name in ("flows.parquet", "again.parquet"):
        assert inspect_flows([tmp_path / name]).packets == direct
        table = read_flows([tmp_path / name])
        assert table.congestion is not None
        assert table.congestion.notifications.sum() == 2


def test_notes_of_several_files_add_up(mirror: Path, tmp_path: Path) -> None:
    convert_flows([mirror], tmp_path / "flows.parquet")
    both = inspect_flows([tmp_path / "flows.parquet", mirror]).packets
    assert both is not None
    assert (both.messages, both.notifications) == (6, 4)


def test_records_without_packets_have_no_notes(mirror: Path, tmp_path: Path) -> None:
    (tmp_path / "flows.csv").write_text("start_ns,end_ns,src,dst,bytes\n1,2,a,b,3\n", encoding="utf-8")
    convert_flows([tmp_path / "flows.csv"], tmp_path / "flows.parquet")
    assert read_flows([tmp_path / "flows.parquet"]).congestion is None
    assert inspect_flows([tmp_path / "flows.parquet"]).packets is None


@pytest.mark.parametrize("text", ["", "7", "[]", "{}", '{"schema": "llmprism.capture/9"}', "[" * 5_000])
def test_broken_notes_are_refused_in_one_line(mirror: Path, tmp_path: Path, text: str) -> None:
    convert_flows([mirror], tmp_path / "flows.parquet")
    table = pq.read_table(tmp_path / "flows.parquet")
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: text}), tmp_path / "broken.parquet")
    with pytest.raises(FormatError, match=METADATA_KEY) as caught:
        read_flows([tmp_path / "broken.parquet"])
    assert str(tmp_path / "broken.parquet") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_counts_must_be_counts(mirror: Path, tmp_path: Path) -> None:
    convert_flows([mirror], tmp_path / "flows.parquet")
    metadata = pq.read_metadata(tmp_path / "flows.parquet").metadata
    text = metadata[METADATA_KEY.encode()].decode()
    notes = decoded(text, "flows")
    assert encoded(notes) == text
    assert merged(notes) is not None
    for spoil in ({"missing": "many"}, {"missing": 1 << 70}, {"missing": None}):
        document = json.loads(text)
        document["captures"][0]["stats"] |= spoil
        with pytest.raises(FormatError):
            decoded(json.dumps(document), "flows")
    document = json.loads(text)
    document["captures"][0]["congestion"]["src"].append("one too many")
    with pytest.raises(FormatError, match="lengths"):
        decoded(json.dumps(document), "flows")
