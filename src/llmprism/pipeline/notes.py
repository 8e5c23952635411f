"""What every method says of its input besides jobs and findings, and how it reports its progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from llmprism.model.layout import JobLayout
from llmprism.model.topology import Topology

__all__ = ["Progress", "job_notes", "usable_topology"]

Progress = Callable[[str, float], None]
"""Called with the name of a stage and the share of it that is done (0..1)."""


def usable_topology(addresses: tuple[str, ...], topology: Topology | None) -> tuple[Topology | None, tuple[str, ...]]:
    """The topology, unless it knows nobody in the flows; with a note on what it does not know."""
    if topology is None:
        return None, ("no topology was given: servers, switches and rails are not known",)
    known = topology.server_of()
    strangers = sum(address not in known for address in addresses)
    if strangers == len(addresses) and strangers:
        return None, ("the topology names none of the addresses in the flows and was left aside",)
    if strangers:
        return topology, (f"the topology does not name {strangers} of {len(addresses)} addresses",)
    return topology, ()


def job_notes(layouts: Iterable[tuple[str, JobLayout]]) -> tuple[str, ...]:
    """What could not be decided, each sentence with the id of its job."""
    return tuple(dict.fromkeys(f"{job}: {note}" for job, layout in layouts for note in layout.notes))
