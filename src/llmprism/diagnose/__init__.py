"""Timelines → findings; one file per detector."""

from llmprism.diagnose.congestion_signs import congestion_note, with_congestion_signs
from llmprism.diagnose.find_faults import diagnose_jobs, find_faults
from llmprism.diagnose.published_rules import diagnose_paper
from llmprism.diagnose.stopped import job_state
from llmprism.diagnose.switch_loads import PathLoads, path_loads, switch_loads

__all__ = [
    "PathLoads",
    "congestion_note",
    "diagnose_jobs",
    "diagnose_paper",
    "find_faults",
    "job_state",
    "path_loads",
    "switch_loads",
    "with_congestion_signs",
]
