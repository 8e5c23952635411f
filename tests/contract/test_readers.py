"""Every reader of flow records survives the same hostile inputs and reads the same tables alike.

A reader is a (format, compression). What one of them must do, all must do: only an LLMPrismError escapes, with one line
that names the file; bad rows are counted; the same table gives the same FlowTable.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import packet_frames
from llmprism.errors import ColumnError, FormatError, InputError, LLMPrismError
from llmprism.ingest import ColumnMapping, read_flows
from llmprism.model import FlowTable

Row = dict[str, object]

READERS = ("parquet", "csv", "csv.gz", "csv.zst", "jsonl", "jsonl.gz", "jsonl.zst")
TEXT_READERS = READERS[1:]
FUZZ = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def row(start: object = 1_000, end: object = 2_000, src: object = "a", dst: object = "b", size: object = 10) -> Row:
    return {"start_ns": start, "end_ns": end, "src": src, "dst": dst, "bytes": size}


def write(path: Path, rows: Sequence[Row], kind: str) -> Path:
    """Writes the rows as the given reader expects them. Columns are those of the first row."""
    names = list(rows[0])
    file = path / f"flows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({name: _arrow([r[name] for r in rows]) for name in names}), file)
        return file
    if kind.startswith("jsonl"):
        text = "".join(json.dumps(r) + "\n" for r in rows)
    else:
        text = ",".join(names) + "\n" + "".join(",".join(_field(r[name]) for name in names) + "\n" for r in rows)
    file.write_bytes(compress(text.encode(), kind))
    return file


def compress(data: bytes, kind: str) -> bytes:
    if kind.endswith(".gz"):
        return gzip.compress(data)
    return zstandard.compress(data) if kind.endswith(".zst") else data


def _field(value: object) -> str:
    if value is None:
        return ""
    return ";".join(map(str, value)) if isinstance(value, list) else str(value)


def _arrow(values: list[object]) -> pa.Array:
    mixed = len({type(value) for value in values if value is not None}) > 1
    return pa.array([None if value is None else str(value) for value in values] if mixed else values)


def same(left: FlowTable, right: FlowTable) -> None:
    assert left.addresses == right.addresses
    assert left.paths == right.paths
    assert left.counts == right.counts
    for name in ("pair_src", "pair_dst", "pair_offsets", "start_ns", "end_ns", "bytes", "path"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


def check_invariants(table: FlowTable) -> None:
    counts = table.counts
    assert counts.records == counts.used + sum(count for _, count in counts.dropped)
    assert counts.used == table.start_ns.size == table.pair_offsets[-1]
    assert list(table.addresses) == sorted(set(table.addresses))
    assert (np.diff(table.pair_offsets) > 0).all()
    pair = np.repeat(np.arange(table.pair_src.size), np.diff(table.pair_offsets))
    keys = np.lexsort((table.path, table.bytes, table.end_ns, table.start_ns, pair))
    order = (table.path, table.bytes, table.end_ns, table.start_ns, pair)
    for column in order:
        np.testing.assert_array_equal(column[keys], column)


@pytest.mark.parametrize("kind", READERS)
def test_good_table(tmp_path: Path, kind: str) -> None:
    rows = [
        row(5_000, 6_000, "b", "a", 7) | {"switches": ["leaf0", "spine", "leaf1"]},
        row(1_000, 2_000, "a", "b", 10) | {"switches": ["leaf1"]},
        row(1_000, 1_500, "a", "b", 20) | {"switches": None},
    ]
    table = read_flows([write(tmp_path, rows, kind)])
    assert table.addresses == ("a", "b")
    assert table.paths == (("leaf0", "spine", "leaf1"), ("leaf1",))
    assert table.pair_src.tolist() == [0, 1]
    assert table.pair_dst.tolist() == [1, 0]
    assert table.pair_offsets.tolist() == [0, 2, 3]
    assert table.end_ns.tolist() == [1_500, 2_000, 6_000]
    assert table.bytes.tolist() == [20, 10, 7]
    assert table.path.tolist() == [-1, 1, 0]
    assert table.counts.records == table.counts.used == 3
    check_invariants(table)


BAD_ROWS = [
    ("missing_time", row(start=None)),
    ("missing_time", row(end=None)),
    ("negative_time", row(start=-1)),
    ("missing_address", row(src=None)),
    ("missing_address", row(dst="")),
    ("long_address", row(src="x" * 256)),
    ("same_address", row(dst="a")),
    ("end_before_start", row(start=3_000)),
    ("long_record", row(end=1_000 + 86_400 * 10**9 + 1)),
    ("no_bytes", row(size=None)),
    ("no_bytes", row(size=0)),
    ("no_bytes", row(size=-5)),
    ("huge_bytes", row(size=(1 << 50) + 1)),
]


@pytest.mark.parametrize("kind", READERS)
def test_rows_that_cannot_be_used_are_counted_by_reason(tmp_path: Path, kind: str) -> None:
    rows = [row(), *(bad for _, bad in BAD_ROWS), row(9_000, 9_500)]
    table = read_flows([write(tmp_path, rows, kind)])
    expected: dict[str, int] = {}
    for reason, _ in BAD_ROWS:
        expected[reason] = expected.get(reason, 0) + 1
    assert dict(table.counts.dropped) == expected
    assert table.counts.used == 2
    assert table.addresses == ("a", "b")
    check_invariants(table)


@pytest.mark.parametrize("kind", READERS)
def test_text_in_a_number_column_of_some_rows_is_counted(tmp_path: Path, kind: str) -> None:
    rows = [row(), row(start="soon"), row(size="n/a"), row(end="1e99")]
    table = read_flows([write(tmp_path, rows, kind)])
    assert dict(table.counts.dropped) == {"bad_number": 3}


@pytest.mark.parametrize("kind", READERS)
def test_text_in_a_whole_number_column_is_an_error(tmp_path: Path, kind: str) -> None:
    file = write(tmp_path, [row(start="yesterday"), row(start="today")], kind)
    with pytest.raises(ColumnError, match=r"start_ns.*yesterday") as caught:
        read_flows([file])
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("kind", READERS)
def test_missing_column_names_what_is_there(tmp_path: Path, kind: str) -> None:
    rows = [{"ts": 1, "te": 2, "src": "a", "dst": "b", "octets": 3}]
    file = write(tmp_path, rows, kind)
    with pytest.raises(ColumnError, match=r"start_ns.*octets.*--map"):
        read_flows([file])
    table = read_flows([file], mapping=ColumnMapping.parse("start_ns=ts:ms,end_ns=te:ms,bytes=octets"))
    assert (table.start_ns.tolist(), table.end_ns.tolist(), table.bytes.tolist()) == ([1_000_000], [2_000_000], [3])


@pytest.mark.parametrize("kind", READERS)
def test_no_usable_row_is_an_error(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError, match="none of 1 records"):
        read_flows([write(tmp_path, [row(dst="a")], kind)])


@pytest.mark.parametrize("kind", READERS)
def test_empty_file_is_an_error(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"flows.{kind}"
    file.write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        read_flows([file])
    file.write_bytes(compress(b"", kind) or b"\n")
    with pytest.raises(InputError, match=str(file)):
        read_flows([file])


@pytest.mark.parametrize("kind", READERS)
def test_header_without_rows_is_an_error(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"flows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({name: pa.array([], pa.int64()) for name in row()}), file)
    else:
        file.write_bytes(compress(b"\n" if "jsonl" in kind else b"start_ns,end_ns,src,dst,bytes\n", kind))
    with pytest.raises(InputError, match="no records"):
        read_flows([file])


@pytest.mark.parametrize("kind", [kind for kind in READERS if kind not in ("csv", "jsonl")])
def test_truncated_file_is_an_error(tmp_path: Path, kind: str) -> None:
    rows = [row(start, start + 5, size=start * 7919 % 1_000_003 + 1) for start in range(20_000)]
    file = write(tmp_path, rows, kind)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(FormatError) as caught:
        read_flows([file])
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", TEXT_READERS)
def test_broken_lines_are_counted(tmp_path: Path, kind: str) -> None:
    good = write(tmp_path, [row(), row(5_000, 6_000)], kind.split(".")[0]).read_bytes()
    garbage = b'{"start_ns": 1, \n\x00\x01\x02\n"unbalanced\n1,2\n,,,,,,,\n[1]\nnull\n\xff\xfe\xfd,1,2,3,4\n'
    file = tmp_path / f"garbage.{kind}"
    file.write_bytes(compress(good + garbage + good.splitlines(keepends=True)[-1].replace(b"6000", b"7000"), kind))
    table = read_flows([file])
    assert table.counts.used == 3
    assert dict(table.counts.dropped).get("unreadable", 0) >= 5
    check_invariants(table)


@pytest.mark.parametrize("kind", READERS)
def test_many_files_and_globs(tmp_path: Path, kind: str) -> None:
    for part in range(3):
        (tmp_path / f"part{part}").mkdir()
        write(tmp_path / f"part{part}", [row(1_000 * part, 1_000 * part + 5)], kind)
    table = read_flows([tmp_path / "part*" / f"flows.{kind}", tmp_path / "part0" / f"flows.{kind}"])
    assert table.counts.records == 3
    with pytest.raises(InputError, match="no file matches"):
        read_flows([tmp_path / "nothing*"])
    with pytest.raises(InputError, match="no such file"):
        read_flows([tmp_path / "nothing"])
    with pytest.raises(InputError, match="directory"):
        read_flows([tmp_path])


def test_formats_mix(tmp_path: Path) -> None:
    files = [write(tmp_path, [row(1_000 * n, 1_000 * n + 5)], kind) for n, kind in enumerate(READERS)]
    table = read_flows(files)
    assert table.start_ns.tolist() == [1_000 * n for n in range(len(READERS))]


ADDRESS = st.sampled_from(["10.0.0.1", "10.0.0.2", "fe80::1", "gpu 7", "ünïcode", "it's"])
VALID_ROW = st.builds(
    lambda start, length, src, dst, size, path: (
        row(start, start + length, src, dst, size) | {"switches": path, "sport": 1, "dport": 2}
    ),
    st.integers(0, 2**62),
    st.integers(0, 86_400 * 10**9),
    ADDRESS,
    ADDRESS,
    st.integers(-3, 1 << 51),
    st.one_of(st.none(), st.lists(st.sampled_from(["leaf0", "leaf1", "spine"]), min_size=1, max_size=3)),
)


@FUZZ
@given(rows=st.lists(VALID_ROW, min_size=1, max_size=30))
def test_round_trip_is_equal_across_formats(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    rows = [*rows, row(1, 2, "x", "y", 3) | {"switches": ["leaf0"], "sport": 1, "dport": 2}]
    folder = tmp_path_factory.mktemp("round")
    tables = [read_flows([write(folder, rows, kind)]) for kind in ("parquet", "csv", "jsonl", "csv.gz", "jsonl.zst")]
    check_invariants(tables[0])
    for table in tables[1:]:
        same(tables[0], table)


@pytest.mark.parametrize("kind", READERS)
@FUZZ
@given(data=st.binary(max_size=400))
def test_random_bytes(tmp_path_factory: pytest.TempPathFactory, kind: str, data: bytes) -> None:
    file = tmp_path_factory.mktemp("fuzz") / f"flows.{kind}"
    prefixes = {"parquet": b"PAR1", "csv": b"start_ns,end_ns,src,dst,bytes\n", "jsonl": b'{"start_ns":'}
    for prefix in (b"", prefixes[kind.split(".")[0]]):
        for content in (prefix + data, compress(prefix + data, kind), compress(prefix, kind) + data):
            file.write_bytes(content)
            read_or_refuse(file)


@pytest.mark.parametrize("kind", READERS)
@FUZZ
@given(flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8))
def test_mutated_files(tmp_path_factory: pytest.TempPathFactory, kind: str, flips: list[tuple[int, int]]) -> None:
    folder = tmp_path_factory.mktemp("mutate")
    file = write(folder, [row(n, n + 5) | {"switches": ["leaf0"]} for n in range(20)], kind)
    data = bytearray(file.read_bytes())
    for place, value in flips:
        data[place % len(data)] = value
    file.write_bytes(bytes(data))
    read_or_refuse(file)


PACKETS = ("pcap", "pcapng", "pcap.gz", "pcapng.zst")


def captured(kind: str) -> bytes:
    frames = [(10**18 + 1_000 * n, packet_frames.tcp_frame(100 * n, 100)) for n in range(20)]
    writer = packet_frames.pcapng if kind.startswith("pcapng") else packet_frames.pcap
    return compress(writer(frames), kind)


@pytest.mark.parametrize("kind", PACKETS)
def test_packets_are_recognised_by_content(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "no-suffix"
    file.write_bytes(captured(kind))
    table = read_flows([file])
    assert table.addresses == ("10.0.0.1", "10.0.0.2")
    assert table.bytes.tolist() == [2_000]
    check_invariants(table)


@pytest.mark.parametrize("kind", PACKETS)
@FUZZ
@given(flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=8))
def test_mutated_packets(tmp_path_factory: pytest.TempPathFactory, kind: str, flips: list[tuple[int, int]]) -> None:
    data = bytearray(captured(kind))
    for place, value in flips:
        data[place % len(data)] = value
    file = tmp_path_factory.mktemp("packets") / "capture"
    file.write_bytes(bytes(data))
    read_or_refuse(file)


def read_or_refuse(file: Path) -> None:
    message = ""
    try:
        check_invariants(read_flows([file]))
    except LLMPrismError as error:
        message = str(error)
    assert not message or (str(file) in message and "\n" not in message)
