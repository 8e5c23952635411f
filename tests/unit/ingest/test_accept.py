"""What the live service keeps of a batch: totals over all exporters, and only the columns that somebody sent."""

import duckdb
import pytest

from llmprism.ingest.accept import FilesOfSource, TimeBounds, accept_flows, accept_parts
from llmprism.ingest.database import open_database

ROWS = """
start_ns,end_ns,src,dst,bytes,exporter{extra}
100,200,a,b,1000,leaf1{value}
150,260,b,a,1000,leaf1{value}
120,230,a,c,1000,leaf2{value}
300,250,a,c,1000,leaf2{value}
110,220,c,a,-5,leaf2{value}
"""


def written(tmp_path, extra="", value=""):
    text, file = tmp_path / "rows.csv", tmp_path / f"rows{len(extra)}.parquet"
    text.write_text(ROWS.format(extra=extra, value=value).strip() + "\n")
    duckdb.sql(f"COPY (FROM read_csv('{text}')) TO '{file}' (FORMAT parquet)")
    return file


def columns(file):
    return [row[0] for row in duckdb.sql(f"DESCRIBE SELECT * FROM '{file}'").fetchall()]


def test_totals_are_those_of_all_exporters_together(tmp_path):
    target = tmp_path / "kept.parquet"
    found = accept_flows([written(tmp_path)], target, TimeBounds(0, 2**62))
    assert (found.records, found.stored, sum(count for _, count in found.dropped)) == (5, 3, 2)
    assert (found.start_ns, found.end_ns, found.first_end_ns) == (100, 260, 200)
    assert duckdb.sql(f"SELECT count(*), min(end_ns), max(end_ns) FROM '{target}'").fetchall() == [(3, 200, 260)]


@pytest.mark.parametrize("late", [0, 240])
def test_totals_after_one_exporter_was_moved(tmp_path, late):
    """20 ns are taken off the times of the second exporter, and what then ends after 250 is from the future."""
    target = tmp_path / "kept.parquet"

    def judge(arrivals):
        assert [(one.exporter, one.records, one.first_ns, one.last_ns) for one in arrivals] == [
            ("leaf1", 2, 200, 260),
            ("leaf2", 1, 230, 230),
        ]
        return [TimeBounds(0, 250, late, 0, 20 if one.exporter == "leaf2" else 0) for one in arrivals]

    with open_database() as (connection, spill):
        (found,) = accept_parts(connection, spill, [FilesOfSource("http", (written(tmp_path),))], target, judge)
    assert (found.records, found.stored, found.late) == (5, 2, 2 if late else 0)
    assert dict(found.dropped)["future"] == 1
    assert (found.start_ns, found.end_ns) == (100, 210)


def test_columns_that_nobody_sent_are_left_out(tmp_path):
    bare, full = tmp_path / "bare.parquet", tmp_path / "full.parquet"
    accept_flows([written(tmp_path)], bare, TimeBounds(0, 2**62))
    accept_flows([written(tmp_path, ",protocol,packets", ",udp,7")], full, TimeBounds(0, 2**62))
    assert {"protocol", "packets"}.isdisjoint(columns(bare))
    assert {"protocol", "packets"} <= set(columns(full))
    assert "exporter" in columns(bare)
    again = accept_flows([bare, full], tmp_path / "both.parquet", TimeBounds(0, 2**62))
    assert again.stored == 6
