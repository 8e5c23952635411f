"""Many tenants for benchmarks of the service: copies of the bundled healthy capture, played in a loop.

Every tenant has 16 GPUs and names of its own and stands at another point of the loop; the switches are shared. The loop
is cut at the ends of steps, so that a job steps on evenly where it begins again, and every message is moved by chance a
little in each round: what repeats to the nanosecond is no job's step but a recording's end.
"""

from __future__ import annotations

import json
from pathlib import Path

import duckdb

from llmprism.ingest import read_flows, read_topology
from llmprism.pipeline import diagnose

ROOT = Path(__file__).parents[1]
CAPTURE = ROOT / "examples" / "pp4dp2tp2"
SECOND = 1_000_000_000
BEGIN = 1_790_000_000 * SECOND
SETUP_STEPS = 3
"""Steps at the beginning of the capture that are left out: its set-up."""

APART_NS = 370_000_000
"""How far tenants are apart in the loop."""

JITTER_NS = 3_000_000
"""How far a message is moved by chance, at most: a two-hundredth of a step."""

SLOWER = 4
"""How many times longer the messages of the slow NIC take."""


def loop_of(capture: Path) -> tuple[int, int]:
    """(start, end) of the whole steps of a capture."""
    report = diagnose(read_flows([capture / "flows.parquet"]), read_topology(capture / "topology.json"))
    steps = report.jobs[0].timeline.steps
    return int(steps.end_ns[SETUP_STEPS]), int(steps.end_ns[-1])


class Tenants:
    """`count` tenants, or enough of them for `rate` records a second. From `slow_from_s` on the first GPU of the first
    tenant sends slowly."""

    def __init__(self, folder: Path, rate: int, count: int = 0, slow_from_s: int | None = None) -> None:
        flows, (first, last) = CAPTURE / "flows.parquet", loop_of(CAPTURE)
        self._database = duckdb.connect()
        self._loop_ns = last - first
        records = self._one(f"SELECT count(*) FROM '{flows}' WHERE end_ns > {first} AND end_ns <= {last}")
        per_s = records / self._loop_ns * SECOND
        self.count = count or round(rate / per_s) or 1
        self.rate = self.count * per_s
        self._slow_ns = slow_from_s * SECOND if slow_from_s is not None else None
        self._database.execute(
            "CREATE TABLE moved AS SELECT tenant, 't' || tenant || '-' || src AS src, "
            "'t' || tenant || '-' || dst AS dst, bytes, switches, sport, dport, end_ns - start_ns AS length, "
            f"end_ns - {first} + tenant * {APART_NS} AS at_ns, at_ns % {self._loop_ns} AS phase "
            f"FROM '{flows}', range({self.count}) AS t(tenant) WHERE end_ns > {first} AND end_ns <= {last} "
            "ORDER BY phase"
        )
        self._slow_src = self._text(f"SELECT 't0-' || min(src) FROM '{flows}'")
        self._topology(folder / "topology.json")

    def _one(self, query: str) -> int:
        row = self._database.execute(query).fetchone()
        return int(row[0]) if row else 0

    def _text(self, query: str) -> str:
        row = self._database.execute(query).fetchone()
        return str(row[0]) if row else ""

    def _topology(self, file: Path) -> None:
        one = json.loads((CAPTURE / "topology.json").read_text())
        servers = [
            {
                "name": f"t{tenant}-{server['name']}",
                "nics": [{**nic, "address": f"t{tenant}-{nic['address']}"} for nic in server["nics"]],
            }
            for tenant in range(self.count)
            for server in one["servers"]
        ]
        file.write_text(json.dumps({"servers": servers, "switches": one["switches"]}))

    def _select(self, start_s: int, end_s: int, where: str) -> str:
        """The records that end in these seconds of the run (fewer than a loop)."""
        start, end, loop = start_s * SECOND, end_s * SECOND, self._loop_ns
        length = "length"
        if self._slow_ns is not None and start >= self._slow_ns:
            length = f"(CASE WHEN src = '{self._slow_src}' THEN {SLOWER} * length ELSE length END)"
        far = 1_000 * loop  # division of integers rounds towards zero
        round_of = f"(({end} + {far} - at_ns) // {loop} - 1000)"
        chance = f"(hash(src, dst, at_ns // {JITTER_NS}, {round_of}) % {JITTER_NS})::BIGINT"
        now = f"at_ns + {round_of} * {loop} - {chance}"
        low, high = start % loop, end % loop
        near = f"phase > {low} {'AND' if low < high else 'OR'} phase <= {high}"  # the others are not of this second
        return (
            f"SELECT {BEGIN} + now_ns - {length} AS start_ns, {BEGIN} + now_ns AS end_ns, src, dst, bytes, switches, "
            f"sport, dport FROM (SELECT *, {chance} AS chance, {now} AS now_ns FROM moved WHERE {near}) "
            f"WHERE now_ns + chance > {start} AND {where}"
        )

    def body(
        self, folder: Path, second: int, share: int = 0, shares: int = 1, without: int | None = None
    ) -> tuple[Path, int]:
        """(Parquet file, records) that one of `shares` producers sends for this second, `without` one tenant."""
        file = folder / f"body-{second}-{share}.parquet"
        where = f"tenant % {shares} = {share}" if shares > 1 else "true"
        where += "" if without is None else f" AND tenant <> {without}"
        query = self._select(second, second + 1, where)
        count = self._one(f"COPY ({query}) TO '{file}' (FORMAT parquet)")
        return file, count

    def write(self, file: Path, start: int, end: int) -> int:
        """All records of these seconds in one file."""
        queries = " UNION ALL ".join(self._select(second, second + 1, "true") for second in range(start, end))
        return self._one(f"COPY ({queries}) TO '{file}' (FORMAT parquet)")
