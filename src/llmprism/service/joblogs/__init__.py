"""Logs of jobs in the live service: lines come in, are kept within bounds, and explain findings.

    spool     lines on disk, one file per writer: bounded, redacted, every line counted as stored or dropped
    tail      follows growing and rotated files of a folder into the spool
    explain   a window's report and the spool's logs read together (`llmprism.verdict`)

Lines come by `POST /api/v1/logs` (`service.api.job_logs`) or from a folder. Only the last lines of every writer are
kept: what explains a finding was written around it.
"""
