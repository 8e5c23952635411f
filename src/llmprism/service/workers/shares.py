"""Cuts a window into shares that no job spans.

Two addresses are in one share when any record of the window joins them, however small, or when they are NICs of one
server: the stages never tie anything else together (rails of one job share servers, other ties need a record). Servers
that the topology declares to have no GPU join nothing; their records go with the other end. All addresses that the
topology does not know count as one place. Without a topology timing alone may tie rails together, so all is one share.

A share that holds too much is never wrong, only slow. The cut depends on the records and the settings alone, not on
who works: the same window is cut the same way with one worker and with ten.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import duckdb
import numpy as np

from llmprism.errors import StoreError
from llmprism.ingest import read_flows
from llmprism.ingest.database import Database, first_line, open_database
from llmprism.ingest.extract import readable
from llmprism.model.flows import FlowTable, Int64, Window
from llmprism.model.topology import Topology
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["Share", "decode_share", "encode_share", "plan_shares", "read_share", "seat_addresses"]

log = logging.getLogger(__name__)

Made = TypeVar("Made")

STRANGER: Final = "\0stranger"
"""The place of all addresses that the topology does not name; no server has such a name."""


@dataclass(frozen=True, slots=True)
class Share:
    """Records of a window: those with an end in `addresses` (None: all of them), and those between two of `bare`.
    `paths` are the segments that hold them, relative to the folder of flows."""

    window: Window
    paths: tuple[str, ...]
    records: int
    addresses: tuple[str, ...] | None = None
    bare: tuple[str, ...] = ()


def encode_share(share: Share) -> str:
    return json.dumps(
        {
            "window": [share.window.start_ns, share.window.end_ns],
            "paths": share.paths,
            "records": share.records,
            "addresses": share.addresses,
            "bare": share.bare,
        },
        separators=(",", ":"),
    )


def decode_share(text: str) -> Share:
    try:
        item = json.loads(text)
        named = item["addresses"]
        return Share(
            Window(*item["window"]),
            tuple(item["paths"]),
            item["records"],
            None if named is None else tuple(named),
            tuple(item["bare"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"a share cannot be read ({type(error).__name__}: {error})") from error


def plan_shares(
    folder: Path,
    paths: Sequence[str],
    window: Window,
    topology: Topology | None,
    *,
    records: int,
    most: int,
    only: Sequence[str] | None = None,
) -> list[Share]:
    """The shares of a window whose records lie in these segments, about `records` in each, `most` shares; none where
    it holds no record. `only`: just the records from or to these addresses."""

    def plan(files: list[Path]) -> list[Share]:
        with open_database() as (connection, _):
            _view(connection, files, window, only)
            src, dst, count = _pairs(connection)
            total = int(count.sum())
            if topology is None or not total:
                names = tuple(str(file.relative_to(folder)) for file in files)
                return [Share(window, names, total, None if only is None else tuple(only))] if total else []
            bare = tuple(sorted({*src, *dst} & _without_gpu(topology)))
            seats = seat_addresses(src, dst, count, topology, max(1, min(most, total // records)))
            return _shares(connection, folder, window, seats, bare)

    shares = _with_readable(folder, paths, plan) or []
    if only is None:
        return shares
    wanted = set(only)
    return [replace(one, addresses=tuple(sorted(wanted.intersection(one.addresses or ())))) for one in shares]


def seat_addresses(
    src: Sequence[str], dst: Sequence[str], records: Int64, topology: Topology, shares: int
) -> dict[str, int]:
    """Address → share, for all that have a GPU for all we know. Components are dealt out largest first, each to the
    share with the fewest records so far."""
    bare = _without_gpu(topology)
    addresses = sorted({*src, *dst} - bare)
    server_of = topology.server_of()
    places: dict[str, int] = {}
    place_of = {name: places.setdefault(server_of.get(name, STRANGER), len(places)) for name in addresses}
    ends = [(place_of.get(a, place_of.get(b)), place_of.get(b, place_of.get(a))) for a, b in zip(src, dst, strict=True)]
    joined = np.array([pair is not None for pair, _ in ends], dtype=np.bool_)
    left = np.array([a for a, _ in ends if a is not None], dtype=np.int64)
    right = np.array([b for _, b in ends if b is not None], dtype=np.int64)
    labels = component_labels(len(places), left, right)
    weight = np.bincount(labels[left], records[joined], minlength=int(labels.max(initial=-1)) + 1)
    loads = np.zeros(shares)
    seat = np.zeros(weight.size, dtype=np.int64)
    for component in np.argsort(-weight, kind="stable"):
        seat[component] = np.argmin(loads)
        loads[seat[component]] += weight[component]
    return {name: int(seat[labels[place]]) for name, place in place_of.items()}


def _without_gpu(topology: Topology) -> set[str]:
    """NICs of servers that take no part in training. As in `recognize`: only where the topology names GPUs at all."""
    nics = [nic for server in topology.servers for nic in server.nics]
    return {nic.address for nic in nics if nic.gpu is None} if any(nic.gpu is not None for nic in nics) else set()


def _with_readable(folder: Path, paths: Sequence[str], work: Callable[[list[Path]], Made]) -> Made | None:
    """What `work` makes of the segments; None where there are none. Segments that cannot be read are left out and named
    in the log."""
    files = [folder / path for path in paths if (folder / path).exists()]
    if not files:
        return None
    try:
        return work(files)
    except duckdb.Error as error:
        good, bad = readable(files)
        for file, reason in bad:
            log.error("a segment cannot be read and is left out", extra={"segment": file.name, "reason": reason})
        if not bad:
            raise StoreError(f"segments cannot be read together ({first_line(error)})") from error
        return work(good) if good else None


def _view(
    connection: Database,
    files: Sequence[Path],
    window: Window,
    addresses: Sequence[str] | None,
    bare: Sequence[str] = (),
) -> None:
    """Makes the view `recent` of the window's records: all, or those from or to `addresses` and between two `bare`."""
    names = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
    where = f"end_ns > {window.start_ns} AND end_ns <= {window.end_ns}"
    if addresses is not None:
        connection.execute("CREATE TEMP TABLE mine AS SELECT unnest($1::VARCHAR[]) AS address", [list(addresses)])
        connection.execute("CREATE TEMP TABLE bare AS SELECT unnest($1::VARCHAR[]) AS address", [list(bare)])
        ends = "src IN (FROM mine) OR dst IN (FROM mine) OR (src IN (FROM bare) AND dst IN (FROM bare))"
        where += f" AND ({ends})"
    source = f"read_parquet([{names}], union_by_name=true, filename=true)"
    connection.execute(f"CREATE TEMP VIEW recent AS SELECT * FROM {source} WHERE {where}")


