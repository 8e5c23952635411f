"""HTTP connections that cost something: those that say nothing are closed, the oldest first when there are many.

A client that opens connections and sends no request would otherwise hold all places for as long as it likes, without
a token. A connection has some seconds to send the headers of its first request; of more than `MAX_SILENT` silent ones
the oldest is closed, so a newcomer always gets in.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["HEADER_S", "MAX_SILENT", "PatientProtocol"]

HEADER_S: Final = 15.0
"""Time for the headers of a request: slow networks need one, senders of a byte a second need for ever."""

MAX_SILENT: Final = 200
"""Connections that have not sent a request yet: more than any burst of honest clients."""

_silent: OrderedDict[int, PatientProtocol] = OrderedDict()


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP protocol with a limit on silence."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_headers()
        while len(_silent) > MAX_SILENT:
            _, oldest = _silent.popitem(last=False)
            oldest._give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self._heard()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        requests = self.cycle
        super().data_received(data)
        if self.cycle is not requests:
            self._heard()
        elif self.cycle is not None and self.cycle.response_complete and self._deadline is None:
            self._wait_for_headers()

    def _wait_for_headers(self) -> None:
        _silent[id(self)] = self
        self._deadline = self.loop.call_later(HEADER_S, self._give_up)

    def _heard(self) -> None:
        _silent.pop(id(self), None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._heard()
        transport: Any = self.transport
        if transport is not None and not transport.is_closing():
            transport.abort()
