"""Scores that need not be measured again, because nothing that they depend on has changed.

A score is kept under a digest of the sources that its method imports (those of the published rules are few and change
seldom), of the simulator and the scorer, and of the input: the text of a scenario or the bytes of a capture. So a run
that was interrupted goes on where it stopped, and after a change of our stages the published rules are not run again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmprism.engine.value_codec import from_values, to_values
from llmprism.kernel_sources import PACKAGE, sources

__all__ = ["METHODS", "KeptScores"]

METHODS = {"paper": "pipeline/published.py", "prism": "pipeline/__init__.py"}
"""Where each method begins; the sources that it imports from there decide what it says."""

ALWAYS = ("cli/diagnose.py", "ingest/__init__.py", "report/json_report.py", "score/__init__.py", "sim/__init__.py")
"""Read whatever the method is. Of the command only its own file counts: it imports every method."""


class KeptScores:
    """Results of one type in a folder."""

    def __init__(self, folder: Path, kind: type[Any]) -> None:
        self._folder, self._kind = folder, kind

    def find(self, method: str, given: bytes) -> Any | None:
        """What was kept of this method on this input; None where there is nothing, or it cannot be read."""
        try:
            values = json.loads(self._file(method, given).read_text(encoding="utf-8"))
            return from_values(values, self._kind, _unpacked)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, method: str, given: bytes, result: Any) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(to_values(result, self._kind, lambda array: array.tolist()))
        self._file(method, given).write_text(text, encoding="utf-8")

    def _file(self, method: str, given: bytes) -> Path:
        digest = hashlib.sha256(given)
        files = set(sources(PACKAGE / METHODS[method]))
        for name in ALWAYS:
            files |= {PACKAGE / name} if name.startswith("cli/") else sources(PACKAGE / name)
        for file in sorted(files):
            digest.update(file.read_bytes())
        return self._folder / f"{method}-{digest.hexdigest()[:24]}.json"


def _unpacked(values: Any, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    array: NDArray[Any] = np.array(values, dtype=dtype)
    if array.size != count:
        raise ValueError("an array of another size")
    return array