def _pairs(connection: Database) -> tuple[list[str], list[str], Int64]:
    rows = connection.execute("SELECT src, dst, count(*) FROM recent GROUP BY src, dst ORDER BY src, dst").fetchall()
    return [row[0] for row in rows], [row[1] for row in rows], np.array([row[2] for row in rows], dtype=np.int64)


def _shares(
    connection: Database, folder: Path, window: Window, seats: dict[str, int], bare: tuple[str, ...]
) -> list[Share]:
    """Which segments hold records of which share: the better the topic's key, the fewer."""
    connection.execute("CREATE TEMP TABLE seats AS SELECT unnest($1) AS address, unnest($2) AS share",
                       [list(seats), list(seats.values())])  # fmt: skip
    rows = connection.execute(
        "SELECT coalesce(s.share, d.share, 0), filename, count(*) FROM recent "
        "LEFT JOIN seats AS s ON s.address = src LEFT JOIN seats AS d ON d.address = dst GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    addresses: dict[int, list[str]] = {}
    for name, seat in seats.items():
        addresses.setdefault(seat, []).append(name)
    return [
        Share(
            window,
            tuple(str(Path(file).relative_to(folder)) for number, file, _ in rows if number == share),
            sum(count for number, _, count in rows if number == share),
            tuple(sorted(addresses.get(share, ()))),
            bare if share == 0 else (),
        )
        for share in sorted({number for number, _, _ in rows})
    ]


def read_share(folder: Path, share: Share) -> FlowTable | None:
    """The records of a share; None where its segments hold none of them any more."""

    def read(files: list[Path]) -> FlowTable:
        with open_database() as (connection, spill):
            _view(connection, files, share.window, share.addresses, share.bare)
            file = spill / "share.parquet"
            connection.execute(f"COPY (SELECT * EXCLUDE (filename) FROM recent) TO '{file}' (FORMAT parquet)")
            return read_flows([file])

    flows = _with_readable(folder, share.paths, read)
    return flows if flows is not None and flows.start_ns.size else None
