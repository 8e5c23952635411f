"""Timelines → findings; one file per detector."""

from llmprism.diagnose.congestion_signs import congestion_note, with_congestion_signs
from llmprism.diagnose.published_rules import diagnose_paper
from llmprism.diagnose.stopped import job_state
from llmprism.diagnose.switch_loads import PathLoads, path_loads, switch_loads

__all__ = [
    "PathLoads",
    "congestion_note",
    "diagnose_paper",
    "job_state",
    "path_loads",
    "switch_loads",
    "with_congestion_signs",
]
