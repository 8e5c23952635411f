"""Bad input, end to end: one clear line on stderr and exit code 1, or a warning and the report."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from llmprism.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "crash"
FLOWS = EXAMPLE / "flows.parquet"


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pq.read_table(FLOWS)


def refused(capfd: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that the command refuses this input with."""
    assert main(["diagnose", *map(str, arguments), "--json", "-"]) == 1
    shown = capfd.readouterr()
    assert shown.out == ""
    assert re.fullmatch(r"error\[\w+\]: [^\n]+\n", shown.err), shown.err
    return shown.err


def diagnosed(capfd: pytest.CaptureFixture[str], *arguments: object) -> dict:
    assert main(["diagnose", *map(str, arguments), "--json", "-"]) == 0
    return json.loads(capfd.readouterr().out)


def test_no_such_column(tmp_path: Path, table: pa.Table, capfd: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "renamed.parquet"
    pq.write_table(table.rename_columns(["octets" if c == "bytes" else c for c in table.column_names]), bad)
    line = refused(capfd, bad)
    assert "error[column]" in line
    assert "'bytes'" in line or " bytes" in line
    assert diagnosed(capfd, bad, "--map", "bytes=octets")["jobs"]


def test_empty_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("empty.parquet", "empty.csv", "empty.jsonl"):
        (tmp_path / name).write_bytes(b"")
        assert name in refused(capfd, tmp_path / name)


def test_a_table_without_rows(tmp_path: Path, table: pa.Table, capfd: pytest.CaptureFixture[str]) -> None:
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    assert "none.parquet" in refused(capfd, tmp_path / "none.parquet")


def test_text_in_a_number_column(tmp_path: Path, table: pa.Table, capfd: pytest.CaptureFixture[str]) -> None:
    names = pa.array(["many"] * table.num_rows)
    place = table.column_names.index("bytes")
    pq.write_table(table.set_column(place, "bytes", names), tmp_path / "text.parquet")
    assert "bytes" in refused(capfd, tmp_path / "text.parquet")


def test_a_truncated_parquet_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    whole = FLOWS.read_bytes()
    for share in (0.1, 0.9, 0.999):
        bad = tmp_path / f"cut{share}.parquet"
        bad.write_bytes(whole[: int(share * len(whole))])
        assert bad.name in refused(capfd, bad)


def test_a_folder_instead_of_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    refused(capfd, tmp_path)


def test_a_glob_that_matches_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    refused(capfd, tmp_path / "*.parquet")


def test_one_bad_file_among_good_ones(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing of the sort PAR1")
    assert "bad.parquet" in refused(capfd, FLOWS, tmp_path / "bad.parquet")


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"servers": 5}', '{"servers": [{"name": 7}]}'])
def test_a_topology_that_is_none(tmp_path: Path, text: str, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "topology.json").write_text(text)
    assert "topology.json" in refused(capfd, FLOWS, "--topology", tmp_path / "topology.json")


def test_a_topology_that_names_nobody_warns_and_goes_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stranger = tmp_path / "topology.json"
    stranger.write_text(
        json.dumps({"servers": [{"name": "s", "nics": [{"address": "192.0.2.1", "gpu": 0}]}], "switches": []})
    )
    assert main(["diagnose", str(FLOWS), "--topology", str(stranger), "--json", str(tmp_path / "r.json")]) == 0
    shown = capfd.readouterr()
    assert "names none of the addresses" in " ".join((shown.out + shown.err).split())
    result = json.loads((tmp_path / "r.json").read_text())
    without = diagnosed(capfd, FLOWS)
    assert result["jobs"] == without["jobs"]
    assert result["findings"] == without["findings"]


def test_garbage_rows_are_counted_and_change_nothing(
    tmp_path: Path, table: pa.Table, capfd: pytest.CaptureFixture[str]
) -> None:
    good = table.select(["start_ns", "end_ns", "src", "dst", "bytes"])
    first = good.slice(0, 1).to_pylist()[0]
    garbage = [
        first | {"start_ns": None},
        first | {"start_ns": -5},
        first | {"end_ns": first["start_ns"] - 1},
        first | {"bytes": -1},
        first | {"bytes": 1 << 60},
        first | {"dst": first["src"]},
        first | {"src": None},
    ]
    mixed = tmp_path / "mixed.parquet"
    pq.write_table(pa.concat_tables([good, pa.Table.from_pylist(garbage, schema=good.schema)]), mixed)
    clean = tmp_path / "clean.parquet"
    pq.write_table(good, clean)
    with_garbage, without = diagnosed(capfd, mixed), diagnosed(capfd, clean)
    assert with_garbage["jobs"] == without["jobs"]
    assert with_garbage["findings"] == without["findings"]
    assert with_garbage["window"] == without["window"]
    counted, alone = with_garbage["input"], without["input"]
    assert counted["records"] == alone["records"] + len(garbage)
    assert counted["used"] == alone["used"]
    assert sum(counted["dropped"].values()) == sum(alone["dropped"].values()) + len(garbage)
    assert len(set(counted["dropped"]) - set(alone["dropped"])) >= 4, "by reason"


def test_rows_in_any_order_give_the_same_report(
    tmp_path: Path, table: pa.Table, capfd: pytest.CaptureFixture[str]
) -> None:
    """Shuffled, and as CSV: what is told does not hang on how it was written."""
    good = table.select(["start_ns", "end_ns", "src", "dst", "bytes"])
    reverse = tmp_path / "reverse.csv"
    pyarrow.csv.write_csv(good.take(pa.array(range(good.num_rows - 1, -1, -1))), reverse)
    straight = tmp_path / "straight.parquet"
    pq.write_table(good, straight)
    assert diagnosed(capfd, reverse) == diagnosed(capfd, straight)
