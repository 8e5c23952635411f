"""Jobs with a history, for `service_chaos`: they come, stand still, crash and come back, are slowed by a NIC, and go.

A job is a ring of GPUs that exchange gradients once a step, in chunks. All of its chunks are laid out once, so that
what ends in a second is a look into an array; every transfer is moved by chance a little, because what repeats to the
nanosecond is no network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["SECOND", "Fault", "FaultKind", "Records", "ScheduledJob", "columns_of"]

SECOND: Final = 1_000_000_000
COMPUTES: Final = 0.6
"""Share of a step before its exchange."""

EXCHANGES: Final = 0.35
SLOWER: Final = 3.0
"""How many times longer the transfers of a slow NIC take: steps take 1.7 times as long."""

JITTER_NS: Final = 2_000_000
BYTES: Final = 20_000_000


class FaultKind(StrEnum):
    HANG = "hang"
    CRASH = "crash"
    SLOW = "slow"


@dataclass(frozen=True, slots=True)
class Fault:
    """From `at_s` on. A job that hangs goes on in the same exchange, one that crashes begins anew, after `lasts_s`."""

    kind: FaultKind
    at_s: float
    lasts_s: float
    gpu: int = 0

    @property
    def end_s(self) -> float:
        return self.at_s + self.lasts_s


@dataclass(frozen=True, slots=True)
class Records:
    """Columns; times in ns from second 0 of the run."""

    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    src: list[str]
    dst: list[str]

    def __len__(self) -> int:
        return len(self.src)


def columns_of(records: Sequence[Records], move_ns: int) -> dict[str, NDArray[Any]]:
    """As the service takes them, with all times moved."""
    start = np.concatenate([one.start_ns for one in records]) + move_ns
    end = np.concatenate([one.end_ns for one in records]) + move_ns
    src = np.array([name for one in records for name in one.src])
    dst = np.array([name for one in records for name in one.dst])
    return {"start_ns": start, "end_ns": end, "src": src, "dst": dst, "bytes": np.full(start.size, BYTES)}


@dataclass
class ScheduledJob:
    """Steps of `period_s` from `comes_s` to `goes_s`, with these faults in between, in order of time."""

    name: str
    period_s: float
    comes_s: float = 0.0
    goes_s: float = 1e9
    faults: tuple[Fault, ...] = ()
    gpus: int = 8
    chunks: int = 6
    seed: int = 0
    _laid_until_s: float = field(default=-1.0, init=False)

    def address(self, gpu: int) -> str:
        return f"{self.name}-gpu{gpu % self.gpus}"

    def records(self, second: int, until_s: float) -> Records:
        """What ends in this second of a run that lasts until `until_s`."""
        self._lay_out(until_s)
        first, last = np.searchsorted(self._end, (second * SECOND, (second + 1) * SECOND))
        start, end, slow = self._start[first:last], self._end[first:last], self._slow[first:last]
        count = end.size
        gpu = np.tile(np.arange(self.gpus), count)
        length = np.repeat(end - start, self.gpus)
        usual = np.repeat(self._usual[first:last], self.gpus)
        length = np.where(np.repeat(slow, self.gpus) == gpu, length, usual)
        chance = np.random.default_rng((self.seed, second)).integers(-JITTER_NS, JITTER_NS, (2, gpu.size))
        begin = np.repeat(start, self.gpus) + chance[0]
        sources = [self.address(one) for one in gpu.tolist()]
        return Records(begin, begin + length + chance[1], sources, [self.address(one + 1) for one in gpu.tolist()])

    def _lay_out(self, until_s: float) -> None:
        if self._laid_until_s >= until_s:
            return
        rows = np.array(list(self._chunks(until_s)), dtype=np.float64).reshape(-1, 4)
        self._start = (rows[:, 0] * SECOND).astype(np.int64)
        self._end = (rows[:, 1] * SECOND).astype(np.int64)
        self._usual = (rows[:, 2] * SECOND).astype(np.int64)
        self._slow = rows[:, 3].astype(np.int64)
        self._laid_until_s = until_s

    def _chunks(self, until_s: float) -> Iterator[tuple[float, float, float, int]]:
        """(start, end, how long a healthy NIC takes, the slow GPU or -1) of every chunk of every exchange."""
        usual = self.period_s * EXCHANGES / self.chunks
        stops = [one for one in self.faults if one.kind is not FaultKind.SLOW]
        at = self.comes_s
        while at < until_s:
            slow = next((one for one in self.faults if one.kind is FaultKind.SLOW and one.at_s <= at < one.end_s), None)
            takes = usual * (SLOWER if slow else 1.0)
            if at + self.period_s * (1 - EXCHANGES) + self.chunks * takes > self.goes_s:
                return
            at += self.period_s * COMPUTES
            crashed = False
            for chunk in range(self.chunks):
                stop = stops[0] if stops and chunk == self.chunks // 2 and at >= stops[0].at_s else None
                if stop is not None:
                    stops.pop(0)
                    at += stop.lasts_s
                    crashed = stop.kind is FaultKind.CRASH
                    if crashed:
                        break
                yield at, at + takes, usual, slow.gpu if slow else -1
                at += takes
            if not crashed:
                at += self.period_s * (1 - COMPUTES - EXCHANGES)
