"""Three workers need a Kafka cluster, a database, and a cluster with more than one job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import confluent_kafka as kafka
import duckdb
import sqlalchemy as sql

from llmprism.service.config import WindowSettings
from llmprism.service.workers import tables
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
    """A worker, not started. Workers of one `folder` share it and are one consumer group."""
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
    )
    made.data = folder / "data"
    return made


def last_due_window(url: str) -> int:
    """The end of the last window that the records stored so far allow, by the default rules."""
    engine = sql.create_engine(url)
    with engine.connect() as connection:
        latest = connection.execute(sql.select(sql.func.min(tables.partitions.c.latest_ns))).scalar() or 0
    engine.dispose()
    rules = WindowSettings().rules()
    return (latest - rules.lateness) // rules.hop * rules.hop
