"""The captures that come with the tool."""

from __future__ import annotations

import pytest

from llmprism import bundled
from llmprism.errors import InputError


def test_every_bundled_capture_has_its_topology():
    captures = bundled.bundled_captures()
    assert list(captures) == ["crash", "pp4dp2tp2", "slow_nic"]
    assert all((folder / "topology.json").exists() for folder in captures.values())


def test_missing_captures_are_one_clear_error(monkeypatch, tmp_path):
    monkeypatch.setattr(bundled, "_FOLDERS", (tmp_path,))
    with pytest.raises(InputError, match="bundled captures are missing"):
        bundled.bundled_captures()
