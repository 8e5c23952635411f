"""What a check while a window is made leaves behind where no job has stopped: up to when, and how many jobs wait."""

from __future__ import annotations

from collections.abc import Sequence

from llmprism.service.picture import check_document
from llmprism.service.store import Segment, WindowResult
from llmprism.service.tracker import Changes, TrackerState
from llmprism.service.windows import WindowPlan

__all__ = ["unchanged"]


def unchanged(
    since_ns: int,
    end_ns: int,
    segments: Sequence[Segment],
    through: int,
    wall_ns: int,
    took_ms: int,
    state: TrackerState,
    plan: WindowPlan,
    waiting: int,
) -> WindowResult:
    return WindowResult(
        start_ns=since_ns,
        end_ns=end_ns,
        records=sum(segment.records for segment in segments),
        through_seq=through,
        wall_ns=wall_ns,
        took_ms=took_ms,
        summary=check_document(state, f"a check while a window is made; jobs that wait for a look: {waiting}"),
        picture=None,
        layouts={},
        changes=Changes(),
        tracker=state,
        plan=plan,
    )
