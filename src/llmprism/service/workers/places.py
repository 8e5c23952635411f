"""Where both ends of a record are, written into the segments: numbers that a share is planned and read by.

A place is a server. Its number is a checksum of its name, the same on every worker; two servers of one number are only
kept together without need. All addresses that the topology does not name are one place. NICs of servers that the
topology declares to have no GPU are at no place at all. `place` is that of the source and `peer` that of the
destination. Numbers instead of names make the two scans of a window cheap, which every share and the leader pay for.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import duckdb

from llmprism.ingest.database import first_line, open_database
from llmprism.model.topology import Topology

__all__ = ["STRANGER", "address_places", "mark_places", "places_of"]

STRANGER: Final = -1
"""The place of all addresses that the topology does not name; checksums are never below 0."""


def address_places(topology: Topology | None) -> dict[str, int | None]:
    """Address → place; None for a NIC without a GPU (where the topology names GPUs at all, as in `recognize`)."""
    if topology is None:
        return {}
    trains = any(nic.gpu is not None for server in topology.servers for nic in server.nics)
    return {
        nic.address: None if trains and nic.gpu is None else zlib.crc32(server.name.encode())
        for server in topology.servers
        for nic in server.nics
    }


def places_of(addresses: Iterable[str], places: dict[str, int | None]) -> list[int]:
    """The places of some addresses, each once."""
    found = {places.get(address, STRANGER) for address in addresses}
    return sorted(place for place in found if place is not None)


def mark_places(file: Path, places: dict[str, int | None]) -> None:
    """Adds the two columns to a segment that no row names yet. Raises OSError where it cannot be written."""
    marked = file.with_suffix(".marked")
    with open_database() as (connection, _):
        try:
            flow = f"read_parquet('{_quoted(file)}')"
            found = connection.execute(f"SELECT src FROM {flow} UNION SELECT dst FROM {flow}").fetchall()
            present = [name for (name,) in found if name in places]
            connection.execute(
                "CREATE TEMP TABLE seats AS SELECT unnest($1::VARCHAR[]) AS address, unnest($2::BIGINT[]) AS place",
                [present, [places[name] for name in present]],
            )
            connection.execute(
                f"COPY (SELECT flow.*, {_place('s')} AS place, {_place('d')} AS peer "
                f"FROM {flow} AS flow LEFT JOIN seats AS s ON s.address = flow.src "
                "LEFT JOIN seats AS d ON d.address = flow.dst ORDER BY end_ns) "
                f"TO '{_quoted(marked)}' (FORMAT parquet, COMPRESSION zstd)"
            )
        except duckdb.Error as error:
            marked.unlink(missing_ok=True)
            raise OSError(f"{file}: cannot be marked ({first_line(error)})") from None
    marked.replace(file)


def _place(seat: str) -> str:
    """The place in SQL: a stranger's where the address has no seat."""
    return f"CASE WHEN {seat}.address IS NULL THEN {STRANGER} ELSE {seat}.place END"


def _quoted(file: Path) -> str:
    return str(file).replace("'", "''")
