"""Flows and logs of the same jobs → one verdict per cause.

The road of the data, one file per step:

    folders      paths of logs → one group of files per job
    rank_file    a list of ranks, hosts and addresses, where somebody has one
    log_clock    iterations of a log laid over the steps of the flows: which step is which, how far the clocks are apart
    fingerprint  ranks and addresses compared by how their steps vary
    layout_orders  in which orders ranks can sit, by the stages, groups and rings of the layout
    seats        who is who: rank → address, how sure and why
    matching     which logs belong to which job of the flows
    case         all of the above for one job, as the rules see it
    suspects, quotes, sentences   who, by both; lines of the logs; a verdict in one sentence
    collectives  ranks that wait for each other in different collectives
    nearby       lines that can be about the cause of a finding
    effect       whether a slow place slowed the job, by the durations that the logs print
    ending, ending_by_logs, slowness, numbers   rules: how a job ended, why it is slow, what its numbers show
    read_together → model.report.Report   findings that name one cause each, with a model.verdict.LogReading

Only `folders`, `rank_file` and the reading of logs touch files; the rest are pure functions. The flow side is a
finished report: this package looks at no flow record.
"""

from llmprism.verdict.folders import LogFolder, find_log_folders
from llmprism.verdict.rank_file import read_rank_file
from llmprism.verdict.read_together import LoggedJob, LogSources, read_logs, read_together

__all__ = ["LogFolder", "LogSources", "LoggedJob", "find_log_folders", "read_logs", "read_rank_file", "read_together"]
