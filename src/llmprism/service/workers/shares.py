"""Cuts a window into shares that no job spans.

Two addresses are in one share when any record of the window joins them, however small, or when they are NICs of one
server: the stages never tie anything else together (rails of one job share servers, other ties need a record). So the
components of the graph of places (`places`) are what must stay together. Without a topology timing alone may tie rails
together, and all is one place, hence one share.

A share that holds too much is never wrong, only slow. The cut depends on the records and the settings alone, not on
who works: the same window is cut the same way with one worker and with ten.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import duckdb
import numpy as np

from llmprism.arrays import Int64
from llmprism.errors import StoreError
from llmprism.ingest import read_flows
from llmprism.ingest.database import Database, first_line, open_database
from llmprism.ingest.extract import readable
from llmprism.model.flows import FlowTable, Window
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["MemberFilter", "Share", "decode_share", "encode_share", "plan_shares", "read_share", "seat_places"]

log = logging.getLogger(__name__)

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class MemberFilter:
    """Addresses whose records alone are looked at, and their places."""

    addresses: tuple[str, ...]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """Records of a window with an end at one of `places`; `rest`: also those with no end at any place. `only`: just
    those from or to these addresses. `paths` are the segments that hold them, relative to the folder of flows. `steps`
    are the bytes of a step of the jobs that are known, by the key of their members (`step_memory`)."""

    window: Window
    paths: tuple[str, ...]
    records: int
    places: tuple[int, ...]
    rest: bool = False
    only: tuple[str, ...] | None = None
    steps: tuple[tuple[str, int], ...] = ()


def encode_share(share: Share) -> str:
    return json.dumps(
        {
            "window": [share.window.start_ns, share.window.end_ns],
            "paths": share.paths,
            "records": share.records,
            "places": share.places,
            "rest": share.rest,
            "only": share.only,
            "steps": share.steps,
        },
        separators=(",", ":"),
    )


def decode_share(text: str) -> Share:
    try:
        item = json.loads(text)
        only = item["only"]
        return Share(
            Window(*item["window"]),
            tuple(item["paths"]),
            item["records"],
            tuple(item["places"]),
            item["rest"],
            None if only is None else tuple(only),
            tuple((str(key), int(step_bytes)) for key, step_bytes in item["steps"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"a share cannot be read ({type(error).__name__}: {error})") from error


def plan_shares(
    folder: Path, paths: Sequence[str], window: Window, *, records: int, most: int, members: MemberFilter | None = None
) -> list[Share]:
    """The shares of a window whose records lie in these segments, about `records` in each, `most` shares; none where
    it holds no record. `members`: just the records from or to these."""

    def plan(files: list[Path]) -> list[Share]:
        with open_database() as (connection, _):
            _view(connection, files, window, members)
            place, peer, count = _edges(connection)
            shares = max(1, min(most, int(count.sum()) // records))
            seats = seat_places(place, peer, count, shares)
            return _shares(connection, folder, window, seats, None if members is None else members.addresses)

    return _with_readable(folder, paths, plan) or []


def seat_places(place: Int64, peer: Int64, records: Int64, shares: int) -> dict[int, int]:
    """Place → share, for the edges of a window. Components are dealt out largest first, each to the share with the
    fewest records so far."""
    places = np.unique(np.concatenate([place, peer])).astype(np.int64)
    left, right = np.searchsorted(places, place), np.searchsorted(places, peer)
    labels = component_labels(places.size, left, right)
    weight = np.bincount(labels[left], records, minlength=int(labels.max(initial=-1)) + 1)
    loads = np.zeros(shares)
    seat = np.zeros(weight.size, dtype=np.int64)
    for component in np.argsort(-weight, kind="stable"):
        seat[component] = np.argmin(loads)
        loads[seat[component]] += weight[component]
    return dict(zip(places.tolist(), seat[labels].tolist(), strict=True))


def _view(connection: Database, files: Sequence[Path], window: Window, members: MemberFilter | None) -> None:
    """Makes the view `recent` of the window's records, of all or of some members."""
    names = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
    where = f"end_ns > {window.start_ns} AND end_ns <= {window.end_ns}"
    if members is not None:
        connection.execute("CREATE TEMP TABLE mine AS SELECT unnest($1::VARCHAR[]) AS address", [members.addresses])
        connection.execute("CREATE TEMP TABLE home AS SELECT unnest($1::BIGINT[]) AS place", [members.places])
        where += " AND (place IN (FROM home) OR peer IN (FROM home)) AND (src IN (FROM mine) OR dst IN (FROM mine))"
    source = f"read_parquet([{names}], union_by_name=true, filename=true)"
    connection.execute(f"CREATE TEMP VIEW recent AS SELECT * FROM {source} WHERE {where}")


def _edges(connection: Database) -> tuple[Int64, Int64, Int64]:
    """(place, place, records) of the window; a record with one end at no place stays at the other."""
    rows = connection.execute(
        "SELECT coalesce(place, peer) AS a, coalesce(peer, place) AS b, count(*) FROM recent "
        "WHERE a IS NOT NULL GROUP BY a, b ORDER BY a, b"
    ).fetchnumpy()
    place, peer, count = (np.asarray(column, dtype=np.int64) for column in rows.values())
    return place, peer, count


def _shares(
    connection: Database, folder: Path, window: Window, seats: dict[int, int], only: tuple[str, ...] | None
) -> list[Share]:
    """Which segments hold records of which share: the better the topic's key, the fewer."""
    connection.execute(
        "CREATE TEMP TABLE seats AS SELECT unnest($1::BIGINT[]) AS place, unnest($2::BIGINT[]) AS share",
        [list(seats), list(seats.values())],
    )
    rows = connection.execute(
        "SELECT coalesce(seats.share, 0) AS share, filename, count(*) FROM recent "
        "LEFT JOIN seats ON seats.place = coalesce(recent.place, recent.peer) GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    places: dict[int, list[int]] = {}
    for place, seat in seats.items():
        places.setdefault(seat, []).append(place)
    return [
        Share(
            window,
            tuple(str(Path(file).relative_to(folder)) for number, file, _ in rows if number == share),
            sum(count for number, _, count in rows if number == share),
            tuple(places.get(share, ())),
            share == 0,
            only,
        )
        for share in sorted({number for number, _, _ in rows})
    ]


def read_share(folder: Path, share: Share) -> FlowTable | None:
    """The records of a share; None where its segments hold none of them any more."""

    def read(files: list[Path]) -> FlowTable:
        with open_database() as (connection, spill):
            members = None if share.only is None else MemberFilter(share.only, share.places)
            _view(connection, files, share.window, members)
            connection.execute("CREATE TEMP TABLE here AS SELECT unnest($1::BIGINT[]) AS place", [share.places])
            where = "coalesce(place, peer) IN (FROM here)"
            if share.rest:
                where = f"({where} OR (place IS NULL AND peer IS NULL))"
            file = spill / "share.parquet"
            connection.execute(
                f"COPY (SELECT * EXCLUDE (filename, place, peer) FROM recent WHERE {where}) "
                f"TO '{file}' (FORMAT parquet)"
            )
            return read_flows([file])

    flows = _with_readable(folder, share.paths, read)
    return flows if flows is not None and flows.start_ns.size else None


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
