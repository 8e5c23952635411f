"""What is wrong with a service's surroundings, and what to do about it: the checks of `llmprism doctor`.

Each check is a function of the settings that returns its results; a check that fails to run is a result too. Nothing is
changed: folders are looked at, the database is read, addresses are connected to and nothing is sent to them.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import sqlalchemy as sql

from llmprism import __version__
from llmprism.errors import LLMPrismError
from llmprism.ingest import read_topology
from llmprism.service import schema
from llmprism.service.clock_of_source import Clock
from llmprism.service.config import Config
from llmprism.service.database import open_engine, translated
from llmprism.service.rules import RULES
from llmprism.service.source_clocks import clock_sentences
from llmprism.service.sources.directory import mapping_of, settled_files
from llmprism.service.store import SQLITE_FILE

__all__ = ["CheckLevel", "Result", "check_answers", "examine"]

LOW_DISK_BYTES: Final = 5e9
"""Less free space than this is a few hours of records of a busy cluster."""

CONNECT_S: Final = 3.0
OLD_FILES: Final = 20_000
RECENT_NS: Final = 3_600 * 10**9

PACKAGES: Final = {
    "numpy": "",
    "duckdb": "",
    "numba": "",
    "fastapi": "",
    "sqlalchemy": "",
    "uvicorn": "",
    "zstandard": "zstd bodies are refused without it",
    "pyarrow": "Arrow bodies are refused without it",
    "psycopg": "needed for PostgreSQL",
    "confluent-kafka": "needed for Kafka topics",
}


class CheckLevel(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Result:
    """`advice` says what to do; empty where there is nothing to do."""

    level: CheckLevel
    subject: str
    text: str
    advice: str = ""


Check = Callable[[Config], Iterator[Result]]


def examine(config: Config) -> list[Result]:
    """All checks, in the order of the data's way."""
    found: list[Result] = []
    for check in (_versions, _access, _folder, _database, _topology, _directories, _kafka, _receivers):
        try:
            found += check(config)
        except (LLMPrismError, OSError, ValueError) as error:
            found.append(
                Result(CheckLevel.PROBLEM, check.__name__.strip("_"), str(error), "correct this and ask again")
            )
    return found


def _versions(config: Config) -> Iterator[Result]:
    text = f"llmprism {__version__}, Python {sys.version.split()[0]}"
    missing = []
    for name, why in PACKAGES.items():
        try:
            text += f", {name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            missing.append((name, why))
    yield Result(CheckLevel.OK, "versions", text)
    wanted = {"psycopg": config.store.url.startswith("postgresql"), "confluent-kafka": bool(config.kafka)}
    for name, why in missing:
        level = CheckLevel.PROBLEM if wanted.get(name, not why) else CheckLevel.OK
        yield Result(level, "versions", f"{name} is not installed" + (f": {why}" if why else ""), f"pip install {name}")


def _access(config: Config) -> Iterator[Result]:
    where = f"{config.server.host}:{config.server.port}"
    if config.public() and not config.token:
        yield Result(CheckLevel.WARNING, "access", f"{where} is reachable from elsewhere and only the proxy guards it")
    elif not config.token:
        yield Result(CheckLevel.OK, "access", f"{where} answers this machine only, without tokens")
    else:
        scopes = sorted({scope for token in config.token for scope in token.scopes})
        yield Result(CheckLevel.OK, "access", f"{where} with {len(config.token)} tokens ({', '.join(scopes)})")


def _folder(config: Config) -> Iterator[Result]:
    folder = Path(config.store.folder)
    if not folder.exists():
        parent = next(one for one in (folder, *folder.absolute().parents) if one.exists())
        free = shutil.disk_usage(parent).free
        yield Result(CheckLevel.OK, "disk", f"{folder} will be made; {free / 1e9:.0f} GB free")
        return
    usage = shutil.disk_usage(folder)
    flows = sum(file.stat().st_size for file in (folder / "flows").rglob("*.parquet"))
    text = f"{folder}: {flows / 1e9:.2f} GB of records kept for {config.store.keep_flows_h:.0f} h, "
    text += f"{usage.free / 1e9:.0f} GB free"
    low = usage.free < max(LOW_DISK_BYTES, flows / 2)
    advice = "make room, or lower store.keep_flows_h" if low else ""
    yield Result(CheckLevel.WARNING if low else CheckLevel.OK, "disk", text, advice)
    try:
        probe = folder / ".doctor"
        probe.touch()
        probe.unlink()
    except OSError as error:
        yield Result(
            CheckLevel.PROBLEM, "disk", f"{folder} cannot be written ({error.strerror})", "check its owner and mount"
        )


