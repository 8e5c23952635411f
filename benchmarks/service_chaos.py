"""Claim: a service that is left alone survives chaos: nothing is lost without a word, no healthy job is blamed.

Tenants (`chaos_plan`) push every second, send through Kafka, or drop files late. Meanwhile jobs come, go, stand still,
crash and are slowed; clocks jump and drift; collectors die; PostgreSQL, the Kafka broker and the room on the disk go
away (`outages`); the service and its evaluator are killed with `kill -9`. At the end, for every source: received =
stored + dropped by reason, and nothing that was sent is missing; every planted fault was opened and closed once, at its
time; no healthy job has any finding; `/readyz` showed every outage; memory has not grown (`chaos_verdict`).

Time is the run's own: a second begins a second after the last one at the earliest, and waits while a collector is
further behind than any outage lasts. So a machine that is busy otherwise plays the same run, only slower.
A run that is told to end (SIGTERM) is judged as far as it has come.
Usage: python benchmarks/service_chaos.py [SECONDS] [TENANTS] [SEED]
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import duckdb

from chaos_jobs import SECOND, columns_of
from chaos_plan import Kill, Outage, Role, Tenant, make_plan, topology_of
from chaos_verdict import memory_grows, wrong_counts, wrong_findings
from outages import Broker, Postgres, SmallDisk, UnavailableError
from processes import children_of, memory_mb
from running_service import Service

BACKLOG_S: Final = 45
"""How far a collector may be behind: further than the longest outage lasts."""

CATCH_UP_S: Final = 600
"""How long windows may take to catch up with the records at the end, on a machine that is busy otherwise."""

LAST_WINDOW_S: Final = 12
"""The last window ends at most so long before the last record: lateness, a batch, and a hop between two windows."""

SETTLED_S: Final = 15
"""Nothing more is stored and no window is due for so long: then the run is over."""

DISK_MB: Final = 600
TOPIC: Final = "flows"
PARTITIONS: Final = 3


class EndedError(Exception):
    """The run is over."""


class Chaos:
    """`run`, then `wrong`, then `close`. `not_here` says what this machine cannot have."""

    def __init__(self, folder: Path, seconds: int, tenants: int, seed: int) -> None:
        self.folder = folder
        self.not_here: list[str] = []
        self._opened = ExitStack()
        try:
            self._surround(folder)
            self.plan = make_plan(seconds, tenants, seed, tuple(self.surroundings))
            self.running = self._service()
        except BaseException:
            self._opened.close()
            raise
        self._opened.callback(self.running.stop)
        self.begin_ns = 0
        self.second = 0
        self._stored, self._settled_s = -1, 0.0
        self._tick = threading.Condition()
        self._ended, self.cut = threading.Event(), threading.Event()
        self._over = False
        self.kills = {"service": 0, "evaluator": 0}
        self.starts = 0
        self.unreported: list[str] = []
        self.failed: list[str] = []
        self.memory: list[int] = []

    def _surround(self, folder: Path) -> None:
        """The database, the broker and the disk, as far as they can be had."""
        self.surroundings: dict[str, Postgres | Broker | SmallDisk] = {}
        makers = (Postgres, lambda: Broker(TOPIC, PARTITIONS), lambda: SmallDisk(folder / "disk", DISK_MB))
        for make in makers:
            try:
                made = make()
            except UnavailableError as error:
                self.not_here.append(str(error))
                continue
            self._opened.callback(made.close)
            self.surroundings[made.name] = made

    def _service(self) -> Service:
        drop = self.folder / "drop"
        drop.mkdir()
        config = self.folder / "llmprism.toml"
        text = f'[[directory]]\npath = "{drop}"\nsettle_s = 0.5\n'
        settings: dict[str, object] = {"SERVER__REQUESTS_PER_S": 10_000, "WINDOWS__HOP_S": self.plan.hop_s}
        data = self.folder / "data"
        for one in self.surroundings.values():
            if isinstance(one, Broker):
                text += f'[[kafka]]\nbrokers = "{one.addresses}"\ntopic = "{TOPIC}"\ngroup = "chaos"\n'
            elif isinstance(one, Postgres):
                settings["STORE__URL"] = one.url
            else:
                data = one.folder / "data"
        config.write_text(text)
        (self.folder / "topology.json").write_text(json.dumps(topology_of(self.plan)))
        return Service(data, self.folder, "--config", str(config), WINDOWS__IDLE_AFTER_S=30, **settings)

    # -- sending --------------------------------------------------------------------------------------------------

    def _wait_for(self, second: int) -> None:
        """Raises EndedError where the run ends before that."""
        with self._tick:
            self._tick.wait_for(lambda: self.second > second or self._over)
        if self.second <= second:
            raise EndedError

    def _tick_on(self) -> None:
        """A second after the other, as fast as the clock and not faster than the collectors follow."""
        due = time.monotonic()
        for second in range(self.plan.seconds):
            if self.cut.is_set():
                break
            due = max(due + 1.0, time.monotonic() - 1.0)
            time.sleep(max(0.0, due - time.monotonic()))
            followed = [tenant for tenant in self.plan.tenants if tenant.role is not Role.FILES]
            while any(second - tenant.done > BACKLOG_S for tenant in followed) and not self.failed:
                time.sleep(0.2)
            with self._tick:
                self.second = second + 1
                self._tick.notify_all()
        with self._tick:
            self._over = True
            self._tick.notify_all()

    def _send(self, tenant: Tenant) -> None:
        """A collector's own thread."""
        try:
            if tenant.role is Role.KAFKA:
                self._send_to_kafka(tenant)
            elif tenant.role is Role.FILES:
                self._drop_files(tenant)
            else:
                self._push_all(tenant)
        except EndedError:
            tenant.done = self.plan.seconds
        except Exception as error:
            self.failed.append(f"{tenant.name} could not send: {error!r}")
            tenant.done = self.plan.seconds

    def _records(self, tenant: Tenant, first: int, count: int = 1) -> dict[str, Any] | None:
        """Of so many seconds, without those in which the collector is away."""
        seconds = [at for at in range(first, first + count) if not any(a <= at < b for a, b in tenant.away)]
        found = [job.records(at, self.plan.seconds) for at in seconds for job in tenant.jobs]
        found = [one for one in found if len(one)]
        return columns_of(found, self.begin_ns + int(tenant.offset_s(first) * SECOND)) if found else None

    def _push_all(self, tenant: Tenant) -> None:
        database = duckdb.connect(config={"threads": 1})
        file = self.folder / f"{tenant.name}.body"
        lines = tenant.name.endswith(("1", "3"))
        every = self.plan.every_s
        for second in range(0, self.plan.seconds, every):
            self._wait_for(second + every - 1)
            columns = self._records(tenant, second, every)
            if columns is not None:
                kind = "json" if lines else "parquet"
                database.register("sent", columns)
                database.execute(f"COPY (SELECT * FROM sent) TO '{file}' (FORMAT {kind})")
                database.unregister("sent")
                media = "application/x-ndjson" if lines else "application/vnd.apache.parquet"
                self._push(tenant, file.read_bytes(), len(columns["src"]), media)
            tenant.done = second + every

    def _push(self, tenant: Tenant, body: bytes, records: int, media: str) -> None:
        tenant.number += 1
        headers = {"content-type": media, "llmprism-producer": tenant.name}
        headers |= {"llmprism-sequence": str(tenant.number), "llmprism-records": str(records)}
        while True:
            request = urllib.request.Request(self.running.url + "/api/v1/flows", body, headers, method="POST")
            try:
                urllib.request.urlopen(request, timeout=30).read()
            except urllib.error.HTTPError as error:
                if error.code not in (409, 429, 503):
                    raise RuntimeError(f"{error.code}: {error.read()[:300]!r}") from error
                time.sleep(0.5)
            except OSError:
                time.sleep(0.3)
            else:
                tenant.sent += records
                return

    def _send_to_kafka(self, tenant: Tenant) -> None:
        import confluent_kafka

        broker = self.surroundings[Broker.name]
        assert isinstance(broker, Broker)
        settings = {"bootstrap.servers": broker.addresses, "linger.ms": 50, "message.timeout.ms": 600_000}
        settings |= {"reconnect.backoff.max.ms": 1000, "log_level": 0}
        producer = confluent_kafka.Producer(settings)
        try:
            self._produce(producer, tenant)
        finally:
            while producer.flush(5.0):
                pass

    def _produce(self, producer: Any, tenant: Tenant) -> None:
        for second in range(self.plan.seconds):
            self._wait_for(second)
            columns = self._records(tenant, second)
            if columns is not None:
                names = list(columns)
                for row in zip(*(column.tolist() for column in columns.values()), strict=True):
                    text = json.dumps(dict(zip(names, row, strict=True)))
                    producer.produce(TOPIC, text.encode(), key=str(row[2]))
                tenant.sent += len(columns["src"])
            producer.poll(0)
            if len(producer) == 0 or producer.flush(1.0) == 0:
                tenant.done = second + 1
        tenant.done = self.plan.seconds

    def _drop_files(self, tenant: Tenant) -> None:
        """A file of `file_s` seconds, `late_s` after its end."""
        database = duckdb.connect(config={"threads": 1})
        each, late = self.plan.file_s, self.plan.late_s
        for second in range(0, self.plan.seconds - each - late + 1, each):
            self._wait_for(second + each + late - 1)
            columns = self._records(tenant, second, each)
            assert columns is not None
            file = self.folder / "drop" / f"flows-{second:06}.parquet"
            database.register("sent", columns)
            database.execute(f"COPY (SELECT * FROM sent) TO '{file}.tmp' (FORMAT parquet)")
            database.unregister("sent")
            Path(f"{file}.tmp").rename(file)
            tenant.sent += len(columns["src"])
            tenant.done = second + each + late
        tenant.done = self.plan.seconds

    # -- what goes wrong ------------------------------------------------------------------------------------------

    def _kill(self, kill: Kill) -> None:
        process = self.running.process
        if kill.service:
            process.kill()
            self.kills["service"] += 1
            return
        while not (children := children_of(self.running.process.pid)) and not self._ended.is_set():
            time.sleep(0.2)  # a service that was killed a moment ago has none yet, on a busy machine for a while
        for child in children[:1]:
            os.kill(child, signal.SIGKILL)
            self.kills["evaluator"] += 1

    def _keep_running(self) -> None:
        """As a service manager does: what ended is started again."""
        while not self._ended.wait(0.5):
            if self.running.process.poll() is not None:
                self.running.start()
                self.starts += 1

    def _take_away(self, outage: Outage) -> None:
        thing = self.surroundings[outage.what]
        thing.away()
        until, reported = time.monotonic() + outage.lasts_s, False
        while time.monotonic() < until or (not reported and time.monotonic() < until + BACKLOG_S / 3):
            reported = reported or not self.running.ready()[0]
            time.sleep(0.5)
        thing.back()
        if not reported:
            self.unreported.append(f"/readyz said nothing while there was no {outage.what} at {outage.at_s} s")

    def _do_harm(self) -> None:
        events: list[Kill | Outage] = sorted([*self.plan.kills, *self.plan.outages], key=lambda one: one.at_s)
        outages: list[threading.Thread] = []
        for event in events:
            try:
                self._wait_for(event.at_s)
            except EndedError:
                break
            if isinstance(event, Kill):
                self._kill(event)
            else:
                for thread in outages:
                    thread.join()
                outages = [threading.Thread(target=self._take_away, args=(event,))]
                outages[0].start()
        for thread in outages:
            thread.join()

    def _watch_memory(self) -> None:
        """MB of service and evaluator, from the last kill on."""
        with suppress(EndedError):
            self._wait_for(max((kill.at_s for kill in self.plan.kills), default=0) + 10)
        pid = self.running.process.pid
        while not self._ended.wait(5.0):
            if self.running.process.pid != pid:
                pid, self.memory = self.running.process.pid, []
            self.memory.append(sum(memory_mb(one) for one in (pid, *children_of(pid))))

    # -- the run --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self.running.get("/healthz")
        self.begin_ns = (int(time.time()) + 1) * SECOND
        time.sleep(self.begin_ns / 1e9 - time.time())
        keeper = threading.Thread(target=self._keep_running)
        watcher = threading.Thread(target=self._watch_memory, daemon=True)
        harm = threading.Thread(target=self._do_harm)
        senders = [threading.Thread(target=self._send, args=(tenant,)) for tenant in self.plan.tenants]
        for thread in (keeper, watcher, harm, *senders):
            thread.start()
        try:
            self._tick_on()
            for thread in (*senders, harm):
                thread.join()
            self.running.until(self._caught_up, CATCH_UP_S)
        finally:
            self._ended.set()
            keeper.join()

    def _caught_up(self) -> bool:
        """Have all windows been made for which there are records? A busy machine may need a while."""
        now = self.running.get("/api/v1/overview")
        stored = sum(one.get("stored", 0) for one in self.running.get("/api/v1/sources")["items"])
        before, self._stored = self._stored, stored
        made = bool(now["window"]) and now["latest_ns"] - now["window"]["end_ns"] < LAST_WINDOW_S * SECOND
        if before != stored or not made:
            self._settled_s = time.monotonic()
        return time.monotonic() - self._settled_s > SETTLED_S

    def wrong(self) -> list[str]:
        """What does not hold; empty where everything does."""
        get = self.running.get
        runs, findings = get("/api/v1/jobs?limit=1000")["items"], get("/api/v1/findings?limit=1000")["items"]
        found = [*self.failed, *self.unreported]
        found += wrong_counts(self.plan, get("/api/v1/sources")["items"], self._in_topic())
        found += wrong_findings(self.plan, runs, findings, self.begin_ns, until_s=self.second)
        if memory_grows(self.memory):
            found.append(f"memory grows: {self.memory}")
        return found

    def counted_by_itself(self) -> dict[str, Any]:
        sources = self.running.get("/api/v1/sources")["items"]
        return next((one for one in sources if one["name"] == "service"), {})

    def _in_topic(self) -> int:
        broker = self.surroundings.get(Broker.name)
        return broker.messages() if isinstance(broker, Broker) else 0

    def close(self) -> None:
        self._opened.close()


