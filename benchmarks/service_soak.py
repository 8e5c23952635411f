"""Claim: the service takes 20,000 records a second for ten minutes with flat memory and loses nothing.

Tenants are copies of the bundled healthy capture, enough of them for the rate, played in a loop. Prints, every half
minute, the rate, memory of both processes and how far the windows lie behind; at the end whether
received = stored + dropped, and received = sent, and which findings were told of these healthy jobs. Then offers many
times what can be stored for a while, to see that load is shed, counted, said, and over afterwards.
Usage: python benchmarks/service_soak.py [SECONDS] [RECORDS_PER_S]
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import duckdb

ROOT = Path(__file__).parents[1]
SECOND = 1_000_000_000
LOOP_S = 30
WARM_S = 12
"""The capture's set-up, left out of the loop."""


def slices(folder: Path, rate: int) -> list[Path]:
    """One Parquet file per second of the loop, with the records of all tenants, times from 0."""
    capture = ROOT / "examples" / "pp4dp2tp2" / "flows.parquet"
    database = duckdb.connect()
    first = _one(database, f"SELECT min(end_ns) FROM '{capture}'") + WARM_S * SECOND
    inside = f"end_ns >= {first} AND end_ns < {first + LOOP_S * SECOND}"
    count = _one(database, f"SELECT count(*) FROM '{capture}' WHERE {inside}")
    tenants = -(-rate * LOOP_S // count)
    one = f"SELECT start_ns - {first} AS start_ns, end_ns - {first} AS end_ns, src, dst, bytes, switches, sport, dport"
    database.execute(f"CREATE TABLE base AS {one} FROM '{capture}' WHERE {inside}")
    copies = [_tenant(tenant) for tenant in range(tenants)]
    database.execute(f"CREATE TABLE tenants AS {' UNION ALL '.join(copies)}")
    _topology(folder / "topology.json", tenants)
    files = []
    for second in range(LOOP_S):
        file = folder / f"slice-{second}.parquet"
        part = f"end_ns >= {second * SECOND} AND end_ns < {(second + 1) * SECOND}"
        database.execute(f"COPY (SELECT * FROM tenants WHERE {part}) TO '{file}' (FORMAT parquet)")
        files.append(file)
    print(f"{tenants} tenants of 16 GPUs, {tenants * count / LOOP_S:,.0f} records/s", flush=True)
    return files


def _topology(file: Path, tenants: int) -> None:
    """Every tenant has servers of its own; the switches are shared."""
    one = json.loads((ROOT / "examples" / "pp4dp2tp2" / "topology.json").read_text())
    servers = [
        {
            "name": f"t{tenant}-{server['name']}",
            "nics": [{**nic, "address": f"t{tenant}-{nic['address']}"} for nic in server["nics"]],
        }
        for tenant in range(tenants)
        for server in one["servers"]
    ]
    file.write_text(json.dumps({"servers": servers, "switches": one["switches"]}))


def _tenant(number: int) -> str:
    """A copy of the capture under names of its own, at another point of the loop."""
    late = int(number * 0.37 * SECOND)
    back = f"(CASE WHEN end_ns + {late} >= {LOOP_S * SECOND} THEN {LOOP_S * SECOND} ELSE 0 END)"
    times = f"start_ns + {late} - {back} AS start_ns, end_ns + {late} - {back} AS end_ns"
    return f"SELECT * REPLACE ({times}, 't{number}-' || src AS src, 't{number}-' || dst AS dst) FROM base"


def _one(database: duckdb.DuckDBPyConnection, query: str) -> int:
    row = database.execute(query).fetchone()
    return int(row[0]) if row else 0


class Sender:
    def __init__(self, url: str, files: list[Path], folder: Path) -> None:
        self.url, self.files, self.folder = url, files, folder
        self.database = duckdb.connect()
        self.number = 0
        self.sent = self.refused = 0

    def body(self, second: int, begun_ns: int) -> tuple[bytes, int]:
        """The records of one second of the whole run, with today's times."""
        loop, at = divmod(second, LOOP_S)
        move = begun_ns + loop * LOOP_S * SECOND
        target = self.folder / f"send-{self.number}.parquet"
        moved = f"* REPLACE (start_ns + {move} AS start_ns, end_ns + {move} AS end_ns)"
        self.database.execute(f"COPY (SELECT {moved} FROM '{self.files[at]}') TO '{target}' (FORMAT parquet)")
        count = _one(self.database, f"SELECT count(*) FROM '{target}'")
        data = target.read_bytes()
        target.unlink()
        return data, count

    def push(self, data: bytes, count: int, numbered: bool = True) -> int:
        self.number += 1
        headers = {"content-type": "application/vnd.apache.parquet", "llmprism-records": str(count)}
        if numbered:
            headers |= {"llmprism-producer": "soak", "llmprism-sequence": str(self.number)}
        request = urllib.request.Request(self.url + "/api/v1/flows", data, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                answer.read()
            return 200
        except urllib.error.HTTPError as error:
            return error.code


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.loads(answer.read())


def memory_mb(parent: int) -> dict[str, int]:
    """Resident memory of the service and its children."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if text["Pid"].strip() == str(parent) or text["PPid"].strip() == str(parent):
            found[f"{text['Name'].strip()}-{text['Pid'].strip()}"] = int(text.get("VmRSS", "0 kB").split()[0]) // 1000
    return found


def totals(url: str) -> tuple[int, int, dict[str, int]]:
    received = stored = 0
    dropped: dict[str, int] = {}
    for source in get(url + "/api/v1/sources")["items"]:
        received += source.get("received", 0)
        stored += source.get("stored", 0)
        for reason, count in source["dropped"].items():
            dropped[reason] = dropped.get(reason, 0) + count
    return received, stored, dropped


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    rate = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = slices(folder, rate)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "LLMPRISM_LOG__LEVEL": "warning"}
        environment |= {
            "LLMPRISM_SERVER__REQUESTS_PER_S": "100000",
            "LLMPRISM_HTTP__QUEUE_MB": "2",
            "LLMPRISM_HTTP__MAX_BODY_MB": "2",
        }
        command = [sys.executable, "-m", "llmprism", "serve", "--port", str(port), "--data", str(folder / "data")]
        command += ["-t", str(folder / "topology.json")]
        service = subprocess.Popen(command, env=environment)
        try:
            _wait(url)
            sender = Sender(url, files, folder)
            exact = steady(sender, service.pid, seconds)
            exact &= overload(sender)
        finally:
            service.terminate()
            service.wait()
    sys.exit(not exact)


def _wait(url: str) -> None:
    while True:
        try:
            get(url + "/healthz")
            return
        except OSError:
            time.sleep(0.2)


def steady(sender: Sender, service: int, seconds: int) -> bool:
    begun = time.time_ns()
    slowest = 0.0
    for second in range(seconds):
        data, count = sender.body(second, begun)
        wait = begun + (second + 1) * SECOND - time.time_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        before = time.monotonic()
        while sender.push(data, count) != 200:
            sender.number -= 1
            sender.refused += 1
            time.sleep(0.5)
        sender.sent += count
        slowest = max(slowest, time.monotonic() - before)
        if (second + 1) % 30 == 0:
            window = get(sender.url + "/api/v1/windows?limit=1")["items"]
            took = window[0]["took_ms"] if window else None
            behind = (time.time_ns() - window[0]["end_ns"]) / 1e9 if window else float("nan")
            elapsed = (time.time_ns() - begun) / 1e9
            print(
                f"{second + 1:4} s: {sender.sent / elapsed:,.0f} records/s, window {took} ms, {behind:.0f} s behind, "
                f"slowest push {slowest:.2f} s, refused {sender.refused}, MB {memory_mb(service)}",
                flush=True,
            )
    received, stored, dropped = totals(sender.url)
    exact = received == stored + sum(dropped.values()) and stored == sender.sent
    print(f"sent {sender.sent:,} received {received:,} stored {stored:,} dropped {dropped}: exact {exact}", flush=True)
    print("jobs", {job["id"]: job["state"] for job in get(sender.url + "/api/v1/jobs")["items"]}, flush=True)
    findings = get(sender.url + "/api/v1/findings")["items"]
    print(f"findings {[(one['kind'], one['where']['id'], one['phase']) for one in findings]}", flush=True)
    return exact


def overload(sender: Sender) -> bool:
    """Eight senders at once, each as fast as it can, for twenty seconds; then calm."""
    data, count = sender.body(0, time.time_ns())
    _, already, _ = totals(sender.url)
    until = time.monotonic() + 20
    answers: dict[int, int] = {}

    def hammer() -> None:
        while time.monotonic() < until:
            code = sender.push(data, count, numbered=False)
            answers[code] = answers.get(code, 0) + 1

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(hammer)
        time.sleep(10)
        shown = get(sender.url + "/api/v1/overview")["shedding"]
    time.sleep(3)
    received, stored, dropped = totals(sender.url)
    exact = received == stored + sum(dropped.values())
    offered = count * sum(answers.values()) / 20
    taken = (stored - already) / 20
    print(
        f"overload: {offered:,.0f} records/s offered, {offered / max(taken, 1):.1f} times the {taken:,.0f} that "
        f"could be stored; answers {answers}, shown on the page {shown}",
        flush=True,
    )
    print(f"received {received:,} = stored {stored:,} + dropped {dropped}: {exact}", flush=True)
    time.sleep(35)
    calm = sender.push(data, count, numbered=False)
    shedding = get(sender.url + "/api/v1/overview")["shedding"]
    print(f"afterwards a push answers {calm}, shedding {shedding}", flush=True)
    return exact and calm == 200 and not shedding


if __name__ == "__main__":
    main()
