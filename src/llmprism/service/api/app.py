"""The routes. Everything under `/api/v1` answers JSON (the timeline: binary); `/` is the page; `/metrics` Prometheus.

Answers that depend on the store carry an ETag made of its revision, so that a page that asks again for what has not
changed gets 304 and no body. Errors have one shape: `{"error": {"slug", "message"}}`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager
from importlib.resources import files
from pathlib import Path as FilePath
from typing import Annotated, Any, Final, Literal

from fastapi import FastAPI, HTTPException, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException as StarletteHTTPException

from llmprism import __version__
from llmprism.errors import ColumnError, LimitError, LLMPrismError, StoreError
from llmprism.service.api.guard import Guard
from llmprism.service.api.push import ARROW, TYPES, UnsupportedError, arrow_to_parquet, count_lines, receive_body
from llmprism.service.config import Config
from llmprism.service.history import MAX_PAGE, History
from llmprism.service.intake import Intake, Payload, QueueFullError
from llmprism.service.metrics import ServiceGauges, render
from llmprism.service.sources.directory import mapping_of
from llmprism.service.store import Store
from llmprism.service.timeline import timeline_bytes

__all__ = ["Live", "create_app"]

STATIC: Final = {
    "app.js": "text/javascript",
    "dom.js": "text/javascript",
    "format.js": "text/javascript",
    "charts.js": "text/javascript",
    "timeline.js": "text/javascript",
    "overview.js": "text/javascript",
    "job.js": "text/javascript",
    "finding.js": "text/javascript",
    "switches.js": "text/javascript",
    "history.js": "text/javascript",
    "style.css": "text/css",
    "icon.svg": "image/svg+xml",
}
MAX_TIMELINE_NS: Final = 3_600 * 10**9
"""One hour per request: a thousand GPUs' events of an hour are more than a page can hold anyway."""

