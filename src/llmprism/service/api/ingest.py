"""`POST /api/v1/flows`: a body is received under the cap, queued, and answered when it is stored.

Every push belongs to a source: `http:NAME` where the producer gives a name, else `http`. What is turned away is counted
under it. Bodies that are being received are limited in number, and each in time: a client that sends a byte a minute
holds its place for a while and no longer.
"""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Final

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

from llmprism.errors import LimitError, LLMPrismError, StoreError
from llmprism.service.api.live import Live
from llmprism.service.api.numbering import Numbering
from llmprism.service.api.push import ARROW, TYPES, UnsupportedError, arrow_to_parquet, count_lines, receive_body
from llmprism.service.intake import Payload, QueueFullError
from llmprism.service.sources.directory import mapping_of

__all__ = ["HTTP", "add_ingest", "clean_producer", "push_source"]

HTTP: Final = "http"
MAX_PRODUCERS: Final = 2_000
"""Producers with counters and clocks of their own; those that come later share `http`."""

_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}


def add_ingest(app: FastAPI, live: Live) -> None:
    settings = live.config.http
    mapping = mapping_of(settings.map)

    @app.post(
        "/api/v1/flows",
        tags=["ingest"],
        status_code=200,
        openapi_extra={"requestBody": {"required": True, "content": dict.fromkeys(TYPES, _BINARY)}},
        responses={
            400: {"description": "the body cannot be read"},
            408: {"description": "the body did not come in time"},
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
        producer, number = _numbered(request)
        source = push_source(live, producer)
        if live.receiving >= settings.max_open:
            live.intake.shed(source, _stated(request), 0)
            raise HTTPException(503, "too many bodies are being received; send it later", {"retry-after": "2"})
        if number is not None and (producer, number) in live.in_flight:
            raise HTTPException(409, "this batch is being stored; ask again", {"retry-after": "1"})
        live.in_flight.add((producer, number))
        live.receiving += 1
        received = False
        try:
            body = live.store.folder / "bodies" / uuid.uuid4().hex
            try:
                payload, digest = await _received(request, body, kind, live)
            except OSError as error:
                raise _no_disk(live, request, source, error) from None
            live.receiving, received = live.receiving - 1, True
            payload.source, payload.mapping, payload.records = source, mapping, _stated(request)
            if number is not None and await _is_repeat(live, payload, producer, number, digest):
                body.unlink(missing_ok=True)
                return JSONResponse({"duplicate": True, "records": 0, "stored": 0, "late": 0, "dropped": {}})
            return await _stored(live, payload)
        finally:
            live.receiving -= 0 if received else 1
            live.in_flight.discard((producer, number))


async def _is_repeat(live: Live, payload: Payload, producer: str, number: int, digest: str) -> bool:
    """Was this body stored before? If not, its number goes with it."""
    known = Numbering.parse(await asyncio.to_thread(live.store.position, HTTP, producer))
    if known.is_repeat(number, digest):
        live.intake.count(payload.source, "repeated_requests", "", 1)
        return True
    if known.restarts(number, digest):
        live.intake.count(payload.source, "renumbered", "", 1)
        known = Numbering()
    payload.positions, payload.positions_of = ((producer, known.after(number, digest).text()),), HTTP
    return False


def push_source(live: Live, producer: str) -> str:
    """The source that a push is counted under."""
    if not producer:
        return HTTP
    if producer not in live.producers:
        if len(live.producers) >= MAX_PRODUCERS:
            return HTTP
        live.producers.add(producer)
    return f"{HTTP}:{producer}"


def _no_disk(live: Live, request: Request, source: str, error: OSError) -> HTTPException:
    """The body could not be kept: it is turned away and counted, and the service says why."""
    live.intake.shed(source, _stated(request), 0, "no_disk")
    live.intake.cannot_keep(source, error.strerror or str(error))
    return HTTPException(503, f"no room for the body now ({error.strerror}); send it again later", {"retry-after": "5"})


async def _received(request: Request, body: Path, kind: str, live: Live) -> tuple[Payload, str]:
    """The body as a file, with its digest."""
    settings, most = live.config.http, int(live.config.http.max_body_mb * 1e6)
    coding = request.headers.get("content-encoding", "").strip().lower()
    if _whole_number(request.headers.get("content-length", "0")) > most:
        raise HTTPException(413, f"the body is larger than {most:,} bytes; send smaller batches")
    form = TYPES[kind]
    try:
        async with asyncio.timeout(settings.body_timeout_s):
            received = await receive_body(request.stream(), body, coding, most)
        if form == ARROW:
            packed = body.with_suffix(".parquet")
            records = live.config.store.batch_records
            await asyncio.to_thread(arrow_to_parquet, body, packed, 4 * most, records)
            packed.replace(body)
            form = "parquet"
    except BaseException as error:
        body.unlink(missing_ok=True)
        body.with_suffix(".parquet").unlink(missing_ok=True)
        if isinstance(error, TimeoutError):
            message = f"the body did not come within {settings.body_timeout_s:.0f} s; send smaller batches"
            raise HTTPException(408, message, {"connection": "close"}) from None
        if isinstance(error, UnsupportedError):
            raise HTTPException(415, str(error)) from None
        if isinstance(error, LLMPrismError):
            raise HTTPException(413 if isinstance(error, LimitError) else 400, str(error)) from None
        raise
    return Payload("", body, received.size, format=form), received.digest


async def _stored(live: Live, payload: Payload) -> JSONResponse:
    try:
        done = live.intake.put(payload)
    except QueueFullError:
        text = payload.format == "jsonl" and not payload.records
        records = await asyncio.to_thread(count_lines, payload.path) if text else payload.records
        live.intake.shed(payload.source, records, payload.size)
        payload.path.unlink(missing_ok=True)
        raise HTTPException(503, "no room for more records now; send them again later", {"retry-after": "2"}) from None
    try:
        accepted = await asyncio.wrap_future(done)
    except StoreError:
        raise
    except LLMPrismError as error:
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


def _numbered(request: Request) -> tuple[str, int | None]:
    """(producer, number) of a push; ("", None) of an anonymous one."""
    producer = request.headers.get("llmprism-producer", "")
    sequence = request.headers.get("llmprism-sequence", "")
    if not producer and not sequence:
        return "", None
    if not clean_producer(producer) or not sequence.isascii() or not sequence.isdigit() or len(sequence) > 18:
        raise HTTPException(400, "llmprism-producer is a short name, llmprism-sequence a number that rises")
    return producer, int(sequence)


def clean_producer(name: str) -> str:
    """The name, or nothing where it is none that may be shown."""
    good = len(name) <= 64 and name.isascii() and name.replace("-", "").replace("_", "").replace(".", "").isalnum()
    return name if good else ""


def _stated(request: Request) -> int:
    """How many records the sender says there are; 0 where it does not."""
    return _whole_number(request.headers.get("llmprism-records", "0"))


def _whole_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else 0
