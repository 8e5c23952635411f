"""Tables of settings as TOML text: the standard library reads TOML and does not write it.

Only what settings need: a document of settings, tables and lists of tables, one level deep; tables inside these stand
on one line. tomli-w (MIT, 14 KB) was looked at: it writes every list over several lines, unlike the files in the docs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

__all__ = ["toml_text"]

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_DELETE: Final = chr(127)
"""The one character that TOML wants escaped and JSON does not."""


def toml_text(document: Mapping[str, Any]) -> str:
    """What `tomllib.loads` reads back as the same document, with lists for tuples."""
    sections = [_lines({name: value for name, value in document.items() if not _tables(value)})]
    for name, value in document.items():
        brackets = "[{}]" if isinstance(value, Mapping) else "[[{}]]"
        sections += [f"{brackets.format(_key(name))}\n{_lines(table)}" for table in _tables(value)]
    return "\n".join(section for section in sections if section)


def _tables(value: Any) -> Sequence[Mapping[str, Any]]:
    """The tables that the value is made of; empty where it is a setting, or a list without entries."""
    if isinstance(value, Mapping):
        return [value]
    if isinstance(value, list | tuple) and all(isinstance(one, Mapping) for one in value):
        return value
    return []


def _lines(settings: Mapping[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_literal(value)}\n" for name, value in settings.items())


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _literal(name)


def _literal(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case str():
            return json.dumps(value, ensure_ascii=False).replace(_DELETE, "\\u007f")
        case list() | tuple():
            return "[" + ", ".join(map(_literal, value)) + "]"
        case Mapping():
            return "{" + ", ".join(f"{_key(name)} = {_literal(one)}" for name, one in value.items()) + "}"
    raise TypeError(f"TOML has no value of the type {type(value).__name__}")
