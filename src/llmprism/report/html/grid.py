"""The picture of a job's layout: stages across, replicas down, tensor-parallel peers together.

With pipelines, a row is a pipeline and a column a stage; pipelines that run through the same servers are
tensor-parallel peers of one replica and stand under each other. Without pipelines, a row is a group and its members
stand in ring order. Members that no pipeline and no group names stand in a last row of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llmprism.model.report import JobReport

__all__ = ["LayoutGrid", "layout_grid"]


@dataclass(frozen=True, slots=True)
class LayoutGrid:
    """`columns` names the columns; each row has a label, a replica number and address ids."""

    columns: tuple[str, ...]
    labels: tuple[str, ...]
    replicas: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]

    def order(self) -> list[int]:
        """Every address of the grid once, row by row."""
        return list(dict.fromkeys(address for row in self.rows for address in row))


def layout_grid(job: JobReport, server_of: Mapping[int, str]) -> LayoutGrid:
    """`server_of` maps address ids to servers, as far as they are known."""
    if job.layout.pipelines:
        grid = _pipelines(job, server_of)
    elif job.layout.groups:
        groups = job.layout.groups
        longest = max(len(group.members) for group in groups)
        grid = LayoutGrid(
            tuple(str(position) for position in range(longest)),
            tuple(f"{group.kind.label} group {number}" for number, group in enumerate(groups)),
            tuple(range(len(groups))),
            tuple(group.members for group in groups),
        )
    else:
        grid = LayoutGrid((), (), (), ())
    left = tuple(member for member in job.job.members if member not in set(grid.order()))
    if not left:
        return grid
    label = "not placed" if grid.rows else "members"
    replica = max(grid.replicas, default=-1) + 1
    return LayoutGrid(grid.columns, (*grid.labels, label), (*grid.replicas, replica), (*grid.rows, left))


def _pipelines(job: JobReport, server_of: Mapping[int, str]) -> LayoutGrid:
    replica_of = {
        member: position for group in job.layout.groups for position, member in enumerate(sorted(group.members))
    }

    def place(pipeline: tuple[int, ...]) -> tuple[int, tuple[str, ...], tuple[int, ...]]:
        servers = tuple(server_of.get(member, "") for member in pipeline)
        return replica_of.get(pipeline[0], 0), servers, pipeline

    pipelines = sorted(job.layout.pipelines, key=place)
    replicas: list[int] = []
    seen: dict[tuple[int, tuple[str, ...]], int] = {}
    for pipeline in pipelines:
        number, servers, _ = place(pipeline)
        known = all(servers)
        key = (number, servers) if known else (number, tuple(str(member) for member in pipeline))
        replicas.append(seen.setdefault(key, len(seen)))
    stages = max(len(pipeline) for pipeline in pipelines)
    return LayoutGrid(
        tuple(f"stage {stage}" for stage in range(stages)),
        tuple(f"replica {replica}" for replica in replicas),
        tuple(replicas),
        tuple(pipelines),
    )
