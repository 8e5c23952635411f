"""Puts the service together and runs it: this process takes records in and answers, a second one makes the windows.

The evaluator has a process of its own so that a long window never delays an answer and its memory is its own. The two
meet in the store alone. It ends with its parent, however that ends; when it dies by itself it is started again. All
threads are supervised, and what does not work is said by `troubles`, which decides whether the service is ready. On a
new installation a third process compiles what the others will need (`compile_ahead`).
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import uvicorn
from fastapi import FastAPI

from llmprism.errors import LLMPrismError, StoreError
from llmprism.service.alerts import AlertSender
from llmprism.service.api.app import Live, create_app
from llmprism.service.compile_ahead import compile_ahead, is_compiled_ahead
from llmprism.service.config import Config, KafkaSettings
from llmprism.service.connections import PatientProtocol
from llmprism.service.evaluator import Evaluator
from llmprism.service.folder_lock import FolderLock
from llmprism.service.heartbeat import Heartbeat
from llmprism.service.intake import Intake, clear_incoming
from llmprism.service.joblogs.kafka_lines import KafkaLogSource
from llmprism.service.joblogs.settings import KAFKA, spool_of
from llmprism.service.late_lane import LateEvaluator, LateStore
from llmprism.service.logs import set_up_logs
from llmprism.service.sources.directory import DirectorySource
from llmprism.service.sources.kafka import KafkaSource
from llmprism.service.sources.kafka_group import KafkaGroupSource
from llmprism.service.store import Store
from llmprism.service.supervisor import Supervisor
from llmprism.service.timeline_pool import TimelinePool
from llmprism.service.upkeep import Upkeep
from llmprism.service.workers.duty import Duty
from llmprism.service.workers.evaluating_process import Worker
from llmprism.service.workers.shared_store import SharedStore

__all__ = ["Service", "evaluate_forever", "serve"]

log = logging.getLogger(__name__)

EVALUATOR_PAUSE_S: Final = 0.25
STORE_PAUSE_S: Final = 1.0
QUEUE_GRACE_S: Final = 20.0
"""How long a stopping service waits for queued batches to be stored."""

COMPILING: Final = "windows may be late until their code is compiled, once per installation (half a minute)"

_PR_SET_PDEATHSIG: Final = 1


def _die_with_parent(parent: int) -> None:
    """On Linux the kernel ends this process when its parent ends, also by `kill -9`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def evaluate_forever(config: Config, parent: int, heartbeat: Heartbeat) -> None:
    """The evaluator's process. A store that does not answer is tried again; state is read anew after every failure."""
    _die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    set_up_logs(config.log)
    store = _open_store(config)
    late = None if isinstance(store, SharedStore) else LateStore(config.store)
    lanes: list[Evaluator | Worker] = []
    while os.getppid() == parent:
        try:
            lanes = lanes or _evaluators(store, late, config)
            made = sum([lane.advance() for lane in lanes])
            heartbeat.succeeded()
            if not made:
                time.sleep(EVALUATOR_PAUSE_S)
        except (StoreError, OSError) as error:
            log.error("windows wait", extra={"reason": str(error)})
            heartbeat.failed(str(error))
            lanes = []
            time.sleep(STORE_PAUSE_S)
        except Exception as error:
            log.exception("a window failed")
            heartbeat.failed(f"{type(error).__name__}: {error}")
            lanes = []
            time.sleep(STORE_PAUSE_S)


def _compile_ahead(parent: int) -> None:
    """The compiler's process. What it fails to compile is compiled by windows that need it."""
    _die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        compile_ahead()
    except (LLMPrismError, OSError) as error:
        log.warning("the code of windows is compiled when it is needed", extra={"reason": str(error)})


def _open_store(config: Config) -> Store:
    return SharedStore(config) if config.workers.enabled else Store(config.store)


def _evaluators(store: Store, late: LateStore | None, config: Config) -> list[Evaluator | Worker]:
    """One worker of several, or one evaluator for the sources that stream and one for those that come late."""
    if isinstance(store, SharedStore):
        return [Worker(store, config)]
    store.late = False
    streams = Evaluator(store, config)
    return [streams] if late is None else [streams, LateEvaluator(late, config)]


def _as_worker(config: Config) -> Config:
    """The settings of one of several workers: with a name of its own, and without pushes, whose positions are not
    guarded against another worker."""
    if not config.workers.enabled:
        return config
    port = config.server.port or f"0-{os.getpid()}"
    name = config.workers.name or f"{socket.gethostname()}-{port}"
    return replace(config, workers=replace(config.workers, name=name), http=replace(config.http, enabled=False))


