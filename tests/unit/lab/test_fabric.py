"""The fabric: what it makes it can remove."""

from __future__ import annotations

import pytest
from lab.fabric import build
from lab.scenario import FOLDER, read_scenario


def test_a_tag_whose_namespaces_nobody_would_remove_is_refused_before_anything_is_made() -> None:
    with pytest.raises(RuntimeError, match="must begin with 'lp'"):
        build(read_scenario(str(FOLDER / "gloo-short.toml")), "q")
