"""LogDiagnosis → a short text for a terminal: the verdict first, then the few lines that matter, in context.

Text from logs is untrusted: control bytes are shown as escapes, so that no log can move the cursor or set colours.
"""

from __future__ import annotations

from typing import Final

from llmprism.model.log import EventRole, LogDiagnosis, LogEvent, LogLine, Suspect

__all__ = ["harmless", "render_terminal"]

_MAX_EVENTS: Final = 6
_MAX_OTHERS: Final = 3
_MAX_LINE_CHARS: Final = 180
_ROLE_WORDS: Final = {EventRole.ROOT: "ROOT", EventRole.CASCADE: "cascade", EventRole.SYMPTOM: "symptom"}


def harmless(text: str, limit: int = _MAX_LINE_CHARS) -> str:
    """The text with every character that a terminal could act on shown as an escape, cut at `limit` characters."""
    shown = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}" for c in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _suspect(suspect: Suspect) -> str:
    who = f"rank {suspect.rank}" if suspect.rank is not None else "node"
    node = f" ({harmless(suspect.node, 60)})" if suspect.node else ""
    return f"  {who}{node}, score {suspect.score:.2f}: {harmless(suspect.why, 200)}"


def _ranks(ranks: tuple[int, ...]) -> str:
    if not ranks:
        return ""
    shown = ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")
    return f", {'rank' if len(ranks) == 1 else f'{len(ranks)} ranks:'} {shown}"


def _context(line: LogLine, mark: str) -> str:
    return f"    {mark} {line.line:>7}  {harmless(line.text.strip())}"


def _event(event: LogEvent) -> list[str]:
    where = f"{harmless(event.first_line.file, 80)}:{event.first_line.line}"
    signature = f" [{event.signature}]" if event.signature else ""
    rows = [f"  {_ROLE_WORDS[event.role]}{signature}  {where}  x{event.count}{_ranks(event.ranks)}"]
    if event.role is EventRole.ROOT:
        rows += [_context(line, " ") for line in event.before]
    rows.append(_context(event.first_line, ">"))
    if event.role is EventRole.ROOT:
        rows += [_context(line, " ") for line in event.after]
    return rows


def render_terminal(diagnosis: LogDiagnosis) -> str:
    counts, cause = diagnosis.input, diagnosis.cause
    at = f", iteration {diagnosis.iteration}" if diagnosis.iteration is not None else ""
    symptom = f" ({diagnosis.symptom.value})" if diagnosis.symptom.value != "none" else ""
    rows = [
        f"{diagnosis.outcome.value}{symptom} in stage {diagnosis.stage.value}{at}",
        f"cause: {cause.cause_class.value}  confidence {cause.confidence:.2f}"
        + (f"  [{cause.signature}]" if cause.signature else ""),
        f"  {harmless(cause.summary, 400)}",
    ]
    if cause.advice:
        rows.append(f"  do: {harmless(cause.advice, 400)}")
    rows.append("suspects:" if diagnosis.suspects else "suspects: none")
    rows += [_suspect(suspect) for suspect in diagnosis.suspects]
    others = diagnosis.ranking[len(diagnosis.suspects) :][:_MAX_OTHERS]
    if others:
        rows.append("next to look at:" if diagnosis.suspects else "nobody stands out; if one must be looked at first:")
        rows += [_suspect(suspect) for suspect in others]
    if diagnosis.signs:
        rows.append("what the numbers show:")
        rows += [f"  {sign.kind.value}: {harmless(sign.summary, 300)}" for sign in diagnosis.signs]
    if diagnosis.events:
        rows.append("lines that matter:")
        for event in diagnosis.events[:_MAX_EVENTS]:
            rows += _event(event)
        more = len(diagnosis.events) - _MAX_EVENTS
        if more > 0:
            rows.append(f"  … and {more} more kinds of lines (see --json)")
    rows += [f"note: {harmless(note, 300)}" for note in diagnosis.notes]
    dropped = "".join(f"; {count} {reason}" for reason, count in counts.dropped)
    rows.append(
        f"read: {counts.lines} lines of {counts.files} files, {counts.ranks} ranks, {counts.nodes} nodes{dropped}"
    )
    return "\n".join(rows) + "\n"
