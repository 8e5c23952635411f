"""Sends what the windows have put into the outbox: to Alertmanager (API v2) and to webhooks.

A message is tried until it is delivered, with growing pauses; after the last try it stays as a dead letter with its
error. That a finding opened is tried for as long as it is open: a receiver that was away hears of it when it is back,
and one that was configured meanwhile hears of it too. Receivers do not wait for each other. Repeats are harmless: the
alert's identity is the finding's id. Alertmanager forgets alerts that are not repeated, so those of open findings are
sent again at intervals, with an end that lies a few intervals ahead: should this service die, they resolve by
themselves. A message that has been overtaken (opened, not delivered, closed since) is still sent, in order, so that
receivers see both.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sql

from llmprism import __version__
from llmprism.errors import StoreError
from llmprism.model.live import FindingPhase, TrackedFinding
from llmprism.service import schema
from llmprism.service.codec import decode_finding
from llmprism.service.config import AlertSettings
from llmprism.service.messages import (
    ALERTMANAGER,
    CLOSED,
    OPENED,
    SEVERITIES,
    alert_document,
    shown_target,
    targets_of,
)
from llmprism.service.store import Store

__all__ = ["AlertSender", "alertmanager_alerts", "post_json"]

log = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 300.0
POLL_S: Final = 1.0
BATCH: Final = 100
ENDS_AHEAD: Final = 4
"""Intervals after which an alert that is not repeated resolves by itself."""

Post = Callable[[str, Any, float], None]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A receiver that redirects is misconfigured; following it could send the alert anywhere."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect)


def post_json(url: str, document: Any, timeout_s: float) -> None:
    """Raises OSError (URLError, HTTPError) unless the receiver answers 2xx."""
    body = json.dumps(document).encode()
    headers = {"content-type": "application/json", "user-agent": f"llmprism/{__version__}"}
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 - the config allows http(s) only
    with _opener.open(request, timeout=timeout_s) as answer:
        answer.read(1 << 16)


def alertmanager_alerts(document: dict[str, Any], now: datetime, ahead: timedelta) -> list[dict[str, Any]]:
    """The alert of a message, for Alertmanager's API v2; one that is open ends by itself `ahead` of now.

    One that ends is named with either severity: labels are an alert's identity, and the severity may have changed since
    it was opened. To end what nobody knows does nothing. No alert starts, and none that is closed ends, after `now`:
    records carry the clocks of their exporters, and Alertmanager prolongs an alert whose end lies ahead of its own.
    """
    labels = document["labels"]
    ended = document["event"] == CLOSED
    starts = min(datetime.fromisoformat(document["starts_at"]), now)
    ends = min(datetime.fromisoformat(document["ends_at"]), now) if ended else now + ahead
    return [
        {
            "labels": {**labels, "severity": severity},
            "annotations": document["annotations"],
            "startsAt": starts.isoformat(),
            "endsAt": ends.isoformat(),
            "generatorURL": document["url"],
        }
        for severity in (SEVERITIES if ended else (labels["severity"],))
    ]


class AlertSender:
    """`run` in a thread of its own until `stop` is set."""

    def __init__(
        self,
        settings: AlertSettings,
        store: Store,
        post: Post = post_json,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._settings = settings
        self._store = store
        self._post = post
        self._now_ns = now_ns
        self._repeat_at_ns = 0

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(POLL_S):
            try:
                self.send_due()
                self.repeat_open()
            except StoreError as error:
                log.warning("alerts wait for the store", extra={"reason": str(error)})

    def send_due(self) -> int:
        """Tries every message whose time has come; returns how many were delivered. A target that fails keeps its
        later messages waiting, so that their order stays."""
        table = schema.outbox
        waiting = table.c.status == "waiting"
        with self._store.reading() as connection:
            targets = connection.execute(sql.select(table.c.target).where(waiting).distinct()).scalars().all()
        return sum(self._send_to(target) for target in sorted(targets))

    def _send_to(self, target: str) -> int:
        """Tries the messages of one target in order, until one is not due or fails."""
        table = schema.outbox
        mine = (table.c.status == "waiting") & (table.c.target == target)
        with self._store.reading() as connection:
            rows = connection.execute(sql.select(table).where(mine).order_by(table.c.id).limit(BATCH)).all()
        sent = 0
        for row in rows:
            if row.due_wall_ns > self._now_ns():
                break
            error = self._try(target, json.loads(row.document))
            self._note(row, error)
            if error is not None:
                break
            sent += 1
        return sent

    def catch_up(self) -> int:
        """Messages for targets that were never notified of a finding that is open; returns how many were made."""
        table, findings = schema.outbox, schema.findings
        made = 0
        with self._store.reading() as connection:
            opened = connection.execute(sql.select(findings).where(findings.c.phase == "open")).all()
            rows = connection.execute(sql.select(table.c.target, table.c.finding)).all()
        known = {(row.target, row.finding) for row in rows}
        for row in opened:
            for target in targets_of(self._settings):
                if (target, row.id) not in known:
                    self._tell_late(target, row)
                    made += 1
        return made

    def _tell_late(self, target: str, row: Any) -> None:
        stored = json.loads(row.document)
        finding = decode_finding(stored)
        tracked = TrackedFinding(row.id, finding, FindingPhase.OPEN, opened_ns=row.opened_ns, updated_ns=row.updated_ns)
        document = alert_document(tracked, OPENED, self._settings, row.updated_ns, why=stored.get("why"))
        now = self._now_ns()
        values = {"target": target, "finding": row.id, "event": OPENED, "status": "waiting", "attempts": 0}
        values |= {"due_wall_ns": now, "wall_ns": now, "error": "", "document": json.dumps(document)}
        with self._store.writing() as connection:
            connection.execute(schema.outbox.insert().values(**values))

    def repeat_open(self) -> None:
        """Sends the alerts of open findings to every Alertmanager again, once per interval."""
        if self._now_ns() < self._repeat_at_ns or not targets_of(self._settings):
            return
        self._repeat_at_ns = self._now_ns() + int(self._settings.resend_s * 1e9)
        self.catch_up()
        table, findings = schema.outbox, schema.findings
        query = (
            sql.select(table.c.target, table.c.finding, table.c.document)
            .join(findings, findings.c.id == table.c.finding)
            .where((findings.c.phase == "open") & (table.c.status == "sent"))
            .order_by(table.c.id)
        )
        with self._store.reading() as connection:
            rows = connection.execute(query).all()
        # the last word on every finding: its cause may have become known, and its labels with it
        latest = {(row.target, row.finding): row.document for row in rows if row.target.startswith(ALERTMANAGER)}
        for (target, _), document in latest.items():
            self._try(target, json.loads(document))

    def _try(self, target: str, document: dict[str, Any]) -> str | None:
        kind, _, url = target.partition(":")
        try:
            if kind == ALERTMANAGER:
                ahead = timedelta(seconds=ENDS_AHEAD * self._settings.resend_s)
                alerts = alertmanager_alerts(document, datetime.fromtimestamp(self._now_ns() / 1e9, UTC), ahead)
                self._post(url.rstrip("/") + "/api/v2/alerts", alerts, self._settings.timeout_s)
            else:
                self._post(url, document, self._settings.timeout_s)
        except (OSError, ValueError) as error:
            return f"{type(error).__name__}: {error}"[:500]
        return None

    def _is_open(self, row: Any) -> bool:
        """Is this the news of a finding that is still open?"""
        if row.event != OPENED:
            return False
        table = schema.findings
        with self._store.reading() as connection:
            phase = connection.execute(sql.select(table.c.phase).where(table.c.id == row.finding)).scalar()
        return phase == FindingPhase.OPEN

    def _note(self, row: Any, error: str | None) -> None:
        attempts = row.attempts + 1
        dead = error is not None and attempts >= self._settings.attempts and not self._is_open(row)
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (attempts - 1))
        values = {
            "attempts": attempts,
            "status": "sent" if error is None else "dead" if dead else "waiting",
            "error": error or "",
            "due_wall_ns": self._now_ns() + int(pause * 1e9),
        }
        with self._store.writing() as connection:
            connection.execute(schema.outbox.update().where(schema.outbox.c.id == row.id).values(**values))
        if error is not None:
            log.warning(
                "alert not delivered", extra={"target": shown_target(row.target), "reason": error, "dead": dead}
            )
