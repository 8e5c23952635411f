"""Three workers need a Kafka cluster, a database, and a cluster with more than one job."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import confluent_kafka as kafka
import duckdb
import sqlalchemy as sql

from llmprism.service.config import Config, WindowSettings
from llmprism.service.intake import Intake, Payload
from llmprism.service.workers import coordinator_tables
from llmprism.service.workers.evaluating_process import Worker
from llmprism.service.workers.shared_store import UNREAD, SharedStore
from running_service import left_behind
from support.live_cluster import BEGIN, write_records
from support.reports import EXAMPLES
from support.service import RunningService

CAPTURES = ("crash", "slow_nic", "crash")
"""The jobs of the cluster: captures under addresses of their own, beginning shortly after each other."""

BEGIN_NS = 1_790_000_000 * 10**9
APART_NS = 250_000_000


class MockKafka:
    """librdkafka's built-in cluster: its brokers are sockets on loopback that other processes reach too."""

    partitions = 4

    def __init__(self) -> None:
        self._helper = kafka.Producer({"test.mock.num.brokers": 1})
        brokers = self._helper.list_topics(timeout=10).brokers.values()
        self.brokers = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)


def busy_cluster(folder: Path, captures: tuple[str, ...] = CAPTURES) -> tuple[Path, Path, int]:
    """Flows and topology of several jobs at once, and the number of records."""
    topology: dict[str, list[Any]] = {"servers": [], "switches": []}
    parts = []
    for number, name in enumerate(captures):
        source = EXAMPLES / name
        net, tag, begin = f"{20 + number}.", f"c{number}-", BEGIN_NS + number * APART_NS
        found = json.loads((source / "topology.json").read_text())
        for server in found["servers"]:
            nics = [
                {**nic, "address": nic["address"].replace("10.", net, 1), "switch": tag + nic["switch"]}
                for nic in server["nics"]
            ]
            topology["servers"].append({"name": tag + server["name"], "nics": nics})
        topology["switches"] += [{**switch, "name": tag + switch["name"]} for switch in found["switches"]]
        file = source / "flows.parquet"
        parts.append(
            f"SELECT start_ns - first + {begin} AS start_ns, end_ns - first + {begin} AS end_ns, "
            f"regexp_replace(src, '^10\\.', '{net}') AS src, regexp_replace(dst, '^10\\.', '{net}') AS dst, bytes, "
            f"list_transform(switches, lambda name: '{tag}' || name) AS switches, sport, dport "
            f"FROM read_parquet('{file}'), (SELECT min(start_ns) AS first FROM read_parquet('{file}'))"
        )
    flows, places = folder / "flows.parquet", folder / "topology.json"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({' UNION ALL '.join(parts)}) TO '{flows}' (FORMAT parquet)")
        (records,) = connection.execute(f"SELECT count(*) FROM read_parquet('{flows}')").fetchone() or (0,)
    places.write_text(json.dumps(topology))
    return flows, places, records


def worker(
    folder: Path, name: str, brokers: str, database: str, topology: Path, share_records: int = 1000
) -> RunningService:
    """A worker, not started. Workers of one `folder` share it and are one consumer group. Their windows do not follow
    the speed of the machine, so that those of two groups can be compared on a busy one."""
    own = folder / name
    own.mkdir(parents=True)
    config = own / "worker.toml"
    group = folder.name
    config.write_text(f'[[kafka]]\nbrokers = "{brokers}"\ntopic = "flows"\ngroup = "{group}"\nbatch_s = 0.5\n')
    made = RunningService(
        own,
        "--config",
        str(config),
        "--topology",
        str(topology),
        STORE__URL=database,
        WORKERS__ENABLED="true",
        WORKERS__NAME=name,
        WORKERS__SESSION_S=6,
        WORKERS__SHARE_RECORDS=share_records,
        WINDOWS__IDLE_AFTER_S=1e6,
        WINDOWS__FIXED_HOP="true",
    )
    made.data = folder / "data"
    return made


class Topics:
    """Records of partitions, taken in by a worker at a time of the test's own, and its windows."""

    def __init__(self, store: SharedStore, config: Config, folder: Path) -> None:
        self.second = 0
        self.store, self.folder, self.config = store, folder, config
        self.intake = Intake(store, config, self.now_ns)
        self.thread = threading.Thread(target=self.intake.run)
        self.thread.start()
        self.worker = Worker(store, config, now_ns=self.now_ns)
        self.positions: dict[str, int] = {}

    def now_ns(self) -> int:
        return BEGIN + self.second * 10**9

    def send(self, partition: str, records: list[Any]) -> None:
        file = self.folder / f"{len(list(self.folder.iterdir()))}.parquet"
        with duckdb.connect() as database:
            write_records(database, file, records, 0.0)
        first = self.positions.get(partition, UNREAD)
        self.positions[partition] = max(first, 0) + len(records)
        positions = (("0", f"{first}:{self.positions[partition]}"),)
        self.intake.put(Payload(partition, file, file.stat().st_size, positions), wait=True).result()

    def make_windows(self) -> None:
        while self.worker.advance():
            pass

    def close(self) -> None:
        self.intake.stop()
        self.thread.join()


def last_due_window(url: str) -> int:
    """The end of the last window that the records stored so far allow, by the default rules."""
    engine = sql.create_engine(url)
    with engine.connect() as connection:
        latest = connection.execute(sql.select(sql.func.min(coordinator_tables.partitions.c.latest_ns))).scalar() or 0
    engine.dispose()
    rules = WindowSettings().rules()
    return (latest - rules.lateness) // rules.hop * rules.hop


WHEN = ("late", "unseen", "clock", "exporters")
"""What depends on when the records came."""


def results(running: RunningService) -> dict[str, Any]:
    """Everything that a run leaves behind, except when and by whom it was computed."""
    return left_behind(running.get, running.get("/api/v1/windows?limit=1000")["items"], WHEN)


def stored(running: RunningService) -> int:
    return sum(one.get("stored", 0) for one in running.get("/api/v1/sources")["items"])


def until_all_is_looked_at(running: RunningService, url: str, records: int) -> None:
    """Waits until so many records are stored and the last window that they make due is made."""
    running.until(lambda: stored(running) == records, 120)
    end = last_due_window(url)
    running.until(lambda: running.get("/api/v1/windows")["items"][0]["end_ns"] >= end, 120)
