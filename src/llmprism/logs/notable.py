"""Lines about trouble with who wrote them and when, for reports that show them on a timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llmprism.logs.incidents import find_end_marks, find_incidents
from llmprism.logs.joblog import JobLog
from llmprism.logs.members import LogMembers
from llmprism.logs.progress import Progress
from llmprism.model.log import CountedLine

__all__ = ["MAX_LINES", "NotableLine", "notable_lines"]

MAX_LINES: Final = 2_000
"""Lines of one job: more than anybody reads, and less than a megabyte of a page."""

_MAX_CHARS: Final = 400


@dataclass(frozen=True, slots=True)
class NotableLine(CountedLine):
    """A line of one actor. `time_ns` 0: unknown.

    `survived`: the run went on after it. `late`: it came after the run had ended well. `cause`, `meaning` and `advice`
    are what the fault library says of such lines, None and empty where it says nothing. `node` is the host that the
    line or its file names: kernel logs belong to a host, not to a rank. `iteration` is the last one that the same file
    counted before the line. `time_out`: somebody gave up waiting, nothing broke.
    """

    actor: int
    time_ns: int
    cause: str | None
    survived: bool
    late: bool
    node: str | None = None
    meaning: str = ""
    advice: str = ""
    iteration: int | None = None
    time_out: bool = False


def notable_lines(log: JobLog, members: LogMembers, progress: Progress) -> tuple[NotableLine, ...]:
    """The lines that bear on failure, in order of time; of too many those that stopped the run are kept."""
    incidents = find_incidents(log, members, progress, find_end_marks(log, progress), None)
    kept = sorted(
        range(len(incidents)), key=lambda at: (not incidents[at].terminal, not incidents[at].proves_failure, at)
    )
    lines = []
    for at in sorted(kept[:MAX_LINES]):
        one = incidents[at]
        place = log.places.get((one.shape, one.writer))
        exact = place is not None and (place.file, place.line) == (one.file, one.line)
        text = place.text if place is not None and exact else log.texts.get(one.row, log.shapes[one.shape].text)
        lines.append(
            NotableLine(
                log.files[one.file].name,
                one.line,
                text[:_MAX_CHARS],
                one.count,
                one.role.value if one.role is not None else "error",
                one.fault.id if one.fault else None,
                actor=one.actor,
                time_ns=one.time_ns,
                cause=one.fault.cause.value if one.fault else None,
                survived=not one.terminal and not one.late,
                late=one.late,
                node=log.writers[one.writer].identity.node or log.file_identity[one.file].node,
                meaning=one.fault.summary if one.fault else "",
                advice=one.fault.advice if one.fault else "",
                time_out=one.fault is not None and one.fault.hang,
                iteration=progress.iteration_at(one.file, one.line, 0) if progress.tracks[one.file].line.size else None,
            )
        )
    return tuple(lines)
