"""`POST /api/v1/logs`: lines of one writer of a job's logs, kept within bounds; `GET /api/v1/jobs/{job}/logs`: how they
were read.

    curl --data-binary @rank3.log -H 'content-type: text/plain' '.../api/v1/logs?job=train&writer=rank3'

The answer counts every line: received = stored + dropped.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Annotated

from fastapi import FastAPI, HTTPException, Path, Query, Request
from fastapi.responses import JSONResponse

from llmprism.errors import LimitError, LLMPrismError
from llmprism.service.api.live import Live
from llmprism.service.api.push import UnsupportedError, receive_body
from llmprism.service.joblogs.settings import PUSHED, spool_of

__all__ = ["add_job_logs"]

_Name = Annotated[str, Query(max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*$")]


def add_job_logs(app: FastAPI, live: Live) -> None:
    settings = live.config.job_logs
    spool = spool_of(live.config, PUSHED) if settings.enabled else None

    @app.get("/api/v1/jobs/{job}/logs", tags=["jobs"], responses={404: {"description": "no such job"}})
    def job_logs(job: Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]) -> JSONResponse:
        """How the logs of a run were read: who is who, the hosts' clocks, and lines about trouble at their times; null
        where no logs were found to be its."""
        if live.history.run(job) is None:
            raise HTTPException(404, "there is no such job")
        text = live.history.run_logs(job)
        return JSONResponse({"logs": json.loads(text) if text else None})

    @app.post(
        "/api/v1/logs",
        tags=["ingest"],
        status_code=200,
        openapi_extra={"requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}}},
        responses={
            400: {"description": "the body cannot be read"},
            404: {"description": "logs are switched off"},
            408: {"description": "the body did not come in time"},
            413: {"description": "the body is too large"},
            415: {"description": "the content coding is not known"},
            503: {"description": "no room now; send it again later"},
        },
    )
    async def logs(request: Request, job: _Name, writer: _Name) -> JSONResponse:
        """Lines of one writer (a rank, a host) of a job's logs, stored when this answers."""
        if spool is None:
            raise HTTPException(404, "logs are switched off: set job_logs.enabled")
        if live.receiving >= live.config.http.max_open:
            raise HTTPException(503, "too many bodies are being received; send it later", {"retry-after": "2"})
        live.receiving += 1
        body = live.store.folder / "bodies" / uuid.uuid4().hex
        try:
            async with asyncio.timeout(live.config.http.body_timeout_s):
                coding = request.headers.get("content-encoding", "").strip().lower()
                await receive_body(request.stream(), body, coding, int(settings.max_body_mb * 1e6))
            text = await asyncio.to_thread(body.read_bytes)
            taken = await asyncio.to_thread(spool.append, job, writer, text)
        except TimeoutError:
            raise HTTPException(408, "the body did not come in time", {"connection": "close"}) from None
        except UnsupportedError as error:
            raise HTTPException(415, str(error)) from None
        except LLMPrismError as error:
            raise HTTPException(413 if isinstance(error, LimitError) else 400, str(error)) from None
        except OSError as error:
            message = f"no room for the lines now ({error.strerror})"
            raise HTTPException(503, message, {"retry-after": "5"}) from None
        finally:
            live.receiving -= 1
            body.unlink(missing_ok=True)
        counts = [("received", "", taken.received), ("stored", "", taken.stored)]
        counts += [("dropped", reason, number) for reason, number in taken.dropped.items()]
        await asyncio.to_thread(live.store.add_counts, "job_logs:http", counts)
        return JSONResponse({"received": taken.received, "stored": taken.stored, "dropped": dict(taken.dropped)})
