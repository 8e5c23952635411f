"""Ranks that end one after another when their work is done complain of each other as they do after a crash.

A script that leaves its training loop and meets its fellows in a last barrier, and whose first rank then exits without
taking the others' connections down in order, leaves "connection closed by remote peer" behind: PyTorch warns of it
(https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, "destroy_process_group()
was not called before program exit"). Nothing failed then, although the complaints are those of a lost peer. What tells
the two apart is where the ranks were: after a crash they wait inside a step, here all have completed the same iteration
and their stacks lead from the top of the script straight into a barrier.

Not certain: a rank may die in that last barrier too. So the run's end is unknown, not a success.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.logs.joblog import JobLog
from llmprism.logs.library import Meaning
from llmprism.logs.members import LogMembers
from llmprism.logs.progress import Progress
from llmprism.logs.signs import actor_iterations

__all__ = ["left_in_disorder"]

_STACK: Final = "Stack trace of the failed collective"

_STACK_LINES: Final = 3
"""Lines from the top of such a stack to the script's own frame: the barrier, its wrapper, the script."""


def left_in_disorder(log: JobLog, members: LogMembers, progress: Progress) -> bool:
    """Whether all ranks had completed the same iteration and left their loop when peers were lost."""
    last, _ = actor_iterations(log, members, progress)
    counted = last[last >= 0]
    if counted.size < 2 or counted.min() != counted.max():
        return False
    stacks = _lines(log, {number for number, shape in enumerate(log.shapes) if _STACK in shape.text})
    barriers, tops = (_lines(log, _marked(log, means)) for means in (Meaning.BARRIER, Meaning.SCRIPT_TOP))
    return bool(stacks) and all(
        (file, line + 1) in barriers and any((file, line + 1 + k) in tops for k in range(1, _STACK_LINES))
        for file, line in stacks
    )


def _marked(log: JobLog, means: Meaning) -> set[int]:
    return {number for number, shape in enumerate(log.shapes) if any(mark.means is means for mark in shape.markers)}


def _lines(log: JobLog, shapes: set[int]) -> set[tuple[int, int]]:
    """File and line of every line of these shapes."""
    rows = np.flatnonzero(np.isin(log.rows.shape, list(shapes)))
    return set(zip(log.rows.file[rows].tolist(), log.rows.line[rows].tolist(), strict=True))
