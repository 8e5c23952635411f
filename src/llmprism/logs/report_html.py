# ruff: noqa: E501 (markup)
"""LogDiagnosis → one self-contained HTML page: the verdict, the lines in context, a rank x time heat-map.

Everything that comes from a log goes through `html.escape`; the page has no script and a policy that forbids any.
"""

from __future__ import annotations

import html
import math
from typing import Final

from llmprism.model.log import EventHeat, LogDiagnosis, LogEvent, LogLine, Suspect

__all__ = ["render_html"]

_CELL: Final = 14
_LABEL_WIDTH: Final = 170
_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}.badge{padding:.1rem .6rem;border-radius:1rem;color:#fff}
.failed{background:#b42318}.success{background:#1a7f37}.cancelled,.time_limit{background:#9a6700}.running,.unknown{background:#57606a}
pre{background:#f6f8fa;border-radius:6px;padding:.6rem;overflow-x:auto;font-size:12.5px;line-height:1.45}
.hit{background:#ffe2dd;display:block}.role{font-weight:600}.root{color:#b42318}.cascade{color:#9a6700}.symptom{color:#57606a}
table{border-collapse:collapse}td,th{padding:.25rem .8rem;text-align:left;border-bottom:1px solid #d8dee4}
figure{margin:0;overflow-x:auto}figcaption{color:#57606a;font-size:13px}
@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}pre{background:#161b22}.hit{background:#4a1d18}td,th{border-color:#30363d}svg text{fill:#e6edf3}}
"""


def _e(text: object) -> str:
    shown = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return html.escape(shown, quote=True)


def _colour(count: int, most: int) -> str:
    """White for nothing to dark red for the most, on a logarithmic scale."""
    if not count:
        return "#8881"
    share = math.log1p(count) / math.log1p(max(most, 1))
    return f"hsl(8 75% {round(80 - 45 * share)}%)"


def _heat(heat: EventHeat) -> str:
    most = max((max(row) for row in heat.counts), default=0)
    columns = len(heat.counts[0]) if heat.counts else 0
    width, height = _LABEL_WIDTH + columns * _CELL, len(heat.rows) * _CELL + 24
    parts = [
        f'<svg role="img" aria-label="failure lines per rank over time" width="{width}" height="{height}" xmlns="http://www.w3.org/2000/svg">'
    ]
    seconds = heat.bucket_ns / 1e9
    for y, (label, row) in enumerate(zip(heat.rows, heat.counts, strict=True)):
        parts.append(
            f'<text x="{_LABEL_WIDTH - 8}" y="{y * _CELL + 11}" text-anchor="end" font-size="11">{_e(label[:28])}</text>'
        )
        for x, count in enumerate(row):
            title = f"{label}: {count} lines, {x * seconds:.0f}-{(x + 1) * seconds:.0f} s"
            parts.append(
                f'<rect x="{_LABEL_WIDTH + x * _CELL}" y="{y * _CELL}" width="{_CELL - 1}" height="{_CELL - 1}" fill="{_colour(count, most)}"><title>{_e(title)}</title></rect>'
            )
    parts.append(f'<text x="{_LABEL_WIDTH}" y="{height - 6}" font-size="11">0 s</text>')
    parts.append(
        f'<text x="{width - 4}" y="{height - 6}" text-anchor="end" font-size="11">{columns * seconds:.0f} s</text></svg>'
    )
    caption = "Failure lines of each rank over the time of the logs; darker is more. A row that stays empty while the others fill is a silent rank."
    return f"<figure>{''.join(parts)}<figcaption>{caption}</figcaption></figure>"


def _context(line: LogLine, *, hit: bool) -> str:
    row = f"{line.line:>7}  {line.text.rstrip()}"
    return f'<span class="hit">{_e(row)}</span>' if hit else _e(row) + "\n"


def _event(event: LogEvent) -> str:
    ranks = ", ".join(map(str, event.ranks[:32])) + (" …" if len(event.ranks) > 32 else "")
    head = f'<span class="role {event.role.value}">{event.role.value}</span> {_e(event.first_line.file)}:{event.first_line.line}, {event.count} lines'
    if ranks:
        head += f", ranks {ranks}"
    if event.signature:
        head += f" [{_e(event.signature)}]"
    body = "".join(_context(line, hit=False) for line in event.before)
    body += _context(event.first_line, hit=True)
    body += "".join(_context(line, hit=False) for line in event.after)
    return f"<section><p>{head}</p><pre>{body}</pre></section>"


def _name(suspect: Suspect) -> str:
    rank = f"rank {suspect.rank}" if suspect.rank is not None else ""
    return f"{rank} ({suspect.node})" if rank and suspect.node else rank or suspect.node or "unknown"


def render_html(diagnosis: LogDiagnosis, title: str = "LLMPrism log diagnosis") -> str:
    cause = diagnosis.cause
    at = f", iteration {diagnosis.iteration}" if diagnosis.iteration is not None else ""
    suspects = "".join(
        f"<tr><td>{_e(s.rank if s.rank is not None else '')}</td><td>{_e(s.node or '')}</td><td>{s.score:.2f}</td><td>{_e(s.why)}</td></tr>"
        for s in diagnosis.suspects
    )
    table = (
        f"<table><tr><th>rank</th><th>node</th><th>score</th><th>why</th></tr>{suspects}</table>"
        if suspects
        else "<p>Nobody: no rank differs from the others.</p>"
    )
    signs = "".join(f"<li>{_e(sign.kind.value)}: {_e(sign.summary)}</li>" for sign in diagnosis.signs)
    others = diagnosis.ranking[len(diagnosis.suspects) :]
    more = "".join(f"<li>{_e(_name(s))}, {s.score:.2f}: {_e(s.why)}</li>" for s in others)
    notes = "".join(f"<li>{_e(note)}</li>" for note in diagnosis.notes)
    counts = diagnosis.input
    dropped = "".join(f"; {count} {_e(reason)}" for reason, count in counts.dropped)
    heat = f"<h2>Where and when</h2>{_heat(diagnosis.heat)}" if diagnosis.heat else ""
    events = "".join(_event(event) for event in diagnosis.events[:20])
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{_e(title)}</title><style>{_STYLE}</style></head><body>
<h1>{_e(title)}</h1>
<p><span class="badge {diagnosis.outcome.value}">{diagnosis.outcome.value}</span> {diagnosis.symptom.value}, stage {diagnosis.stage.value}{at}</p>
<h2>Cause: {cause.cause_class.value} (confidence {cause.confidence:.2f})</h2><p>{_e(cause.summary)}</p><p>{_e(cause.advice)}</p>
<h2>Suspects</h2>{table}
{f"<h2>Next to look at</h2><ul>{more}</ul>" if more else ""}
{f"<h2>What the numbers show</h2><ul>{signs}</ul>" if signs else ""}
{heat}
<h2>Lines that matter</h2>{events or "<p>None.</p>"}
{f"<h2>Notes</h2><ul>{notes}</ul>" if notes else ""}
<p>Read {counts.lines} lines of {counts.files} files, {counts.ranks} ranks, {counts.nodes} nodes{dropped}.</p>
</body></html>
"""
