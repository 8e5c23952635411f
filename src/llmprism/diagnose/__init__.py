"""Timelines → findings; one file per detector."""

from llmprism.diagnose.paper import diagnose_paper
from llmprism.diagnose.prism import diagnose_jobs, find_faults
from llmprism.diagnose.stopped import job_state

__all__ = ["diagnose_jobs", "diagnose_paper", "find_faults", "job_state"]
