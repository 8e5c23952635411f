"""What read_flows does beyond what every reader must do (see tests/contract/test_readers.py)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llmprism.errors import ColumnError, FormatError, LimitError, UsageError
from llmprism.ingest import ColumnMapping, read_flows

CAPTURES = Path(__file__).parents[3] / "../shared/data/captures"
HEADER = "start_ns,end_ns,src,dst,bytes"


def csv(path: Path, text: str, name: str = "flows.csv") -> Path:
    file = path / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.skipif(not CAPTURES.exists(), reason="the real captures are not here")
def test_real_captures_keep_every_record_and_byte() -> None:
    for file in sorted(CAPTURES.glob("*/flows.parquet")):
        table = read_flows([file])
        columns = "count(*), sum(bytes), min(start_ns), max(end_ns), count(DISTINCT (src, dst))"
        with duckdb.connect() as connection:
            truth = connection.execute(f"SELECT {columns} FROM read_parquet(?)", [str(file)]).fetchone()
        window = table.window
        assert truth == (table.counts.used, table.bytes.sum(), window.start_ns, window.end_ns, table.pair_src.size)
        assert table.counts.dropped == ()
        assert (table.path >= 0).all()


@pytest.mark.skipif(not CAPTURES.exists(), reason="the real captures are not here")
def test_a_second_exporter_changes_nothing(tmp_path: Path) -> None:
    """Every record of a real capture again, from another exporter whose clock is 1.7 ms ahead."""
    file, twice = CAPTURES / "pp4dp2tp2/flows.parquet", tmp_path / "twice.parquet"
    with duckdb.connect() as connection:
        later = "* REPLACE (start_ns + 1700000 AS start_ns, end_ns + 1700000 AS end_ns), 'spine' AS exporter"
        connection.execute(
            f"COPY (SELECT *, 'leaf' AS exporter FROM '{file}' UNION ALL SELECT {later} FROM '{file}') TO '{twice}'"
        )
    once, both = read_flows([file]), read_flows([twice])
    assert both.counts.records == 2 * once.counts.records
    assert abs(both.counts.used - once.counts.used) <= 0.001 * once.counts.used
    assert abs(int(both.bytes.sum()) - int(once.bytes.sum())) <= 0.001 * once.bytes.sum()


def test_quotes_tabs_semicolons_and_byte_order_mark(tmp_path: Path) -> None:
    quoted = csv(tmp_path, '\ufeff"start_ns","end_ns","src","dst","bytes"\n"1","2","a,x","b","3"\n')
    assert read_flows([quoted]).addresses == ("a,x", "b")
    for delimiter in "\t;|":
        other = csv(tmp_path, f"{HEADER}\r\n1,2,a,b,3\r\n".replace(",", delimiter))
        assert read_flows([other]).bytes.tolist() == [3]


def test_a_stray_quote_costs_one_line(tmp_path: Path) -> None:
    rows = "".join(f"{n},{n + 1},a,b,3\n" for n in range(50))
    table = read_flows([csv(tmp_path, f'{HEADER}\n{rows}1,"\n{rows.replace("a", "c")}')])
    assert table.counts.used == 100
    assert table.counts.dropped == (("unreadable", 1),)


def test_units(tmp_path: Path) -> None:
    file = csv(
        tmp_path, "t,d,src,dst,bytes\n2026-11-15T03:43:48.123456789Z,0.5,a,b,3\n2026-11-15T05:43:48+02:00,,a,b,3\n"
    )
    table = read_flows([file], mapping=ColumnMapping.parse("start_ns=t:iso,duration_ns=d:s"))
    second = 1_794_714_228_000_000_000
    assert table.start_ns.tolist() == [second, second + 123_456_789]
    assert (table.end_ns - table.start_ns).tolist() == [0, 500_000_000]


def test_seconds_keep_their_nanoseconds(tmp_path: Path) -> None:
    file = csv(tmp_path, f"{HEADER}\n1794706211.001127784,1794706211.001127785,a,b,3\n")
    table = read_flows([file], mapping=ColumnMapping.parse("start_ns=start_ns:s,end_ns=end_ns:s"))
    assert table.start_ns.tolist() == [1_794_706_211_001_127_784]


def test_sampling_multiplies_bytes(tmp_path: Path) -> None:
    file = csv(tmp_path, f"{HEADER},rate\n1,2,a,b,3,1000\n3,4,a,b,5,\n")
    assert read_flows([file], mapping=ColumnMapping.parse("sampling=rate")).bytes.tolist() == [3000, 5]


def test_nested_json(tmp_path: Path) -> None:
    file = csv(tmp_path, '{"t":{"a":1,"b":2},"src":"x","dst":"y","bytes":3}\n', "flows.jsonl")
    table = read_flows([file], mapping=ColumnMapping.parse("start_ns=t.a,end_ns=t.b"))
    assert table.end_ns.tolist() == [2]


def test_format_is_recognised_by_content_and_may_be_forced(tmp_path: Path) -> None:
    file = csv(tmp_path, f"{HEADER}\n1,2,a,b,3\n", "flows.parquet")
    assert read_flows([file]).counts.used == 1
    with pytest.raises(FormatError, match="PAR1"):
        read_flows([file], format="parquet")
    with pytest.raises(ColumnError):
        read_flows([file], format="jsonl")
    with pytest.raises(UsageError, match="unknown format"):
        read_flows([file], format="xls")


def test_names_that_look_like_globs(tmp_path: Path) -> None:
    csv(tmp_path, f"{HEADER}\n9,9,a,b,3\n", "xy.csv")
    file = csv(tmp_path, f"{HEADER}\n1,2,a,b,3\n", "[x]*?'.csv")
    assert read_flows([file]).start_ns.tolist() == [1]


def test_result_does_not_depend_on_row_order(tmp_path: Path) -> None:
    lines = [f"{n % 7},{n % 7 + n % 3},h{n % 5},h{n % 4 + 5},{n % 6 + 1}" for n in range(200)]
    one = read_flows([csv(tmp_path, "\n".join([HEADER, *lines]))])
    two = read_flows([csv(tmp_path, "\n".join([HEADER, *lines[::-1]]))])
    for name in ("pair_src", "pair_dst", "pair_offsets", "start_ns", "end_ns", "bytes", "path"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_progress_rises_to_one(tmp_path: Path) -> None:
    seen: list[float] = []
    read_flows([csv(tmp_path, f"{HEADER}\n1,2,a,b,3\n")], progress=seen.append)
    assert seen[-1] == 1.0
    assert seen == sorted(seen)


def test_memory_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = csv(tmp_path, f"{HEADER}\n1,2,a,b,3\n3,4,a,b,3\n")
    assert read_flows([file], memory_limit="500MB").counts.used == 2
    with pytest.raises(UsageError, match="memory limit"):
        read_flows([file], memory_limit="much")
    monkeypatch.setattr("llmprism.limits.MAX_RECORDS", 1)
    with pytest.raises(LimitError, match="at most 1"):
        read_flows([file])


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("start_ns", pa.array([1_000, 2_000], pa.uint64())),
        ("start_ns", pa.array([1_000.0, 2_000.0], pa.float64())),
        ("start_ns", pa.array([1_000, 2_000], pa.timestamp("ns"))),
        ("start_ns", pa.array([1, 2], pa.timestamp("us", tz="UTC"))),
        ("start_ns", pa.array(["1000", "2000"])),
        ("start_ns", pa.array([Decimal(1_000), Decimal(2_000)], pa.decimal128(20, 0))),
        ("bytes", pa.array([7, 7], pa.uint8())),
        ("src", pa.array(["a", "a"]).dictionary_encode()),
        ("src", pa.array(["a", "a"], pa.large_string())),
        ("src", pa.array([b"a", b"a"], pa.binary())),
        ("switches", pa.array([["leaf0"], ["leaf0"]], pa.large_list(pa.string()))),
        ("switches", pa.array(["leaf0", "leaf0"])),
        ("sport", pa.array(["x", None])),
        ("sport", pa.array([1 << 40, -5])),
    ],
)
def test_parquet_types_that_others_write(tmp_path: Path, column: str, values: pa.Array) -> None:
    columns = {
        "start_ns": pa.array([1_000, 2_000]),
        "end_ns": pa.array([5_000, 6_000]),
        "src": pa.array(["a", "a"]),
        "dst": pa.array(["b", "b"]),
        "bytes": pa.array([7, 7]),
        "dport": pa.array([1, 2]),
    }
    pq.write_table(pa.table(columns | {column: values}), tmp_path / "flows.parquet")
    table = read_flows([tmp_path / "flows.parquet"])
    assert table.start_ns.tolist() == [1_000, 2_000]
    assert (table.addresses, table.bytes.tolist()) == (("a", "b"), [7, 7])
    assert table.paths == ((("leaf0",),) if column == "switches" else ())


def test_odd_paths_are_unknown_or_marked(tmp_path: Path) -> None:
    columns = {
        "start_ns": [1, 2, 3, 4],
        "end_ns": [5, 6, 7, 8],
        "src": ["a"] * 4,
        "dst": ["b"] * 4,
        "bytes": [7] * 4,
        "switches": [[], ["x"] * 100, ["x", None], None],
    }
    pq.write_table(pa.table(columns), tmp_path / "flows.parquet")
    table = read_flows([tmp_path / "flows.parquet"])
    assert table.path.tolist() == [-1, -1, 0, -1]
    assert table.paths == (("x", "?"),)
