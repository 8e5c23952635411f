"""Comparison with a file of `tests/gold/`. LLMPRISM_UPDATE_GOLD=1 writes it anew: look at the difference first."""

from __future__ import annotations

import os
from pathlib import Path

GOLD = Path(__file__).parents[1] / "gold"


def assert_gold(name: str, content: str) -> None:
    path = GOLD / name
    if os.environ.get("LLMPRISM_UPDATE_GOLD"):
        path.write_text(content, encoding="utf-8")
    assert path.exists(), f"{path} is missing: run once with LLMPRISM_UPDATE_GOLD=1"
    assert content == path.read_text(encoding="utf-8")
