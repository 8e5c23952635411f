"""One typed configuration of the service: a TOML file, overridden by the environment, checked before anything starts.

    [server]                      # where the API and the page listen
    host = "127.0.0.1"
    port = 8642
    [store]
    folder = "/var/lib/llmprism"  # raw flows, and the SQLite file unless `url` names a PostgreSQL database
    [topology]
    file = "/etc/llmprism/topology.json"
    [[directory]]
    path = "/var/spool/flows"
    [[token]]
    name = "collector"
    sha256 = "…"                  # `llmprism config token` makes one
    scopes = ["ingest"]

Every field below is a setting of the same name in the section of the same name. `LLMPRISM_SERVER__PORT=9000` overrides
`[server] port`. A key that does not exist is refused with the nearest one that does.
"""

from __future__ import annotations

import difflib
import tomllib
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from llmprism.errors import ConfigError
from llmprism.service.joblogs.options import JobLogSettings
from llmprism.service.windows import WindowRules
from llmprism.units import SECOND

__all__ = [
    "AlertSettings",
    "Config",
    "DirectorySettings",
    "HttpSettings",
    "JobLogSettings",
    "KafkaSettings",
    "LogSettings",
    "ServerSettings",
    "StoreSettings",
    "Token",
    "TopologySettings",
    "WindowSettings",
    "WorkerSettings",
    "load_config",
    "parse_config",
]

ENVIRONMENT_PREFIX: Final = "LLMPRISM_"
SCOPES: Final = ("read", "ingest", "admin")
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
MAX_CONFIG_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """`trusted_proxy`: a proxy in front does the authentication. `requests_per_s`: per client, in bursts of five
    seconds' worth; a page with its live updates needs about two."""

    host: str = "127.0.0.1"
    port: int = 8642
    allowed_hosts: tuple[str, ...] = ()
    trusted_proxy: bool = False
    requests_per_s: float = 50.0


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """`url`: empty for SQLite in `folder`, else a SQLAlchemy URL of a PostgreSQL database. `batch_records`: records of
    one body or file at most; `intake_memory_mb`: what unpacking them may take (about 300 bytes a record)."""

    folder: str = "llmprism-data"
    url: str = ""
    keep_flows_h: float = 24.0
    keep_history_d: float = 30.0
    batch_records: int = 5_000_000
    intake_memory_mb: float = 2_000.0


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """In seconds; see `windows.WindowRules`. `idle_after_s`: without any record for so long, time passes anyway.
    `busy`: share of the time that making windows may take before they are made less often; `per_million_s`: processor
    time that they may take per million records, once a window has half a million. `fixed_hop`: windows are made every
    `hop_s` whatever they take, the same ones on every machine; one that is too slow falls behind. `compile_ahead`: on a
    new installation the code that windows need is compiled before the service is ready."""

    length_s: float = 60.0
    hop_s: float = 4.0
    lateness_s: float = 2.0
    longest_s: float = 960.0
    steps: int = 8
    idle_after_s: float = 3.0
    future_s: float = 300.0
    max_records: int = 6_000_000
    busy: float = 0.3
    per_million_s: float = 1.3
    fixed_hop: bool = False
    compile_ahead: bool = True

    def rules(self) -> WindowRules:
        return WindowRules(
            length=int(self.length_s * SECOND),
            hop=int(self.hop_s * SECOND),
            lateness=int(self.lateness_s * SECOND),
            steps=self.steps,
            longest=int(self.longest_s * SECOND),
            busy=self.busy,
            per_million=int(self.per_million_s * SECOND),
        )


@dataclass(frozen=True, slots=True)
class TopologySettings:
    """Read again whenever the file changes."""

    file: str = ""


@dataclass(frozen=True, slots=True)
class DirectorySettings:
    """Files dropped by collectors. `map` and `format` as on the command line; `after`: `keep` or `delete`."""

    path: str
    map: str = ""
    format: str = ""
    after: str = "keep"
    settle_s: float = 2.0


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """`POST /api/v1/flows`. Beyond `queue_mb` of waiting bodies, pushes are turned away with 503 and counted. At most
    `max_open` bodies are received at a time (a zstd body holds 8 MB meanwhile), each within `body_timeout_s`."""

    enabled: bool = True
    max_body_mb: float = 64.0
    queue_mb: float = 256.0
    map: str = ""
    max_open: int = 64
    body_timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Messages of newline-separated JSON records. `batch_s`: how long messages are gathered into one batch. `late`: its
    records come minutes after they end, as from files; they get windows of their own, and nobody waits for them."""

    brokers: str
    topic: str
    group: str = "llmprism"
    map: str = ""
    batch_s: float = 1.0
    batch_messages: int = 10_000
    late: bool = False


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """`url`: where this service's page is reached, for links in alerts."""

    alertmanager: tuple[str, ...] = ()
    webhook: tuple[str, ...] = ()
    url: str = ""
    resend_s: float = 60.0
    attempts: int = 8
    timeout_s: float = 5.0


