import duckdb
import pytest

from llmprism.errors import OutputError
from llmprism.report import timeline_parquet
from support.reports import EXAMPLES, HOSTILE, empty_report, report_from_capture, tiny_report

COLUMNS = ["job", "address", "step", "kind", "start_ns", "end_ns", "peer", "bytes"]


def read(path):
    return duckdb.read_parquet(str(path))


def test_columns_and_rows_are_those_of_the_contract(tmp_path):
    path = tmp_path / "it's a timeline.parquet"
    timeline_parquet.write(tiny_report(), path)
    table = read(path)
    assert table.columns == COLUMNS
    start = 1_794_706_357_000_000_000
    assert table.fetchall() == [
        ("10.0.0.1", "10.0.0.1", 1, "compute", start + 5 * 10**9, start + 57 * 10**8, None, 0),
        ("10.0.0.1", "10.0.0.1", 1, "dp", start + 57 * 10**8, start + 6 * 10**9, "10.0.0.2", 123_456),
        ("10.0.0.1", "10.0.0.2", None, "idle", start, start + 10**9, None, 0),
    ]


def test_every_event_of_every_job_is_there_in_order(tmp_path):
    report = report_from_capture(EXAMPLES / "pp4dp2tp2")
    path = tmp_path / "t.parquet"
    timeline_parquet.write(report, path)
    events = report.jobs[0].timeline.events
    assert [row[0] for row in read(path).project("start_ns").fetchall()] == events.start_ns.tolist()


def test_an_empty_timeline_has_the_columns_and_types(tmp_path):
    timeline_parquet.write(empty_report(), tmp_path / "t.parquet")
    table = read(tmp_path / "t.parquet")
    assert table.columns == COLUMNS
    assert [str(kind) for kind in table.types] == [
        "VARCHAR", "VARCHAR", "INTEGER", "VARCHAR", "BIGINT", "BIGINT", "VARCHAR", "BIGINT",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [HOSTILE, "\ud800", "a\x00b"])
def test_odd_names_are_written(tmp_path, name):
    timeline_parquet.write(tiny_report(name), tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").count("*").fetchall() == [(3,)]


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path):
    with pytest.raises(OutputError, match="cannot write"):
        timeline_parquet.write(tiny_report(), tmp_path / "no" / "such" / "t.parquet")
