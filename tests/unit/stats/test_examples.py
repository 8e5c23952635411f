"""The seeded examples in the docstrings give exactly what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name", ["bursts", "change_points", "disjoint_sets", "integer_order", "robust", "stretches", "sigma_rule"]
)
def test_docstring_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"llmprism.stats.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
