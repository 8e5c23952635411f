"""What collectors write is recognised by its columns and read with the right units."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llmprism.errors import ColumnError
from llmprism.ingest import ColumnMapping, read_flows
from llmprism.ingest.collectors import COLLECTORS, collector_named, mappings_for

SECOND = 1_794_714_228
NS = 1_000_000_000
GOFLOW2 = {
    "type": "SFLOW_5",
    "time_received_ns": 1,
    "time_flow_start_ns": SECOND * NS + 5,
    "time_flow_end_ns": SECOND * NS + 9,
    "src_addr": "10.0.0.1",
    "dst_addr": "10.0.0.2",
    "src_port": 1,
    "dst_port": 2,
    "proto": "TCP",
    "bytes": 30,
    "packets": 1,
    "sampling_rate": 1000,
    "sampler_address": "192.0.2.1",
}
PMACCT = {
    "event_type": "purge",
    "ip_src": "10.0.0.1",
    "ip_dst": "10.0.0.2",
    "port_src": 1,
    "port_dst": 2,
    "ip_proto": "tcp",
    "timestamp_start": "2026-11-15 03:43:48.000005",
    "timestamp_end": "2026-11-15 03:43:49.000000",
    "packets": 1,
    "bytes": 30,
}
ZEEK = {
    "ts": SECOND + 0.5,
    "id.orig_h": "10.0.0.1",
    "id.orig_p": 1,
    "id.resp_h": "10.0.0.2",
    "id.resp_p": 2,
    "proto": "tcp",
    "duration": 0.25,
    "orig_bytes": 30,
    "resp_bytes": 40,
    "orig_pkts": 1,
    "resp_pkts": 1,
}
GCP = {
    "jsonPayload": {
        "connection": {"src_ip": "10.0.0.1", "dest_ip": "10.0.0.2", "src_port": 1, "dest_port": 2, "protocol": 6},
        "start_time": "2026-11-15T03:43:48.5Z",
        "end_time": "2026-11-15T03:43:49Z",
        "bytes_sent": "30",
    }
}
Row = tuple[str, str, int, int, int]


def rows(file: Path, **options: object) -> list[Row]:
    """(src, dst, start, end, bytes), times relative to SECOND."""
    table = read_flows([file], **options)  # type: ignore[arg-type]
    found = []
    for pair in range(table.pair_src.size):
        for row in range(table.pair_offsets[pair], table.pair_offsets[pair + 1]):
            ends = table.addresses[table.pair_src[pair]], table.addresses[table.pair_dst[pair]]
            times = int(table.start_ns[row]) - SECOND * NS, int(table.end_ns[row]) - SECOND * NS
            found.append((*ends, *times, int(table.bytes[row])))
    return found


def lines(path: Path, *documents: object) -> Path:
    file = path / "flows.json"
    file.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
    return file


FORWARD = ("10.0.0.1", "10.0.0.2")


def test_goflow2_file_and_kafka_message(tmp_path: Path) -> None:
    expected = [(*FORWARD, 5, 9, 30_000)]
    assert rows(lines(tmp_path, GOFLOW2)) == expected
    message = {"topic": "flows", "partition": 0, "offset": 7, "payload": json.dumps(GOFLOW2)}
    assert rows(lines(tmp_path, message)) == expected


def test_pmacct_json(tmp_path: Path) -> None:
    assert rows(lines(tmp_path, PMACCT)) == [(*FORWARD, 5_000, NS, 30)]
    seconds = PMACCT | {"timestamp_start": f"{SECOND}.000005", "timestamp_end": f"{SECOND + 1}.000000"}
    assert rows(lines(tmp_path, seconds)) == [(*FORWARD, 5_000, NS, 30)]
    no_end = PMACCT | {"timestamp_end": "0000-00-00 00:00:00.000000"}
    assert rows(lines(tmp_path, no_end)) == [(*FORWARD, 5_000, 5_000, 30)]


def test_nfdump_csv_of_both_generations(tmp_path: Path) -> None:
    file = tmp_path / "flows.csv"
    file.write_text(
        "ts,te,td,sa,da,sp,dp,pr,flg,ipkt,ibyt,ra\n"
        "2026-11-15 03:43:48,2026-11-15 03:43:49,1.000,10.0.0.1,10.0.0.2,1,2,TCP,...AP...,1,30,192.0.2.1\n"
        "Summary\nflows,bytes,packets,avg_bps,avg_pps,avg_bpp\n1,30,1,1,1,1\n",
        encoding="utf-8",
    )
    assert rows(file) == [(*FORWARD, 0, NS, 30)]
    file.write_text(
        "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows\n"
        "2026-11-15 03:43:48.250,0.500,TCP,10.0.0.1,1,10.0.0.2,2,1,30,1\n",
        encoding="utf-8",
    )
    assert rows(file) == [(*FORWARD, NS // 4, NS * 3 // 4, 30)]


def test_zeek_json_has_two_directions(tmp_path: Path) -> None:
    both = [(*FORWARD, NS // 2, NS * 3 // 4, 30), ("10.0.0.2", "10.0.0.1", NS // 2, NS * 3 // 4, 40)]
    assert rows(lines(tmp_path, ZEEK)) == both


def test_zeek_tsv(tmp_path: Path) -> None:
    file = tmp_path / "conn.log"
    ends = ["id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p"]
    names = ["ts", "uid", *ends, "proto", "service", "duration", "orig_bytes", "resp_bytes"]
    values = f"{SECOND}.500000 C1 10.0.0.1 1 10.0.0.2 2 tcp - 0.250000 30 40".split()
    unset = f"{SECOND}.500000 C2 10.0.0.3 1 10.0.0.2 2 tcp - - - -".split()
    body = ["#separator \\x09", "#set_separator\t,", "#path\tconn", "\t".join(["#fields", *names]), "#types\ttime"]
    body += ["\t".join(values), "\t".join(unset), "#close\t2026-11-15-03-43-48"]
    file.write_text("\n".join(body) + "\n", encoding="utf-8")
    assert rows(file) == [
        (*FORWARD, NS // 2, NS * 3 // 4, 30),
        ("10.0.0.2", "10.0.0.1", NS // 2, NS * 3 // 4, 40),
    ]
    assert dict(read_flows([file]).counts.dropped) == {"no_bytes": 2}


def test_cloud_flow_logs(tmp_path: Path) -> None:
    aws = tmp_path / "aws.log"
    aws.write_text(
        "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action "
        "log-status\n"
        f"2 123 eni-1 10.0.0.1 10.0.0.2 1 2 6 5 30 {SECOND} {SECOND + 60} ACCEPT OK\n"
        f"2 123 eni-1 - - - - - - - {SECOND} {SECOND + 60} - NODATA\n",
        encoding="utf-8",
    )
    assert rows(aws) == [(*FORWARD, 0, 60 * NS, 30)]
    assert rows(lines(tmp_path, GCP)) == [(*FORWARD, NS // 2, NS, 30)]
    azure = tmp_path / "azure.csv"
    azure.write_text(
        "FlowStartTime,FlowEndTime,SrcIp,DestIp,SrcPort,DestPort,BytesSrcToDest,BytesDestToSrc\n"
        "2026-11-15T03:43:48Z,2026-11-15T03:43:49Z,10.0.0.1,10.0.0.2,1,2,30,40\n",
        encoding="utf-8",
    )
    assert [row[4] for row in rows(azure)] == [30, 40]


def test_forcing_and_overriding(tmp_path: Path) -> None:
    file = lines(tmp_path, GOFLOW2 | {"octets": 7})
    assert rows(file, mapping=ColumnMapping.parse("bytes=octets"))[0][4] == 7_000
    with pytest.raises(ColumnError, match="timestamp_start"):
        rows(file, format="pmacct")


def test_the_contract_wins_over_any_collector() -> None:
    names = ["start_ns", "end_ns", "src", "dst", "bytes", *COLLECTORS[0].signature]
    assert mappings_for(names, ColumnMapping(), None) == (ColumnMapping(),)


def test_names_are_unique_and_mappings_parse() -> None:
    assert len({collector.name for collector in COLLECTORS}) == len(COLLECTORS)
    for collector in COLLECTORS:
        assert collector_named(collector.name) is collector
        for text in collector.mappings:
            targets = {target for target, _ in ColumnMapping.parse(text).sources}
            assert {"start_ns", "src", "dst"} <= targets