def _database(config: Config) -> Iterator[Result]:
    file = Path(config.store.folder) / SQLITE_FILE
    if not config.store.url and not file.exists():
        yield Result(CheckLevel.OK, "database", f"{file} will be made")
        return
    engine = open_engine(config.store.url or f"sqlite:///{file}")
    begun = time.monotonic()
    try:
        with translated(), engine.connect() as connection:
            query = sql.select(schema.state.c.value).where(schema.state.c.name == "schema")
            if not sql.inspect(connection).has_table("state"):
                yield Result(CheckLevel.OK, "database", "it answers; the tables will be made")
                return
            found = connection.execute(query).scalar()
            took = time.monotonic() - begun
            yield Result(CheckLevel.OK, "database", f"it answers in {1000 * took:.0f} ms, schema {found}")
            if found is not None and int(found) != schema.SCHEMA_VERSION:
                text = f"schema {found} was made by another version; this one writes {schema.SCHEMA_VERSION}"
                yield Result(
                    CheckLevel.PROBLEM, "database", text, "run the version that made it, or begin with a new one"
                )
                return
            yield from _history(connection)
    finally:
        engine.dispose()


def _history(connection: sql.Connection) -> Iterator[Result]:
    inspector = sql.inspect(connection)
    row = connection.execute(
        sql.select(schema.windows.c.wall_ns, schema.windows.c.end_ns, schema.windows.c.took_ms)
        .order_by(schema.windows.c.end_ns.desc())
        .limit(1)
    ).first()
    if row is not None:
        age = (time.time_ns() - row.wall_ns) / 1e9
        text = f"the last window was made {age:,.0f} s ago and took {row.took_ms} ms"
        level = CheckLevel.WARNING if age > 120 else CheckLevel.OK
        yield Result(level, "windows", text, "is the service running, and do records come?" if age > 120 else "")
    if inspector.has_table("clocks"):
        yield from _clocks(connection)
    rows = connection.execute(sql.select(schema.outbox.c.id).where(schema.outbox.c.status == "dead")).all()
    if rows:
        text = f"{len(rows)} messages could not be delivered"
        yield Result(CheckLevel.WARNING, "alerts", text, "see /api/v1/admin/dead-letters, and check the receivers")


def _clocks(connection: sql.Connection) -> Iterator[Result]:
    import json

    from llmprism.service.clock_of_source import ClockState

    texts = connection.execute(sql.select(schema.clocks.c.document)).scalars().all()
    clocks = [Clock(**{**item, "state": ClockState(item["state"])}) for item in map(json.loads, texts)]
    sentences = clock_sentences(clocks, time.time_ns(), RECENT_NS, RULES)
    if clocks and not sentences:
        yield Result(CheckLevel.OK, "clocks", f"{len(clocks)} sources and exporters agree on the time")
    for sentence in sentences:
        yield Result(CheckLevel.WARNING, "clocks", sentence, "set the clock (NTP, chrony) where it is wrong")


def _topology(config: Config) -> Iterator[Result]:
    if not config.topology.file:
        yield Result(
            CheckLevel.WARNING, "topology", "none is given: servers and switches cannot be named", "llmprism topology"
        )
        return
    topology = read_topology(config.topology.file)
    yield Result(CheckLevel.OK, "topology", f"{len(topology.servers)} servers, {len(topology.switches)} switches")


def _directories(config: Config) -> Iterator[Result]:
    for settings in config.directory:
        folder = Path(settings.path)
        mapping_of(settings.map)
        if not folder.is_dir():
            yield Result(
                CheckLevel.PROBLEM, "source", f"directory {folder} does not exist", "make it, or correct its path"
            )
            continue
        files, waiting = settled_files(folder, settings.settle_s, time.time())
        text = f"directory {folder}: {len(files)} files, {waiting} being written"
        many = len(files) > OLD_FILES and settings.after == "keep"
        advice = 'set after = "delete", or move old files away' if many else ""
        yield Result(CheckLevel.WARNING if many else CheckLevel.OK, "source", text, advice)


