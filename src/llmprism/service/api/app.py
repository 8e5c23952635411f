"""The routes. Everything under `/api/v1` answers JSON (the timeline: binary); `/` is the page; `/metrics` Prometheus.

Answers that depend on the store carry an ETag made of its revision, so that a page that asks again for what has not
changed gets 304 and no body. Errors have one shape: `{"error": {"slug", "message"}}`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import BrokenExecutor
from contextlib import AbstractAsyncContextManager
from importlib.resources import files
from typing import Annotated, Any, Final, Literal

from fastapi import FastAPI, HTTPException, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException as StarletteHTTPException

from llmprism import __version__
from llmprism.errors import StoreError
from llmprism.service.api.guard import Guard
from llmprism.service.api.ingest import add_ingest, clean_producer, push_source
from llmprism.service.api.job_logs import add_job_logs
from llmprism.service.api.live import Live
from llmprism.service.history import MAX_NS, MAX_PAGE
from llmprism.service.metrics import ServiceGauges, render
from llmprism.service.timeline import timeline_bytes
from llmprism.service.workers.shared_store import SharedStore
from llmprism.service.workers.worker_metrics import render_worker

__all__ = ["Live", "create_app"]

STATIC: Final = {
    "app.js": "text/javascript",
    "dom.js": "text/javascript",
    "elements.js": "text/javascript",
    "format.js": "text/javascript",
    "charts.js": "text/javascript",
    "timeline.js": "text/javascript",
    "overview.js": "text/javascript",
    "job.js": "text/javascript",
    "logs.js": "text/javascript",
    "finding.js": "text/javascript",
    "switches.js": "text/javascript",
    "history.js": "text/javascript",
    "tokens.css": "text/css",
    "logs.css": "text/css",
    "style.css": "text/css",
    "icon.svg": "image/svg+xml",
}
SHARED: Final = ("elements.js", "tokens.css", "logs.css")
"""Files that the HTML report brings along."""

MAX_TIMELINE_NS: Final = 3_600 * 10**9
"""One hour per request: a thousand GPUs' events of an hour are more than a page can hold anyway."""

MAX_CRASHED: Final = 100
"""Crashed jobs of the last hour that the first page shows, besides all that live."""

SCANNED: Final = 8
"""Times the most records of a window that may be scanned for those of one job: some ten seconds of work."""

RECENT_STEPS: Final = 30_000
"""Steps on the first page, of all jobs together: about a megabyte."""

MOST_RECENT: Final = 150
LEAST_RECENT: Final = 20
"""Steps of one job on the first page: as many as its small chart has points, or enough to see a trend."""

