"""Puts the page together: template, style, scripts and data in one file that opens offline.

The page carries a content security policy that allows this very style and this very script by their hashes and
nothing else: no request, no other script, no form, no frame. The data stand in a script element of type
`application/json`, which no browser runs; every `<`, `>` and `&` in them is written as a JSON escape, so that no name
can end the element. The script puts text on the page through `textContent` only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any, Final

from llmprism import __version__
from llmprism.model.report import Report
from llmprism.report.html.data import page_data

__all__ = ["LOG_SCRIPT", "SCRIPTS", "render", "script_safe_json"]

SCRIPTS: Final = (
    "elements.js",
    "dom.js",
    "format.js",
    "data.js",
    "tooltip.js",
    "verdict.js",
    "findings.js",
    "cluster.js",
    "layout.js",
    "steps.js",
    "timeline.js",
    "timeline_view.js",
    "jobs.js",
    "switches.js",
    "input.js",
    "main.js",
)
"""In the order in which they run; together they are one closed function, in which nothing is exported."""

LOG_SCRIPT: Final = "logs.js"
LOG_STYLE: Final = "logs.css"
"""In the page, the script before the last one, only where logs were read: without them the page is as it was."""


def render(report: Report) -> bytes:
    """The page as UTF-8 bytes; equal reports give equal pages."""
    style = _static("tokens.css") + _static("page.css")
    names: tuple[str, ...] = SCRIPTS
    if report.reading is not None:
        style += _static(LOG_STYLE)
        names = (*SCRIPTS[:-1], LOG_SCRIPT, SCRIPTS[-1])
    script = (
        '(() => {\n"use strict";\n' + "\n".join(_static(name) for name in names).replace("\nexport ", "\n") + "})();\n"
    )
    parts = {
        "csp": html.escape(_policy(style, script)),
        "version": html.escape(__version__),
        "style": style,
        "script": script,
        "data": script_safe_json(page_data(report)),
    }
    pieces = _static("template.html").split("@@")
    filled = [piece if index % 2 == 0 else parts[piece] for index, piece in enumerate(pieces)]
    return "".join(filled).encode("utf-8")


def script_safe_json(value: Any) -> str:
    """JSON in ASCII that stands safely inside a script element."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _static(name: str) -> str:
    return files("llmprism.report.html").joinpath("static", name).read_text(encoding="utf-8")
