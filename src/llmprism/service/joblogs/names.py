"""Names of jobs and writers as names of files: nothing that could lead out of a folder."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_name", "safe_name"]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")


def is_name(text: str) -> bool:
    """Whether a text may be the name of a job or writer."""
    return bool(_NAME.fullmatch(text)) and ".." not in text


def safe_name(text: str, default: str) -> str:
    """The text with what a name cannot hold replaced; the default where nothing is left."""
    name = _ODD.sub("-", text).strip(".-_")[:64].strip(".-_").replace("..", ".")
    return name if is_name(name) else default
