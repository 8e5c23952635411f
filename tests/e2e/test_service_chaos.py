"""Three minutes of `benchmarks/service_chaos.py`: wrong clocks, dead collectors, faults, kill -9, and PostgreSQL, Kafka
and the room on the disk away, as far as this machine can have them."""

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")

from service_chaos import Chaos


def test_three_minutes_of_chaos_lose_nothing_and_blame_nobody(tmp_path):
    chaos = Chaos(tmp_path, 180, 9, 1)
    try:
        chaos.run()
        assert chaos.wrong() == []
    finally:
        chaos.close()
    assert sum(chaos.kills.values()) == len(chaos.plan.kills) > 0
    assert len(chaos.plan.outages) >= len(chaos.surroundings)
