"""What the evaluator's process says of itself to its parent: when it last succeeded, and what failed since.

Two values in shared memory. The clock is the kernel's monotonic one, which both processes read alike.
"""

from __future__ import annotations

import multiprocessing.context
import time
from collections.abc import Callable
from typing import Any, Final

__all__ = ["Heartbeat"]

SILENT_S: Final = 120.0
"""A window of the most records allowed takes half a minute; an evaluator that has not come round for so long hangs."""

FAILING_S: Final = 5.0
"""Failures that last longer than a restart of the database are said."""

REASON_BYTES: Final = 300


class Heartbeat:
    """Made in the parent and given to the child."""

    def __init__(
        self, context: multiprocessing.context.BaseContext, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._now_s = now_s
        self._success_s: Any = context.Value("d", now_s())
        self._reason: Any = context.Array("c", REASON_BYTES)

    def __getstate__(self) -> dict[str, Any]:
        return {"_success_s": self._success_s, "_reason": self._reason}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._now_s = time.monotonic
        self._success_s, self._reason = state["_success_s"], state["_reason"]

    def succeeded(self) -> None:
        self._success_s.value = self._now_s()
        self._reason.value = b""

    def failed(self, reason: str) -> None:
        self._reason.value = reason.encode(errors="replace")[: REASON_BYTES - 1]

    def age_s(self) -> float:
        return float(self._now_s() - self._success_s.value)

    def trouble(self) -> str:
        """Why no windows are made, or nothing."""
        reason = self._reason.value.decode(errors="replace")
        if reason and self.age_s() > FAILING_S:
            return f"no window has been made for {self.age_s():.0f} s: {reason}"
        if self.age_s() > SILENT_S:
            return f"no window has been made for {self.age_s():.0f} s: the evaluator does not answer"
        return ""
