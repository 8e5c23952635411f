"""Logs of one job → what went wrong, where, why and whose fault it is.

The road of the data, one file per step:

    sources, unpack, archive   paths → log files as text, out of archives and packings
    blocks, wrappers   text → blocks of whole lines, without colours and JSON around them
    scan, prefix, log_times, masking, tags   block → lines with who wrote them, when, and their shape (kernels, with
        hash_table and linetext)
    shapes, shape_store, templates, library, pattern   a shape's meaning, worked out once
    series, metrics, flight   iteration numbers, losses and times per iteration; flight records
    reader → joblog.JobLog   all of the above in one pass
    members, launcher_ranks, launcher_reports, progress, sequences   who is in the job, who ended, how far each got
    incidents, accusations, signs, pace   what was said, whom it names, what the numbers show
    outcome, disorderly_end, roots, suspects, suspect_list, ranking, causes, log_events → diagnose   the verdict
        (model.log.LogDiagnosis)
    reference   what good runs print; l4, isolation   the published baseline; watch   a job that still runs
    from_report, notable   a new entry of the library from a diagnosis; lines about trouble for other packages
    report_json, report_terminal, report_html   the verdict as text

What other packages may use:

    from llmprism.logs.view import view_job

    view = view_job([Path("job_logs/")])
    for rank in view.ranks:      # one per rank (or node, where ranks are not known)
        rank.rank, rank.node, rank.addresses            # who it is; addresses that it printed as its own
        rank.first_ns, rank.last_ns, rank.lines         # when it wrote
        rank.iterations, rank.iteration_ns              # its iteration numbers and when it printed them
    view.diagnosis               # outcome, cause, suspects, ranking, signs, events
    view.step_ns                 # the median time of an iteration

`read_job` and `diagnose_log` (reader.py, diagnose.py) are the two halves of it; a `JobLog` may be diagnosed several
times. Times are nanoseconds since the epoch, 0 where a log has none; times without a zone are taken as UTC.
"""
