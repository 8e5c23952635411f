"""Who may do what: bearer tokens with scopes, host names, request rates, and the headers that keep a browser strict.

Tokens are compared as SHA-256 digests in constant time. Without tokens everything is allowed, which the configuration
permits on loopback or behind a trusted proxy only; a page of another site must still not reach a service on loopback
through the visitor's browser, so the Host header has to be one that is known, and writes have to be of the same origin.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llmprism.service.config import LOOPBACK, Config

__all__ = ["CONTENT_SECURITY_POLICY", "Guard", "RateLimit"]

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = (
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
_OPEN_PATHS: Final = ("/healthz", "/readyz")
"""Answered without a token: probes have none, and they tell nothing about the cluster."""

_PUSH_PATH: Final = "/api/v1/flows"
"""Pushes are limited per producer: many of them may sit behind one address. What is refused is counted."""

BURST_S: Final = 5.0
MAX_CLIENTS: Final = 10_000
"""Clients remembered for their rate; the one that has been quiet longest is forgotten."""


class RateLimit:
    """A token bucket per client: `per_s` requests a second, in bursts of up to five seconds' worth."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._full = per_s * BURST_S
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, client: str, now_s: float) -> bool:
        level, at = self._buckets.pop(client, (self._full, now_s))
        level = min(self._full, level + (now_s - at) * self._per_s)
        allowed = level >= 1.0
        self._buckets[client] = (level - 1.0 if allowed else level, now_s)
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return allowed


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, config: Config, on_limited: Callable[[Headers], None]) -> None:
        self._app = app
        self._on_limited = on_limited
        self._tokens = [(bytes.fromhex(token.sha256), frozenset(token.scopes)) for token in config.token]
        self._hosts = frozenset((*LOOPBACK, config.server.host, *config.server.allowed_hosts))
        self._any_host = config.public() and not config.server.allowed_hosts
        self._rate = RateLimit(config.server.requests_per_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS:
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None and refusal.status_code == 429 and scope["path"] == _PUSH_PATH:
            self._on_limited(Headers(scope=scope))
        answer: ASGIApp = self._app if refusal is None else refusal
        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        client = scope["client"][0] if scope.get("client") else ""
        if scope["path"] == _PUSH_PATH:
            client += " " + headers.get("llmprism-producer", "")[:64]
        if not self._rate.allows(client, time.monotonic()):
            return _error(429, "too_many_requests", "too many requests; slow down", {"retry-after": "1"})
        if not self._any_host and _host(headers.get("host", "")) not in self._hosts:
            return _error(421, "unknown_host", "this host name is not served here; see server.allowed_hosts")
        writes = scope["method"] not in ("GET", "HEAD", "OPTIONS")
        if writes and _is_cross_site(headers):
            return _error(403, "cross_site", "requests from other sites are refused")
        path = scope["path"]
        if not self._tokens or path in _OPEN_PATHS or not path.startswith(("/api/", "/metrics", "/openapi.json")):
            return None
        return self._authorised(headers.get("authorization", ""), _needed(path, writes))

    def _authorised(self, header: str, needed: str) -> JSONResponse | None:
        kind, _, text = header.partition(" ")
        digest = hashlib.sha256(text.strip().encode()).digest()
        scopes: frozenset[str] = frozenset()
        for known, granted in self._tokens:
            if hmac.compare_digest(known, digest):
                scopes |= granted
        if kind.lower() != "bearer" or not scopes:
            challenge = {"www-authenticate": 'Bearer realm="llmprism"'}
            return _error(401, "unauthorized", "a bearer token is needed", challenge)
        if needed in scopes or "admin" in scopes:
            return None
        return _error(403, "forbidden", f"this token lacks the scope {needed}")


def _is_cross_site(headers: Headers) -> bool:
    """Was this sent by a page of another site? Browsers that are too old to say so name the page's origin, or at least
    the page."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("none", "same-origin")
    page = headers.get("origin") or headers.get("referer")
    return page is not None and urlsplit(page).netloc.lower() != headers.get("host", "").lower()


def _needed(path: str, writes: bool) -> str:
    if path.startswith("/api/v1/admin"):
        return "admin"
    return "ingest" if writes else "read"


def _host(header: str) -> str:
    """The name in a Host header, without the port and the brackets of an IPv6 address."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()


def _error(status: int, slug: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": {"slug": slug, "message": message}}, status, headers)