def _kafka(config: Config) -> Iterator[Result]:
    for settings in config.kafka:
        import confluent_kafka

        admin: Any = confluent_kafka.Consumer({"bootstrap.servers": settings.brokers, "group.id": settings.group})
        try:
            topic = admin.list_topics(settings.topic, CONNECT_S).topics.get(settings.topic)
            partitions = len(topic.partitions) if topic is not None and topic.error is None else 0
        except confluent_kafka.KafkaException as error:
            text = f"kafka {settings.brokers} does not answer ({error})"
            yield Result(CheckLevel.PROBLEM, "source", text, "check brokers, network and listeners")
            continue
        finally:
            admin.close()
        name = f"kafka topic {settings.topic}"
        if partitions:
            yield Result(CheckLevel.OK, "source", f"{name}: {partitions} partitions")
        else:
            yield Result(CheckLevel.PROBLEM, "source", f"{name} does not exist", "make it, or correct its name")


def _receivers(config: Config) -> Iterator[Result]:
    for url in (*config.alerts.alertmanager, *config.alerts.webhook):
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        try:
            socket.create_connection((host, port), CONNECT_S).close()
        except OSError as error:
            yield Result(
                CheckLevel.PROBLEM, "alerts", f"{host}:{port} cannot be reached ({error})", "check the receiver"
            )
        else:
            yield Result(CheckLevel.OK, "alerts", f"{host}:{port} can be reached")


def check_answers(ready: dict[str, Any], overview: dict[str, Any] | None, now_ns: int) -> list[Result]:
    """What a running service says of itself: its readiness, and its overview where that may be read."""
    found = [Result(CheckLevel.PROBLEM, "service", text, "see its log") for text in ready.get("troubles", [])]
    if not found:
        found.append(Result(CheckLevel.OK, "service", "it is ready"))
    if overview is None:
        return [*found, Result(CheckLevel.WARNING, "service", "its overview needs a token", "set LLMPRISM_TOKEN")]
    skew = (now_ns - overview["now_ns"]) / 1e9
    if abs(skew) > 5:
        text = f"its clock and this machine's differ by {skew:.0f} s"
        found.append(Result(CheckLevel.WARNING, "clocks", text, "set the clock (NTP, chrony) where it is wrong"))
    window = overview.get("window")
    if window:
        age = (overview["now_ns"] - window["wall_ns"]) / 1e9
        late = age > 60
        text = f"the last window ({window['records']:,} records) was made {age:.0f} s ago"
        advice = "do records come? see the sources" if late else ""
        found.append(Result(CheckLevel.WARNING if late else CheckLevel.OK, "windows", text, advice))
    found += [Result(CheckLevel.WARNING, "clocks", text, "set its clock") for text in overview.get("clocks", [])]
    for source in overview.get("sources", []):
        found += _source(source)
    if overview.get("shedding"):
        text = "pushes are being turned away"
        found.append(Result(CheckLevel.PROBLEM, "service", text, "send less often, in larger batches, or add workers"))
    return found


def _source(source: dict[str, Any]) -> Iterator[Result]:
    """A source's counts; loss is a warning."""
    if source["name"] == "service":
        if source.get("seconds_left_out"):
            text = f"{source['seconds_left_out']:,} s were never looked at: windows could not keep up"
            yield Result(CheckLevel.WARNING, "windows", text, "a faster machine, or workers")
        return
    received, dropped = source.get("received", 0), sum(source["dropped"].values())
    clock = source.get("clock") or {}
    text = f"{source['name']}: {received:,} records, {dropped:,} dropped, {source.get('unseen', 0):,} never looked at"
    if clock:
        text += f", {clock['records_per_s']:,.0f}/s, {clock['lag_s']:.1f} s old on arrival"
    share = (dropped + source.get("unseen", 0)) / max(received, 1)
    reasons = ", ".join(sorted(source["dropped"]))
    advice = f"see why: {reasons or 'they come too late'}" if share > 0.01 else ""
    yield Result(CheckLevel.WARNING if share > 0.01 else CheckLevel.OK, "source", text, advice)