@dataclass(frozen=True, slots=True)
class LogSettings:
    level: str = "info"
    format: str = "json"


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Several `llmprism serve` that share one consumer group, one PostgreSQL database and one folder.

    `name`: of this worker, empty for host and port. `session_s`: a worker that Kafka has not heard of for so long loses
    its partitions. `share_records`: windows are cut into shares of about as many records, `max_shares` at most.
    """

    enabled: bool = False
    name: str = ""
    session_s: float = 10.0
    share_records: int = 1_000_000
    max_shares: int = 64


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token, kept as the SHA-256 of its text. Scopes: read, ingest, admin (which includes both)."""

    name: str
    sha256: str
    scopes: tuple[str, ...] = ("read",)


@dataclass(frozen=True, slots=True)
class Config:
    server: ServerSettings = field(default_factory=ServerSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    windows: WindowSettings = field(default_factory=WindowSettings)
    topology: TopologySettings = field(default_factory=TopologySettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    alerts: AlertSettings = field(default_factory=AlertSettings)
    log: LogSettings = field(default_factory=LogSettings)
    job_logs: JobLogSettings = field(default_factory=JobLogSettings)
    workers: WorkerSettings = field(default_factory=WorkerSettings)
    directory: tuple[DirectorySettings, ...] = ()
    kafka: tuple[KafkaSettings, ...] = ()
    token: tuple[Token, ...] = ()

    def public(self) -> bool:
        return self.server.host not in LOOPBACK


def load_config(path: str | Path | None, environment: Mapping[str, str]) -> Config:
    """The configuration of a file (defaults without one) with the environment's overrides, checked."""
    text = ""
    if path is not None:
        file = Path(path)
        try:
            if file.stat().st_size > MAX_CONFIG_BYTES:
                raise ConfigError(f"{file}: larger than {MAX_CONFIG_BYTES} bytes; this is no configuration file")
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{file}: cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{file}: not UTF-8 text") from None
    return parse_config(text, environment, str(path or "configuration"))


def parse_config(text: str, environment: Mapping[str, str], origin: str) -> Config:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{origin}: not TOML ({error})") from None
    config = _built(Config, document, origin, "")
    config = _overridden(config, environment)
    _check(config, origin)
    return config


def _built(kind: type[Any], values: object, origin: str, where: str) -> Any:
    if not isinstance(values, dict):
        raise ConfigError(f"{origin}: [{where}]: expected a table, found {_short(values)}")
    hints = get_type_hints(kind)
    arguments = {}
    for key, value in values.items():
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(hints)}"
            raise ConfigError(f"{origin}: {_place(where, str(key))}: there is no such setting{hint}")
        arguments[key] = _value(hints[key], value, origin, _place(where, key))
    needed = [item.name for item in fields(kind) if item.default is item.default_factory and item.name not in arguments]
    if needed:
        raise ConfigError(f"{origin}: [{where}]: {needed[0]} is missing")
    return kind(**arguments)


def _value(hint: Any, value: object, origin: str, where: str) -> Any:
    if is_dataclass(hint):
        return _built(hint if isinstance(hint, type) else type(hint), value, origin, where)
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        if not isinstance(value, list):
            raise ConfigError(f"{origin}: {where}: expected a list, found {_short(value)}")
        return tuple(_value(inner, item, origin, f"{where}[{index}]") for index, item in enumerate(value))
    accepted = (int, float) if hint is float else hint
    if not isinstance(value, accepted) or (isinstance(value, bool) and hint is not bool):
        raise ConfigError(f"{origin}: {where}: expected {_NAMES[hint]}, found {_short(value)}")
    return float(value) if hint is float else value


_NAMES: Final = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _overridden(config: Config, environment: Mapping[str, str]) -> Config:
    """Scalars and lists of texts may come from the environment: LLMPRISM_SECTION__KEY."""
    for name, text in sorted(environment.items()):
        section, mark, key = name.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        if not name.startswith(ENVIRONMENT_PREFIX) or not mark:
            continue
        settings = getattr(config, section, None)
        hints = get_type_hints(type(settings)) if is_dataclass(settings) else {}
        if key not in hints:
            raise ConfigError(f"environment: {name}: there is no setting {key!r} in [{section}]")
        value = _value(hints[key], _parsed(hints[key], text, name), "environment", name)
        changed: Any = settings
        config = replace(config, **{section: replace(changed, **{key: value})})
    return config


def _parsed(hint: Any, text: str, name: str) -> object:
    if hint is str:
        return text
    if get_origin(hint) in (tuple, Union, types.UnionType):
        return [part for part in text.split(",") if part]
    try:
        return {"true": True, "false": False}[text.lower()] if hint is bool else hint(text)
    except (KeyError, ValueError):
        raise ConfigError(f"environment: {name}: expected {_NAMES[hint]}, found {_short(text)}") from None


def _check(config: Config, origin: str) -> None:
    def demand(condition: bool, where: str, text: str) -> None:
        if not condition:
            raise ConfigError(f"{origin}: {where}: {text}")

    demand(0 <= config.server.port <= 65535, "server.port", "expected 0 to 65535")
    demand(config.server.requests_per_s > 0, "server.requests_per_s", "must be above 0")
    windows = config.windows
    demand(0 < windows.hop_s <= windows.length_s, "windows.hop_s", "must be above 0 and at most length_s")
    demand(windows.length_s <= windows.longest_s <= 86_400, "windows.longest_s", "between length_s and a day")
    demand(windows.lateness_s >= 0, "windows.lateness_s", "cannot be below 0")
    demand(0 < windows.busy <= 1, "windows.busy", "above 0 and at most 1")
    demand(windows.steps >= 2, "windows.steps", "at least 2")
    demand(windows.max_records >= 1000, "windows.max_records", "at least 1000")
    demand(config.store.keep_flows_h * 3600 >= windows.longest_s, "store.keep_flows_h", "at least the longest window")
    demand(config.store.batch_records >= 1, "store.batch_records", "at least 1")
    demand(config.store.intake_memory_mb >= 100, "store.intake_memory_mb", "at least 100")
    demand(config.store.keep_history_d > 0, "store.keep_history_d", "must be above 0")
    demand(0 < config.http.max_body_mb <= config.http.queue_mb, "http.max_body_mb", "above 0 and at most queue_mb")
    demand(config.http.max_open >= 1, "http.max_open", "at least 1")
    demand(config.http.body_timeout_s > 0, "http.body_timeout_s", "must be above 0")
    demand(config.log.level in ("debug", "info", "warning", "error"), "log.level", "debug, info, warning or error")
    demand(config.log.format in ("json", "text"), "log.format", "json or text")
    for index, directory in enumerate(config.directory):
        demand(directory.after in ("keep", "delete"), f"directory[{index}].after", "keep or delete")
    logs = config.job_logs
    demand(0 < logs.writer_mb <= logs.total_mb, "job_logs.writer_mb", "above 0 and at most total_mb")
    demand(0 < logs.max_body_mb <= 256, "job_logs.max_body_mb", "above 0 and at most 256")
    demand(logs.enabled or not logs.folders, "job_logs.folders", "need job_logs.enabled = true")
    demand(logs.enabled or not logs.kafka, "job_logs.kafka", "needs job_logs.enabled = true")
    _check_workers(config, demand)
    for index, token in enumerate(config.token):
        where = f"token[{index}]"
        good = len(token.sha256) == 64 and all(character in "0123456789abcdef" for character in token.sha256)
        demand(good, f"{where}.sha256", "expected 64 hexadecimal digits; `llmprism config token` makes them")
        demand(bool(token.scopes) and set(token.scopes) <= set(SCOPES), f"{where}.scopes", f"of {', '.join(SCOPES)}")
    for index, address in enumerate((*config.alerts.alertmanager, *config.alerts.webhook)):
        demand(address.startswith(("http://", "https://")), f"alerts[{index}]", "expected an http or https address")
    if config.public() and not config.token and not config.server.trusted_proxy:
        raise ConfigError(
            f"{origin}: server.host: {config.server.host} is reachable from elsewhere; add a [[token]] "
            f"(`llmprism config token` makes one) or set server.trusted_proxy"
        )


def _check_workers(config: Config, demand: Callable[[bool, str, str], None]) -> None:
    workers = config.workers
    demand(workers.session_s >= 1, "workers.session_s", "at least 1")
    demand(workers.share_records >= 1, "workers.share_records", "at least 1")
    demand(1 <= workers.max_shares <= 1000, "workers.max_shares", "between 1 and 1000")
    allowed = all(character.isalnum() or character in "._-" for character in workers.name) and workers.name[:1] != "."
    demand(allowed and len(workers.name) <= 64, "workers.name", "at most 64 letters, digits, dots and dashes")
    if workers.enabled:
        demand(config.store.url.startswith("postgresql"), "workers.enabled", "needs a PostgreSQL database in store.url")
        demand(bool(config.kafka), "workers.enabled", "needs a [[kafka]] topic")
        quick = all(topic.batch_s <= 2 for topic in config.kafka)
        demand(quick, "kafka.batch_s", "at most 2 among several workers, who wait for each other")
        demand(not config.directory, "workers.enabled", "records come from Kafka alone; there can be no [[directory]]")


def _place(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
