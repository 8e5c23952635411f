"""A confirmed diagnosis → an entry of the fault library, shown before it is saved.

The pattern is made from the root line of the report: words stay, what varies (numbers, paths, names with numbers)
becomes what the pattern language has for it. The line itself goes into the entry as its example, so that
`logs library test` fails if the pattern is edited until it no longer fits.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from llmprism.errors import FormatError, UsageError
from llmprism.logs.library import FaultRole, parse_library
from llmprism.logs.report_json import SCHEMA
from llmprism.model.log import CauseClass

__all__ = ["entry_from_report", "pattern_of_line"]

_MAX_EXAMPLE_CHARS: Final = 400
_PREFIX: Final = re.compile(
    r"^(?:\s*(?:\d{1,6}: |\[(?:rank|default)\d+\]:|\[\d+,\d+\]<\w+>:|\([^)]*pid=[^)]*\) |[\w.-]+:\d+:\d+ \[\d+\]"
    r"|\[?\d{4}-\d\d-\d\d[T _]\d\d:\d\d:\d\d[.,\d]*Z?\]?|\[?[DIWEF]\d{4} \d\d:\d\d:\d\d[.\d]*))*\s*"
)
_VARIES: Final = re.compile(r"(?:/[\w.@+-]+){2,}/?|0x[0-9a-fA-F]+|[\w.-]*\d[\w.:-]*")
_SPECIAL: Final = re.compile(r"([\\.^$*+?{}\[\]|()])")


def pattern_of_line(line: str) -> str:
    """A pattern that this line and others of its kind match."""
    text = _PREFIX.sub("", line.rstrip())[:_MAX_EXAMPLE_CHARS]
    parts: list[str] = []
    at = 0
    for match in _VARIES.finditer(text):
        parts += [_SPECIAL.sub(r"\\\1", text[at : match.start()]), r"\S+"]
        at = match.end()
    parts.append(_SPECIAL.sub(r"\\\1", text[at:]))
    pattern = "".join(parts).strip()
    words = re.findall(r"[A-Za-z]{3,}", pattern)
    if len(words) < 2:
        raise UsageError(f"the line has too few words for a pattern: {text[:80]!r}")
    return pattern


def _root_event(document: dict[str, Any]) -> dict[str, Any]:
    events = document.get("events")
    for role in ("root", "cascade", "symptom"):
        for event in events if isinstance(events, list) else ():
            if isinstance(event, dict) and event.get("role") == role:
                return event
    raise UsageError("the report shows no line that an entry could be made from")


def entry_from_report(
    text: str, *, entry_id: str, cause: str | None, summary: str | None, advice: str | None, source: str | None
) -> str:
    """The entry as TOML, checked: it parses and matches its own example."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not a report of `logs diagnose --json`: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise FormatError(f"not a report of `logs diagnose --json` (schema {SCHEMA})")
    event = _root_event(document)
    line = str((event.get("first_line") or {}).get("text", ""))
    example = _PREFIX.sub("", line.rstrip())[:_MAX_EXAMPLE_CHARS]
    reported = document.get("cause") if isinstance(document.get("cause"), dict) else {}
    assert isinstance(reported, dict)  # noqa: S101 (just made so)
    chosen = cause or str(reported.get("class", "unknown"))
    if chosen in (CauseClass.NONE.value, CauseClass.UNKNOWN.value):
        raise UsageError("the report does not know the class of the cause: say it with --class")
    fields = {
        "id": entry_id,
        "pattern": pattern_of_line(line),
        "class": chosen,
        "role": FaultRole.ROOT.value,
        "summary": summary or str(reported.get("summary", "")).split(";")[0],
        "advice": advice or str(reported.get("advice", "")),
        "source": source or "a diagnosis confirmed at this site",
    }
    entry = "[[fault]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items() if value)
    entry += f"examples = [{json.dumps(example)}]\n"
    parse_library(entry, "the new entry")
    return entry
