"""Logs of jobs in the live service: lines come in, are kept within bounds, and explain findings.

    options        the section `[job_logs]` of the configuration
    names          names of jobs and writers as names of files
    spool          lines on disk, one file per writer: bounded, redacted, every line counted as stored or dropped
    tail           follows growing and rotated files of a folder into the spool
    kafka_lines    reads a topic of lines into the spool
    explain        a window's report and the spools' logs read together (`llmprism.verdict`)
    explanations   what logs say of a finding, kept with it from window to window
    late           lines that arrive after their window; findings that the logs explain away
    documents      all of that as the store keeps and the page shows it
    settings       the spools and tails of a configuration, for whoever makes the windows

Lines come by `POST /api/v1/logs` (`service.api.job_logs`), from a folder or from Kafka. Only the last lines of every
writer are kept: what explains a finding was written around it.
"""
