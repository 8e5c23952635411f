"""Recording: two labs never share their namespaces."""

from __future__ import annotations

import os

import pytest
from lab.record import sole_user


def test_a_second_lab_with_the_same_tag_is_refused_while_the_first_runs() -> None:
    tag = f"t{os.getpid()}"
    with sole_user(tag), sole_user(f"{tag}b"), pytest.raises(RuntimeError, match="another --tag"), sole_user(tag):
        pass
    with sole_user(tag):
        pass