def main() -> int:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 3_600
    tenants = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    with tempfile.TemporaryDirectory(prefix="llmprism-chaos-") as folder:
        chaos = Chaos(Path(folder), seconds, tenants, seed)
        signal.signal(signal.SIGTERM, lambda *_: chaos.cut.set())
        try:
            begun = time.monotonic()
            chaos.run()
            wrong = chaos.wrong()
            service = chaos.counted_by_itself()
        finally:
            chaos.close()
    plan = chaos.plan
    sent, jobs = sum(tenant.sent for tenant in plan.tenants), [job for one in plan.tenants for job in one.jobs]
    faults = [fault.kind.value for job in jobs for fault in job.faults]
    away = [outage.what for outage in plan.outages]
    print(
        f"{chaos.second} s in {time.monotonic() - begun:.0f} s, {tenants} tenants, {len(jobs)} jobs, {sent:,} records"
    )
    print(f"kill -9: {chaos.kills}, started again {chaos.starts} times; faults {_counted(faults)}; "
          f"away {_counted(away)}; clocks {[one.clock for one in plan.tenants if one.clock]}")  # fmt: skip
    memory = chaos.memory[:: max(1, len(chaos.memory) // 20)]
    print(f"the service counts {service}; memory since the last kill in MB: {memory}")
    for line in (*(f"not here: {one}" for one in chaos.not_here), *(f"WRONG: {one}" for one in wrong)):
        print(line)
    print(f"{len(wrong)} things are wrong")
    return 1 if wrong else 0


def _counted(names: list[str]) -> dict[str, int]:
    return {name: names.count(name) for name in dict.fromkeys(names)}


if __name__ == "__main__":
    sys.exit(main())