Time = Annotated[int | None, Query(ge=0, le=MAX_NS, description="nanoseconds since the Unix epoch")]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]
Cursor = Annotated[str | None, Query(max_length=100, pattern=r"^[0-9]{1,19}:[A-Za-z0-9._-]{0,64}$")]
Name = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
FilterName = Annotated[str | None, Query(max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]
State = Literal["started", "running", "slowed", "stalled", "hung", "crashed", "ended", "restarted"]


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

    def on_limited(headers: Headers) -> None:
        """A push that came too soon after others: its records are counted as dropped."""
        records = headers.get("llmprism-records", "0")
        source = push_source(live, clean_producer(headers.get("llmprism-producer", "")))
        live.intake.shed(source, int(records) if records.isdecimal() and len(records) <= 12 else 0, 0, "rate_limit")

    app.add_middleware(Guard, config=live.config, on_limited=on_limited)
    _errors(app)
    _health(app, live)
    _overview(app, live)
    _jobs(app, live)
    _findings(app, live)
    add_ingest(app, live)
    add_job_logs(app, live)
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
        text = render(live.history, gauges) + render_worker(live.store)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


def _first_page(live: Live) -> dict[str, Any]:
    """Jobs that live or crashed lately, and what else the first page shows of now."""
    history = live.history
    picture = history.picture()
    end = picture.get("window", {}).get("end_ns", 0)
    living = ("started", "running", "slowed", "stalled", "hung", "restarted")
    since = max(0, end - MAX_TIMELINE_NS)
    runs = history.runs(states=living, limit=MAX_PAGE, since_ns=since)["items"]
    runs += history.runs(states=("crashed",), limit=MAX_CRASHED, since_ns=since)["items"]
    each = max(LEAST_RECENT, min(MOST_RECENT, RECENT_STEPS // max(len(runs), 1)))
    recent = history.recent_steps([run["id"] for run in runs], end - 300 * 10**9, each)
    for run in runs:
        run["recent"] = recent[run["id"]]
    ended = history.runs(states=("ended",), limit=20)["items"]
    return {
        "revision": history.revision(),
        "now_ns": time.time_ns(),
        "latest_ns": live.store.watermark()[0],
        "picture": picture,
        "window": history.last_window(),
        "late_window": history.late_window(),
        "jobs": runs,
        "ended": ended,
        "findings": history.findings(phase="open", limit=MAX_PAGE)["items"],
        "closed": history.findings(phase="closed", limit=20)["items"],
        "transitions": history.transitions(None, None, None, 30),
        "sources": history.sources(),
        "shedding": live.intake.sheds_until > time.monotonic(),
        "queued_bytes": live.intake.queued_bytes,
        "troubles": live.troubles(),
        "clocks": live.clock_sentences(),
        "version": __version__,
    }


def _overview(app: FastAPI, live: Live) -> None:
    @app.get("/api/v1/overview", tags=["picture"])
    def overview() -> Response:
        """Everything that the first page shows: jobs, open findings, servers, switches, sources, troubles."""
        return JSONResponse(_first_page(live))

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

    @app.get("/api/v1/workers", tags=["service"])
    def workers() -> dict[str, Any]:
        """The workers that share the cluster's records; none where this service is alone."""
        return {"items": live.store.workers() if isinstance(live.store, SharedStore) else []}

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
        return await _timeline(live, job, from_ns, to_ns)


async def _timeline(live: Live, job: str, from_ns: int | None, to_ns: int | None) -> Response:
    """The events of a run in a range, made by the process of the timelines; by default the end of what was seen."""
    run = _found(await asyncio.to_thread(live.history.run, job), "job")
    length = max(live.config.windows.rules().length, run.get("reach_ns", 0))
    most = live.config.windows.max_records
    end = to_ns if to_ns is not None else min(run["seen_ns"], run["silent_since_ns"] + 10**9)
    start = from_ns if from_ns is not None else max(0, end - length // 2)
    if end <= start or end - start > MAX_TIMELINE_NS:
        raise HTTPException(422, "the range must be longer than nothing and at most an hour")
    context = (max(0, min(start, end - length)), end)
    segments = await asyncio.to_thread(live.store.segments, *context)
    if sum(segment.records for segment in segments) > SCANNED * most:
        raise HTTPException(422, "the range holds too many records; ask for a shorter one")
    arguments = (
        segments,
        live.config.topology.file,
        context,
        (start, end),
        run["members"],
        live.store.incoming,
        most,
    )
    try:
        body = await asyncio.wrap_future(live.timelines.submit(timeline_bytes, *arguments))
    except BrokenExecutor:
        raise HTTPException(503, "the timeline's process was killed; ask again", {"retry-after": "2"}) from None
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


def _events(app: FastAPI, live: Live) -> None:
    @app.get("/api/v1/events", tags=["picture"], response_class=StreamingResponse)
    async def events(request: Request, once: bool = False) -> StreamingResponse:
        """Server-sent events: `revision` whenever a window was made, a comment every 15 s to keep the line open.
        With `once` the present revision is sent and the stream ends."""

        async def stream() -> AsyncIterator[str]:
            last, sent_s = "", 0.0
            while not live.stopping.is_set() and not await request.is_disconnected():
                try:
                    now = await asyncio.to_thread(live.history.revision)
                except StoreError:
                    now = last
                if now != last:
                    yield f"event: revision\nid: {now}\ndata: {json.dumps({'revision': now})}\n\n"
                    last, sent_s = now, time.monotonic()
                elif time.monotonic() - sent_s > 15:
                    yield ": still here\n\n"
                    sent_s = time.monotonic()
                if once:
                    return
                await asyncio.sleep(0.7)

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})


def _page(app: FastAPI) -> None:
    folder = files("llmprism.service") / "web"
    shared = files("llmprism.report.html") / "static"

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        return Response((folder / "index.html").read_bytes(), media_type="text/html; charset=utf-8")

    @app.get("/web/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(404, "there is no such file")
        headers = {"cache-control": "no-cache"}
        place = shared if name in SHARED else folder
        return Response((place / name).read_bytes(), media_type=f"{STATIC[name]}; charset=utf-8", headers=headers)