_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
MAX_NS: Final = 2**63 - 1
Time = Annotated[int | None, Query(ge=0, le=MAX_NS, description="nanoseconds since the Unix epoch")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]
Cursor = Annotated[str | None, Query(max_length=100, pattern=r"^[0-9]{1,18}:[A-Za-z0-9._-]{0,64}$")]
Name = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
FilterName = Annotated[str | None, Query(max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
State = Literal["started", "running", "slowed", "stalled", "hung", "crashed", "ended", "restarted"]


class Live:
    """What the routes work with; put together by `runner`."""

    def __init__(
        self, config: Config, store: Store, intake: Intake, workers: Executor, troubles: Callable[[], list[str]]
    ) -> None:
        self.config = config
        self.store = store
        self.intake = intake
        self.history = History(store)
        self.workers = workers
        self.troubles = troubles
        self.started_s = time.time()
        self.stopping = asyncio.Event()
        self.in_flight: set[tuple[str, str]] = set()


Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(live: Live, lifespan: Lifespan | None = None) -> FastAPI:
    app = FastAPI(
        title="LLMPrism",
        version=__version__,
        description="What is wrong with the LLM training jobs on a GPU cluster, live.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(Guard, config=live.config)
    _errors(app)
    _health(app, live)
    _overview(app, live)
    _jobs(app, live)
    _findings(app, live)
    _ingest(app, live)
    _events(app, live)
    _page(app)
    return app


def _errors(app: FastAPI) -> None:
    def answer(status: int, slug: str, message: str) -> JSONResponse:
        return JSONResponse({"error": {"slug": slug, "message": message}}, status)

    @app.exception_handler(StarletteHTTPException)
    async def http_error(_request: Request, error: StarletteHTTPException) -> JSONResponse:
        response = answer(error.status_code, "http", str(error.detail))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return answer(422, "invalid", f"{where}: {first['msg']}")

    @app.exception_handler(StoreError)
    async def store_error(_request: Request, error: StoreError) -> JSONResponse:
        response = answer(503, error.slug, str(error))
        response.headers["retry-after"] = "2"
        return response


def _tagged(live: Live, request: Request, make: Callable[[], Any]) -> Response:
    """The answer as JSON with an ETag of the revision and the question; 304 where the client has it."""
    question = f"{live.history.revision()} {request.url.path}?{request.url.query}"
    tag = f'W/"{hashlib.sha256(question.encode()).hexdigest()[:20]}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    body = json.dumps(make(), separators=(",", ":"), allow_nan=False)
    return Response(body, media_type="application/json", headers=headers)


def _found(document: Any, what: str) -> Any:
    if document is None:
        raise HTTPException(404, f"there is no such {what}")
    return document


def _health(app: FastAPI, live: Live) -> None:
    @app.get("/healthz", tags=["service"])
    def health() -> dict[str, Any]:
        """The process answers."""
        return {"status": "ok", "version": __version__}

    @app.get("/readyz", tags=["service"], responses={503: {"description": "not ready"}})
    def ready() -> JSONResponse:
        """Records can be stored and windows are made."""
        try:
            live.history.revision()
            troubles = live.troubles()
        except StoreError as error:
            troubles = [str(error)]
        return JSONResponse({"ready": not troubles, "troubles": troubles}, 503 if troubles else 200)

    @app.get("/metrics", tags=["service"], response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """Metrics for Prometheus."""
        intake = live.intake
        shedding = intake.sheds_until > time.monotonic()
        gauges = ServiceGauges(intake.queued_bytes, bool(intake.trouble), shedding, __version__, time.time_ns())
        return PlainTextResponse(render(live.history, gauges), media_type="text/plain; version=0.0.4")


def _overview(app: FastAPI, live: Live) -> None:
    @app.get("/api/v1/overview", tags=["picture"])
    def overview() -> dict[str, Any]:
        """Everything that the first page shows: jobs, open findings, servers, switches, sources, troubles."""
        history = live.history
        picture = history.picture()
        end = picture.get("window", {}).get("end_ns", 0)
        living = ("started", "running", "slowed", "stalled", "hung", "restarted", "crashed")
        runs = history.runs(states=living, limit=MAX_PAGE, since_ns=max(0, end - MAX_TIMELINE_NS))["items"]
        for run in runs:
            run["recent"] = [
                [start, stop] for _, start, stop, _ in history.steps(run["id"], end - 300 * 10**9, None, 150)
            ]
        ended = history.runs(states=("ended",), limit=20)["items"]
        return {
            "revision": history.revision(),
            "now_ns": time.time_ns(),
            "picture": picture,
            "window": history.last_window(),
            "jobs": runs,
            "ended": ended,
            "findings": history.findings(phase="open", limit=MAX_PAGE)["items"],
            "closed": history.findings(phase="closed", limit=20)["items"],
            "transitions": history.transitions(None, None, None, 30),
            "sources": history.sources(),
            "shedding": live.intake.sheds_until > time.monotonic(),
            "queued_bytes": live.intake.queued_bytes,
            "troubles": live.troubles(),
            "version": __version__,
        }

    @app.get("/api/v1/topology", tags=["picture"])
    def topology(request: Request) -> Response:
        """Servers, their GPUs with the job of each, and switches with their load in the last window."""
        picture = live.history.picture
        return _tagged(live, request, lambda: {key: picture().get(key, []) for key in ("servers", "switches")})

    @app.get("/api/v1/windows", tags=["picture"])
    def windows(
        request: Request, from_ns: Time = None, to_ns: Time = None, after: Cursor = None, limit: Limit = 100
    ) -> Response:
        """Windows, the latest first."""
        return _tagged(live, request, lambda: live.history.windows(from_ns, to_ns, after, limit))

    @app.get("/api/v1/transitions", tags=["picture"])
    def transitions(
        request: Request, job: FilterName = None, from_ns: Time = None, to_ns: Time = None, limit: Limit = 200
    ) -> Response:
        """Changes of jobs' states, the latest first."""
        return _tagged(live, request, lambda: {"items": live.history.transitions(job, from_ns, to_ns, limit)})

    @app.get("/api/v1/sources", tags=["picture"])
    def sources() -> dict[str, Any]:
        """What became of the records of every source."""
        return {"items": live.history.sources(), "queued_bytes": live.intake.queued_bytes}

    @app.get("/api/v1/admin/dead-letters", tags=["service"])
    def dead_letters(limit: Limit = 100) -> dict[str, Any]:
        """Alert messages that could not be delivered."""
        return {"items": live.history.dead_letters(limit)}


def _jobs(app: FastAPI, live: Live) -> None:
    @app.get("/api/v1/jobs", tags=["jobs"])
    def jobs(
        request: Request,
        state: Annotated[list[State] | None, Query(max_length=8)] = None,
        since_ns: Time = None,
        after: Cursor = None,
        limit: Limit = 100,
    ) -> Response:
        """Runs of jobs, the latest first."""
        return _tagged(live, request, lambda: live.history.runs(tuple(state or ()), after, limit, since_ns))

    @app.get("/api/v1/jobs/{job}", tags=["jobs"], responses={404: {"description": "no such job"}})
    def job(request: Request, job: Name) -> Response:
        """One run with its layout, its open and past findings and its changes of state."""
        history = live.history
        run = _found(history.run(job), "job")

        def make() -> dict[str, Any]:
            findings = history.findings(run=job, limit=200)["items"]
            return {**run, "findings": findings, "transitions": history.transitions(job, None, None)}

        return _tagged(live, request, make)

    @app.get("/api/v1/jobs/{job}/steps", tags=["jobs"], responses={404: {"description": "no such job"}})
    def steps(request: Request, job: Name, from_ns: Time = None, to_ns: Time = None) -> Response:
        """[number, start_ns, end_ns, setup] of its steps."""
        _found(live.history.run(job), "job")
        return _tagged(live, request, lambda: {"items": live.history.steps(job, from_ns, to_ns)})

    @app.get(
        "/api/v1/jobs/{job}/timeline",
        tags=["jobs"],
        response_class=Response,
        responses={200: {"content": {"application/octet-stream": {}}}, 404: {"description": "no such job"}},
    )
    async def timeline(job: Name, from_ns: Time = None, to_ns: Time = None) -> Response:
        """Per-GPU events as binary columns (see the reference), made from the raw flows of the range."""
        run = _found(await asyncio.to_thread(live.history.run, job), "job")
        length = live.config.windows.rules().length
        end = to_ns if to_ns is not None else min(run["seen_ns"], run["silent_since_ns"] + 10**9)
        start = from_ns if from_ns is not None else max(0, end - length // 2)
        if end <= start or end - start > MAX_TIMELINE_NS:
            raise HTTPException(422, "the range must be longer than nothing and at most an hour")
        context = (max(0, min(start, end - length)), end)
        segments = await asyncio.to_thread(live.store.segments, *context)
        if sum(segment.records for segment in segments) > live.config.windows.max_records:
            raise HTTPException(422, "the range holds too many records; ask for a shorter one")
        loop = asyncio.get_running_loop()
        arguments = (segments, live.config.topology.file, context, (start, end), run["members"])
        body = await loop.run_in_executor(live.workers, timeline_bytes, *arguments)
        return Response(body, media_type="application/octet-stream")


def _findings(app: FastAPI, live: Live) -> None:
    @app.get("/api/v1/findings", tags=["findings"])
    def findings(
        request: Request,
        phase: Literal["open", "closed"] | None = None,
        job: FilterName = None,
        kind: FilterName = None,
        from_ns: Time = None,
        to_ns: Time = None,
        after: Cursor = None,
        limit: Limit = 100,
    ) -> Response:
        """Findings, the latest first."""
        return _tagged(live, request, lambda: live.history.findings(phase, job, kind, from_ns, to_ns, after, limit))

    @app.get("/api/v1/findings/{finding}", tags=["findings"], responses={404: {"description": "no such finding"}})
    def finding(finding: Name) -> dict[str, Any]:
        """One finding with its evidence, its advice and what was sent about it."""
        document: dict[str, Any] = _found(live.history.finding(finding), "finding")
        return document


def _ingest(app: FastAPI, live: Live) -> None:
    settings = live.config.http
    mapping = mapping_of(settings.map)
    most = int(settings.max_body_mb * 1e6)

    @app.post(
        "/api/v1/flows",
        tags=["ingest"],
        status_code=200,
        openapi_extra={"requestBody": {"required": True, "content": dict.fromkeys(TYPES, _BINARY)}},
        responses={
            400: {"description": "the body cannot be read"},
            413: {"description": "the body is too large"},
            415: {"description": "the media type or coding is not known"},
            503: {"description": "no room now; send it again later"},
        },
    )
    async def flows(request: Request) -> JSONResponse:
        """Flow records, stored when this answers. With `llmprism-producer` and `llmprism-sequence` (rising numbers)
        in the headers a body that is sent again is recognised and not counted twice."""
        if not settings.enabled:
            raise HTTPException(404, "pushing is switched off")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in TYPES:
            raise HTTPException(415, f"send one of {', '.join(TYPES)}")
        source, position = _position(request)
        if position is not None:
            known = await asyncio.to_thread(live.store.position, source, position[0])
            if known is not None and int(known) >= int(position[1]):
                return JSONResponse({"duplicate": True, "records": 0, "stored": 0, "late": 0, "dropped": {}})
            if position in live.in_flight:
                raise HTTPException(409, "this batch is being stored; ask again", {"retry-after": "1"})
            live.in_flight.add(position)
        try:
            payload = await _received(request, live.store.folder / "bodies" / uuid.uuid4().hex, kind, most)
            payload.source, payload.mapping = source, mapping
            payload.positions = () if position is None else (position,)
            return await _stored(live, request, payload)
        finally:
            live.in_flight.discard(position or ("", ""))


async def _received(request: Request, body: FilePath, kind: str, most: int) -> Payload:
    coding = request.headers.get("content-encoding", "").strip().lower()
    if _whole_number(request.headers.get("content-length", "0")) > most:
        raise HTTPException(413, f"the body is larger than {most:,} bytes; send smaller batches")
    try:
        size = await receive_body(request.stream(), body, coding, most)
        form = TYPES[kind]
        if form == ARROW:
            packed = body.with_suffix(".parquet")
            await asyncio.to_thread(arrow_to_parquet, body, packed, 4 * most)
            packed.replace(body)
            form = "parquet"
    except BaseException as error:
        body.unlink(missing_ok=True)
        body.with_suffix(".parquet").unlink(missing_ok=True)
        if isinstance(error, UnsupportedError):
            raise HTTPException(415, str(error)) from None
        if isinstance(error, LLMPrismError):
            raise HTTPException(413 if isinstance(error, LimitError) else 400, str(error)) from None
        raise
    return Payload("", body, size, format=form)


async def _stored(live: Live, request: Request, payload: Payload) -> JSONResponse:
    try:
        done = live.intake.put(payload)
    except QueueFullError:
        told = request.headers.get("llmprism-records")
        text = payload.format == "jsonl" and told is None
        records = await asyncio.to_thread(count_lines, payload.path) if text else _whole_number(told or "0")
        live.intake.shed(payload.source, records, payload.size)
        payload.path.unlink(missing_ok=True)
        raise HTTPException(503, "no room for more records now; send them again later", {"retry-after": "2"}) from None
    try:
        accepted = await asyncio.wrap_future(done)
    except StoreError:
        raise
    except (LimitError, ColumnError, LLMPrismError) as error:
        message = str(error).replace(str(payload.path), "body")
        raise HTTPException(413 if isinstance(error, LimitError) else 400, message) from None
    return JSONResponse(
        {
            "duplicate": False,
            "records": accepted.records,
            "stored": accepted.stored,
            "late": accepted.late,
            "dropped": dict(accepted.dropped),
        }
    )


def _position(request: Request) -> tuple[str, tuple[str, str] | None]:
    """(source, (producer, sequence)) of a push; the source of anonymous pushes is `http`."""
    producer = request.headers.get("llmprism-producer", "")
    sequence = request.headers.get("llmprism-sequence", "")
    if not producer and not sequence:
        return "http", None
    good = len(producer) <= 64 and producer.replace("-", "").replace("_", "").replace(".", "").isalnum()
    if not good or not producer.isascii() or not sequence.isascii() or not sequence.isdigit() or len(sequence) > 18:
        raise HTTPException(400, "llmprism-producer is a short name, llmprism-sequence a number that rises")
    return "http", (producer, sequence)


def _whole_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else 0


def _events(app: FastAPI, live: Live) -> None:
    @app.get("/api/v1/events", tags=["picture"], response_class=StreamingResponse)
    async def events(request: Request, once: bool = False) -> StreamingResponse:
        """Server-sent events: `revision` whenever a window was made, a comment every 15 s to keep the line open.
        With `once` the present revision is told and the stream ends."""

        async def stream() -> AsyncIterator[str]:
            last, told = "", 0.0
            while not live.stopping.is_set() and not await request.is_disconnected():
                try:
                    now = await asyncio.to_thread(live.history.revision)
                except StoreError:
                    now = last
                if now != last:
                    yield f"event: revision\nid: {now}\ndata: {json.dumps({'revision': now})}\n\n"
                    last, told = now, time.monotonic()
                elif time.monotonic() - told > 15:
                    yield ": still here\n\n"
                    told = time.monotonic()
                if once:
                    return
                await asyncio.sleep(0.7)

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})


def _page(app: FastAPI) -> None:
    folder = files("llmprism.service") / "web"

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        return Response((folder / "index.html").read_bytes(), media_type="text/html; charset=utf-8")

    @app.get("/web/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(404, "there is no such file")
        headers = {"cache-control": "no-cache"}
        return Response((folder / name).read_bytes(), media_type=f"{STATIC[name]}; charset=utf-8", headers=headers)
