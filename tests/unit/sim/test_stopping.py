"""What ranks do, and what they no longer do, once one of them hangs or dies, or once the job ends."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

from llmprism.score import Truth, read_truth
from llmprism.sim import parse_scenario, simulate

RING = """
seconds = 12
[cluster]
servers = 4
gpus_per_server = 1
[[job]]
name = "a"
dp = 4
overlap = false
gradient_mb = {gradient_mb}
compute_jitter = 0.0
step_jitter = 0.0
{more}
"""

FAULT = """
[[fault]]
kind = "{kind}"
job = "a"
rank = 1
at_s = 5
"""

SPREAD_NS = 300_000_000


def played(folder: Path, kind: str = "", gradient_mb: float = 100.0, more: str = "") -> Truth:
    text = RING.format(gradient_mb=gradient_mb, more=more) + (FAULT.format(kind=kind) if kind else "")
    simulate(parse_scenario("stops", text), folder)
    return read_truth(folder / "truth.json.gz")


def bytes_after(folder: Path, moment_ns: int, src: str, dst: str = "", least: int = 4096) -> float:
    """Bytes of training messages that begin after a moment, from one member (to another)."""
    to = f"AND dst = '{dst}'" if dst else ""
    query = f"SELECT coalesce(sum(bytes), 0) FROM '{folder / 'flows.parquet'}' WHERE src = '{src}' {to} "
    return float(duckdb.sql(f"{query} AND start_ns >= {moment_ns} AND bytes >= {least}").fetchall()[0][0])


@pytest.mark.parametrize("kind", ["hang", "crash", "crash_restart"])
def test_who_stops_sends_nothing_more(kind: str, tmp_path: Path) -> None:
    truth = played(tmp_path, kind)
    fault = truth.faults[0]
    victim = str(fault.where.id)
    back_ns = int(fault.end_ns) if fault.end_ns is not None else 1 << 62
    query = f"SELECT max(end_ns) FROM '{tmp_path / 'flows.parquet'}' WHERE src = '{victim}' AND bytes >= 4096"
    last = duckdb.sql(f"{query} AND start_ns < {back_ns}").fetchall()[0][0]
    assert last <= fault.start_ns + 1_000_000


def test_the_others_begin_a_collective_that_one_never_joins(tmp_path: Path) -> None:
    """Each of them sends what needs nothing of the absent one, and to that one what fits into buffers."""
    truth = played(tmp_path, "hang")
    victim = str(truth.faults[0].where.id)
    hops = {src: dst for src, dst, kind in truth.jobs[0].pairs or () if kind == "dp"}
    after = {src: bytes_after(tmp_path, truth.faults[0].start_ns, src, dst) for src, dst in hops.items()}
    assert after[victim] == 0
    others = {src: sent for src, sent in after.items() if src != victim}
    assert all(sent > 0 for sent in others.values())
    before_victim = next(src for src, dst in hops.items() if dst == victim)
    assert others[before_victim] < 4.5e6 < min(sent for src, sent in others.items() if src != before_victim)


def test_nobody_talks_to_a_dead_rank(tmp_path: Path) -> None:
    """Not even by heartbeats; a rank that hangs is written to, and beats on."""
    for kind, talks in (("crash", False), ("crash_restart", False), ("hang", True)):
        folder = tmp_path / kind
        truth = played(folder, kind)
        victim, since = str(truth.faults[0].where.id), truth.faults[0].start_ns
        query = f"SELECT count(*) FROM '{folder / 'flows.parquet'}' WHERE (src = '{victim}' OR dst = '{victim}')"
        until = since + 1_500_000_000
        seen = duckdb.sql(f"{query} AND start_ns BETWEEN {since + 2_000_000} AND {until}").fetchall()[0][0]
        assert (seen > 0) is talks, kind


def test_a_message_that_is_under_way_breaks_off_at_a_death(tmp_path: Path) -> None:
    """A collective of two seconds, in the middle of which a member dies: its hops end then, the others soon after."""
    truth = played(tmp_path, "crash", gradient_mb=20_000.0, more="compute_ms = 10")
    victim, since = str(truth.faults[0].where.id), truth.faults[0].start_ns
    table = duckdb.sql(f"SELECT src, max(end_ns) FROM '{tmp_path / 'flows.parquet'}' WHERE bytes >= 4096 GROUP BY src")
    last = dict(table.fetchall())
    assert last[victim] == pytest.approx(since, abs=5_000_000)
    assert max(last.values()) <= since + SPREAD_NS


PIPELINE = """
seconds = 4.52
seed = 44012
[cluster]
gpus_per_server = 2
servers_per_pod = 4
nic_gbps = 5.0
storage_nodes = 8
[[job]]
name = "main"
tp = 2
pp = 4
micro_batches = 3
sharding = "zero1"
activation_mb = 0.199
gradient_mb = 2.47
compute_ms = 9.75
optimizer_ms = 0.367
setup_factor = 1.0
checkpoint_every = 8
variable_length = 0.2
data_jitter_ms = 16.2
host_jitter_ms = 2.44
batched_sends = true
gradient_norm = false
step_jitter = 0.002
layers = 4
buckets = 1
collective = "tree"
tp_mb = 0.199
checkpoint_mb = 254.0
start_s = -0.404896418
stop_s = {stop}
"""


def test_all_members_of_a_job_that_ends_do_the_same_steps(tmp_path: Path) -> None:
    """Also where some of them are told to stop while they write a checkpoint."""
    for stop in np.arange(2.7, 2.72, 0.001).tolist():
        folder = tmp_path / f"{stop:.2f}"
        simulate(parse_scenario("ends", PIPELINE.format(stop=stop)), folder)
        truth = read_truth(folder / "truth.json.gz")
        members = ", ".join(f"'{member}'" for member in truth.jobs[0].members)
        query = f"SELECT max(start_ns) FROM '{folder / 'flows.parquet'}' WHERE bytes >= 4096 AND dst IN ({members})"
        assert duckdb.sql(query).fetchall()[0][0] <= truth.jobs[0].step_end_ns[-1], stop
