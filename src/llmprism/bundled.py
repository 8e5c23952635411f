"""The captures of real training that come with the tool: the folder `examples/` of the source tree.

In an installed package the same folder lies inside the package (see `force-include` in pyproject.toml), so that what
uses them works from a wheel and from a checkout alike.
"""

from __future__ import annotations

from pathlib import Path

from llmprism.errors import InputError

__all__ = ["bundled_captures"]

_PACKAGE = Path(__file__).parent
_FOLDERS = (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples")
"""Inside an installed package; in a source checkout."""


def bundled_captures() -> dict[str, Path]:
    """Name → folder of every bundled capture, in order."""
    for folder in _FOLDERS:
        found = sorted(path.parent for path in folder.glob("*/flows.parquet"))
        if found:
            return {path.name: path for path in found}
    raise InputError("the bundled captures are missing: reinstall llmprism, or run from a source checkout")
