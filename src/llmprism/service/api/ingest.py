"""`POST /api/v1/flows`: a body is received under the cap, queued, and answered when it is stored."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Final

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

from llmprism.errors import LimitError, LLMPrismError, StoreError
from llmprism.service.api.live import Live
from llmprism.service.api.push import ARROW, TYPES, UnsupportedError, arrow_to_parquet, count_lines, receive_body
from llmprism.service.intake import Payload, QueueFullError
from llmprism.service.sources.directory import mapping_of

__all__ = ["add_ingest"]

_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}


def add_ingest(app: FastAPI, live: Live) -> None:
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
            body = live.store.folder / "bodies" / uuid.uuid4().hex
            try:
                payload = await _received(request, body, kind, most)
            except OSError as error:
                raise _no_disk(live, request, source, error) from None
            payload.source, payload.mapping = source, mapping
            payload.positions = () if position is None else (position,)
            return await _stored(live, request, payload)
        finally:
            live.in_flight.discard(position or ("", ""))


def _no_disk(live: Live, request: Request, source: str, error: OSError) -> HTTPException:
    """The body could not be kept: it is turned away and counted, and the service says why."""
    live.intake.shed(source, _whole_number(request.headers.get("llmprism-records", "0")), 0, "no_disk")
    live.intake.cannot_keep(error.strerror or str(error))
    return HTTPException(503, f"no room for the body now ({error.strerror}); send it again later", {"retry-after": "5"})


async def _received(request: Request, body: Path, kind: str, most: int) -> Payload:
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