class Service:
    """All threads and processes of a running service."""

    def __init__(self, config: Config, store: Store | None = None) -> None:
        config = _as_worker(config)
        self.config = config
        self.store = store or _open_store(config)
        self._folder_lock = None if isinstance(self.store, SharedStore) else FolderLock(self.store.folder)
        self.store.create()
        self.duty = Duty(self.store, config, self._described) if isinstance(self.store, SharedStore) else None
        if self.duty is not None:
            self.duty.claim_name()
        clear_incoming(self.store)
        self.intake = Intake(self.store, config)
        self.sources: list[DirectorySource | KafkaSource | KafkaLogSource] = []
        self.sources += [DirectorySource(settings, self.store, self.intake) for settings in config.directory]
        self.sources += [self._topic(settings) for settings in config.kafka]
        if config.job_logs.kafka:
            spool = spool_of(config, KAFKA)
            self.sources += [KafkaLogSource(settings, self.store, spool) for settings in config.job_logs.kafka]
        self._context = multiprocessing.get_context("spawn")
        self.timelines = TimelinePool(self._context, _die_with_parent, (os.getpid(),))
        self.live = Live(config, self.store, self.intake, self.timelines, self.troubles)
        self._stop = threading.Event()
        self._supervisor = Supervisor(self._stop)
        self._heartbeat = Heartbeat(self._context)
        self._evaluator: multiprocessing.process.BaseProcess | None = None
        self._compiler: multiprocessing.process.BaseProcess | None = None

    def _described(self) -> dict[str, object]:
        """What the other workers and the page may know of this one."""
        groups = [source for source in self.sources if isinstance(source, KafkaGroupSource)]
        return {
            "partitions": [f"{group.name}/{partition}" for group in groups for partition in group.partitions],
            "fenced": self.store.fenced if isinstance(self.store, SharedStore) else 0,
            "queued_bytes": self.intake.queued_bytes,
        }

    def _topic(self, settings: KafkaSettings) -> KafkaSource:
        if isinstance(self.store, SharedStore):
            return KafkaGroupSource(settings, self.config.workers, self.store, self.intake)
        return KafkaSource(settings, self.store, self.intake)

    def troubles(self) -> list[str]:
        """Sentences on what does not work now."""
        unread = self.store.unread_partitions() if isinstance(self.store, SharedStore) else []
        windows = self._heartbeat.trouble()
        return [
            *(f"{source.name}: {source.trouble}" for source in self.sources if source.trouble),
            *self.intake.troubles(),
            *self._supervisor.troubles(),
            *([windows] if windows else []),
            *([COMPILING] if self._compiler is not None and self._compiler.is_alive() else []),
            *(f"windows wait for {name}: no worker reads it" for name in unread),
        ]

    def start(self) -> None:
        if self.config.windows.compile_ahead and not is_compiled_ahead():
            self._compiler = self._child("llmprism-compiler", _compile_ahead, os.getpid())
        self._evaluator = self._start_evaluator()
        self._supervisor.start("intake", self.intake.run)
        for source in self.sources:
            self._supervisor.start(source.name, partial(source.run, self._stop))
        if self.duty is not None:
            self._supervisor.start("duty", partial(self.duty.run, self._stop))
        else:
            sender, upkeep = AlertSender(self.config.alerts, self.store), Upkeep(self.store, self.config)
            self._supervisor.start("alerts", partial(sender.run, self._stop))
            self._supervisor.start("upkeep", partial(upkeep.run, self._stop))
        self._supervisor.start("watch", self._watch)

    def _start_evaluator(self) -> multiprocessing.process.BaseProcess:
        return self._child("llmprism-evaluator", evaluate_forever, self.config, os.getpid(), self._heartbeat)

    def _child(self, name: str, work: Callable[..., None], *arguments: object) -> multiprocessing.process.BaseProcess:
        process = self._context.Process(target=work, args=arguments, name=name, daemon=True)
        process.start()
        return process

    def _watch(self) -> None:
        while not self._stop.wait(1.0):
            if self._evaluator is not None and not self._evaluator.is_alive():
                log.error("the evaluator ended and is started again", extra={"code": self._evaluator.exitcode})
                self._evaluator = self._start_evaluator()

    def stop(self) -> None:
        """Takes nothing new, stores what is queued, ends the rest."""
        self.live.stopping.set()
        self._stop.set()
        self.intake.stop()
        self._supervisor.join(time.monotonic() + QUEUE_GRACE_S)
        for process in (self._compiler, self._evaluator):
            if process is not None:
                process.terminate()
                process.join(5)
        self.timelines.shutdown()
        self.store.close()
        if self._folder_lock is not None:
            self._folder_lock.release()


def serve(config: Config, *, ready: Callable[[str], None] | None = None) -> None:
    """Runs until SIGINT or SIGTERM. `ready` gets the address once the page answers."""
    service = Service(config)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.stop)

    app = create_app(service.live, lifespan)
    server = _HttpServer(
        uvicorn.Config(
            app,
            host=config.server.host,
            port=config.server.port,
            http=PatientProtocol,
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=config.server.trusted_proxy,
            timeout_graceful_shutdown=5,
            timeout_keep_alive=30,
            limit_concurrency=2_000,
        ),
        ready,
        service.live,
    )
    try:
        server.run()
    except SystemExit as error:
        raise LLMPrismError(
            f"cannot listen on {config.server.host}:{config.server.port}; is another service there?"
        ) from error


class _HttpServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[str], None] | None, live: Live) -> None:
        super().__init__(config)
        self._ready = ready
        self._live = live

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(None if sockets is None else sockets)  # type: ignore[arg-type]
        if self.started and self._ready is not None:
            address = self.servers[0].sockets[0].getsockname()
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            self._ready(f"http://{host}:{address[1]}")

    def handle_exit(self, sig: int, frame: object) -> None:  # noqa: ARG002
        """The first signal asks for an orderly end, which is a success; the second one insists."""
        self._live.stopping.set()
        self.force_exit = self.should_exit
        self.should_exit = True
