"""Transfers of a job whose rows are copied out of the cluster's table only when somebody looks at them.

The rows of all jobs together are as many as all transfers: to copy them takes seconds and gigabytes. Where copies of
the process look at the jobs, each copies the rows of the job that it works on and forgets them again; this process
needs them only where the report goes on to something that reads messages, such as logs, and then for few jobs.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from llmprism.arrays import Int32
from llmprism.model.flows import TransferTable, row_runs, rows_in_runs

__all__ = ["LateRows"]

_ROWS: Final = ("start_ns", "end_ns", "bytes", "active_ns", "path", "records")


class LateRows(TransferTable):
    """Some pairs of a table; each column of their rows is copied when it is first looked at."""

    __slots__ = ("_runs", "_table")
    _table: TransferTable
    _runs: list[slice]

    @classmethod
    def of(cls, without_rows: TransferTable, table: TransferTable, pairs: Int32) -> LateRows:
        """`without_rows` is what `table.select_pairs(pairs, with_rows=False)` gave, maybe with pairs joined."""
        late = object.__new__(cls)
        object.__setattr__(late, "_table", table)
        object.__setattr__(late, "_runs", row_runs(table.pair_offsets[pairs], table.pair_offsets[pairs + 1]))
        for field in fields(TransferTable):
            if field.name not in _ROWS:
                object.__setattr__(late, field.name, getattr(without_rows, field.name))
        return late

    def __getattr__(self, name: str) -> Any:
        """Called for what is not set yet: a column of rows."""
        if name not in _ROWS:
            raise AttributeError(name)
        object.__setattr__(self, name, rows_in_runs(getattr(self._table, name), self._runs))
        return object.__getattribute__(self, name)
