"""Jobs for tests and benchmarks of the service: rings of GPUs that exchange gradients once a step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

S = 1_000_000_000
BEGIN = 1_790_000_000 * S


@dataclass
class RingJob:
    """Steps of `period_s` until `until_s` (the end of a step); in the time between `pauses` it does nothing, and after
    `crashes_at_s` neither, also in the middle of a step. `begin_ns` is second 0."""

    name: str
    gpus: int = 8
    period_s: float = 0.5
    until_s: float = 1e9
    pauses: tuple[tuple[float, float], ...] = ()
    chunks: int = 6
    crashes_at_s: float = 1e9
    begin_ns: int = BEGIN

    def records(self, start_s: float, end_s: float) -> list[tuple[int, int, str, str, int]]:
        """(start_ns, end_ns, src, dst, bytes) of the records that end in this time."""
        made = []
        for step in range(int(start_s / self.period_s) - 1, int(end_s / self.period_s) + 2):
            begin = step * self.period_s
            if step < 0 or begin + self.period_s > self.until_s or any(a <= begin < b for a, b in self.pauses):
                continue
            for chunk in range(self.chunks):
                at = begin + self.period_s * (0.6 + 0.35 * chunk / self.chunks)
                end = at + self.period_s * 0.35 / self.chunks
                if start_s <= end < min(end_s, self.crashes_at_s):
                    span = self.begin_ns + int(at * S), self.begin_ns + int(end * S)
                    made += [
                        (span[0] + gpu, span[1] + gpu, self._gpu(gpu), self._gpu((gpu + 1) % self.gpus), 20_000_000)
                        for gpu in range(self.gpus)
                    ]
        return made

    def _gpu(self, index: int) -> str:
        return f"{self.name}-gpu{index}"


def write_records(
    database: duckdb.DuckDBPyConnection, path: Path, records: list[tuple[int, int, str, str, int]], offset_s: float
) -> None:
    start, end, src, dst, size = (np.array(column) for column in zip(*records, strict=True))
    move = int(offset_s * S)
    columns = {"start_ns": start + move, "end_ns": end + move, "src": src, "dst": dst, "bytes": size}
    database.register("sent", columns)
    database.execute(f"COPY (SELECT * FROM sent) TO '{path}' (FORMAT parquet)")
    database.unregister("sent")
