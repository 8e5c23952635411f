"""How much training traffic each switch carries, for which jobs, and how fast it flows.

Every job sums up what it sends over each path; only these sums meet. Where a thousand jobs cross a thousand switches
there are hundreds of thousands of them, so they stay arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from llmprism.arrays import Float64, Int32, Int64
from llmprism.kernel import kernel
from llmprism.model.flows import TransferTable, ranges
from llmprism.model.report import SwitchLoad
from llmprism.model.topology import Topology

__all__ = ["PathLoads", "named_loads", "numbered_loads", "path_loads", "switch_loads"]


@dataclass(frozen=True, slots=True)
class PathLoads:
    """What one job sends over each of its paths: bytes, pairs that begin on it, and the rate in Gb/s while it sends."""

    paths: tuple[tuple[str, ...], ...]
    bytes: Int64
    pairs: Int64
    rate_gbps: Float64


def path_loads(transfers: TransferTable) -> PathLoads:
    """The loads of all paths that the transfers take, in the order of the paths."""
    return named_loads(transfers.paths, *numbered_loads(transfers))


def numbered_loads(transfers: TransferTable) -> tuple[Int64, Int64, Int64, Float64]:
    """The numbers of the paths that the transfers take, and the loads of each as in `PathLoads`."""
    first = transfers.path[transfers.pair_offsets[:-1][np.diff(transfers.pair_offsets) > 0]]
    size, active, pairs = _by_path(transfers.path, transfers.bytes, transfers.active_ns, first)
    used = np.flatnonzero(size)
    return used, size[used], pairs[used], 8 * size[used] / np.maximum(active[used], 1)


def named_loads(
    names: Sequence[tuple[str, ...]], used: Int64, size: Int64, pairs: Int64, rate_gbps: Float64
) -> PathLoads:
    """`numbered_loads` with the names of the paths."""
    return PathLoads(tuple(names[path] for path in used.tolist()), size, pairs, rate_gbps)


def _by_path_with_arrays(path: Int32, size: Int64, active: Int64, first: Int32) -> tuple[Int64, Int64, Int64]:
    """The kernel below without a loop."""
    known = path >= 0
    count = int(path.max(initial=-1)) + 1
    bytes_of, active_of = (
        np.bincount(path[known], amount[known], minlength=count).astype(np.int64) for amount in (size, active)
    )
    return bytes_of, active_of, np.bincount(first[first >= 0], minlength=count).astype(np.int64)


@kernel(small=_by_path_with_arrays)
def _by_path(path: Int32, size: Int64, active: Int64, first: Int32) -> tuple[Int64, Int64, Int64]:
    """Bytes, active nanoseconds and pairs of every path; `first` has the path of each pair's first transfer."""
    count = 0
    for row in range(path.size):
        count = max(count, path[row] + 1)
    bytes_of, active_of, pairs_of = np.zeros((3, count), dtype=np.int64)
    for row in range(path.size):
        if path[row] >= 0:
            bytes_of[path[row]] += size[row]
            active_of[path[row]] += active[row]
    for pair in range(first.size):
        if first[pair] >= 0:
            pairs_of[first[pair]] += 1
    return bytes_of, active_of, pairs_of


def switch_loads(jobs: Sequence[tuple[str, PathLoads]], topology: Topology | None) -> tuple[SwitchLoad, ...]:
    """Training traffic through each switch on the records' paths, from the jobs' ids and their loads."""
    names, code, load = _switches_of([path for _, loads in jobs for path in loads.paths])
    if not names:
        return ()
    size, pairs, rate = (
        np.concatenate([getattr(loads, name) for _, loads in jobs]) for name in ("bytes", "pairs", "rate_gbps")
    )
    place = np.empty(size.size, dtype=np.int64)
    place[np.lexsort((size, rate))] = np.arange(size.size)  # of each load by its rate, once and not at every switch
    job = np.repeat(np.arange(len(jobs)), [len(loads.paths) for _, loads in jobs])[load]
    order = np.argsort(code * size.size + place[load])
    size, pairs, rate = size[load], pairs[load], rate[load]
    bounds = np.searchsorted(code[order], np.arange(len(names) + 1))
    total, users = (np.add.reduceat(amount[order], bounds[:-1]) for amount in (size, pairs))
    median = rate[order][_half_way(size[order], bounds, total)]
    jobs_of = _jobs_of(code, job, len(names), [name for name, _ in jobs])
    tier = topology.tier_of() if topology else {}
    return tuple(
        SwitchLoad(name, tier.get(name), int(total[i]), int(users[i]), float(median[i]), jobs_of[i])
        for i, name in enumerate(names)
    )


def _switches_of(paths: Sequence[tuple[str, ...]]) -> tuple[list[str], Int64, Int64]:
    """(names in order, for every passage of a switch its number in them, and the path that passes)."""
    number: dict[tuple[str, ...], int] = {}
    which = np.array([number.setdefault(path, len(number)) for path in paths], dtype=np.int64)
    crossed = [path if len(set(path)) == len(path) else tuple(dict.fromkeys(path)) for path in number]
    names = sorted(set(chain.from_iterable(crossed)))
    code = {name: i for i, name in enumerate(names)}
    flat = np.array([*map(code.__getitem__, chain.from_iterable(crossed))], dtype=np.int64)
    count = np.array([*map(len, crossed)], dtype=np.int64)
    start = np.cumsum(count) - count
    passed = flat[ranges(start[which], start[which] + count[which])]
    return names, passed, np.repeat(np.arange(which.size), count[which])


def _half_way(size: Int64, bounds: Int64, total: Int64) -> Int64:
    """For each stretch of `size` between two bounds, where its running sum reaches half of the total."""
    running = np.concatenate([[0], np.cumsum(size)])
    half = running[bounds[:-1]] + (total + 1) // 2
    return np.searchsorted(running[1:], half, side="left")


def _jobs_of(code: Int64, job: Int64, switches: int, ids: Sequence[str]) -> list[tuple[str, ...]]:
    """The jobs at each switch, in their order."""
    met = np.unique(code * len(ids) + job)
    bounds = np.searchsorted(met // len(ids), np.arange(switches + 1))
    return [
        tuple(ids[one] for one in (met[low:high] % len(ids)).tolist())
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
