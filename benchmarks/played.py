"""A random scenario played for the programs that fit weights: its files, and until when it was watched."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from llmprism.sim import Scenario, simulate
from llmprism.sim.simulation import EPOCH_NS


@contextmanager
def played(scenario: Scenario) -> Iterator[tuple[Path, int]]:
    """A folder with the scenario's records, topology and truth, and the end of its window."""
    with tempfile.TemporaryDirectory(prefix="played-") as work:
        simulate(scenario, Path(work))
        yield Path(work), EPOCH_NS + int(scenario.seconds * 1e9)
