"""A minute of `benchmarks/service_chaos.py`: wrong clocks, dead collectors, crashes and kill -9 at once."""

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")

from service_chaos import Chaos


def test_a_minute_of_chaos_loses_nothing_and_blames_nobody(tmp_path):
    chaos = Chaos(tmp_path, 70, 9, 1)
    try:
        chaos.run()
        assert chaos.verdict() == []
    finally:
        chaos.running.stop()
    assert sum(chaos.kills.values()) > 0
