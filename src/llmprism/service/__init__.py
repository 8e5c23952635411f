"""Live monitoring: `llmprism serve` takes flow records as they arrive and keeps an up-to-date picture of the jobs.

In the order the data takes:

    sources/, player      where records come from: a folder, HTTP, Kafka; a capture that is played back
    intake, batch_rows    batches become Parquet segments and rows of the store, in one transaction with the source's
                          position
    clocks, watermarks    whose time can be believed (clock_of_source, clock_offsets, source_clocks), and how far the
                          sources have come (late_sources, common_silence, turned_away)
    windows, evaluator    which span of time is looked at next, and the loop that does it (late_lane: for late sources)
    reading, looking      stored records of that span → a report of `pipeline` (looks, layout_memory, step_memory)
    tracker               the same job and the same finding from window to window: runs, matching, pace, silence,
                          tracked_findings, sightings; codec (its state as text)
    checks                between two windows: who has stopped (check_results)
    picture, window_rows  what a window has found, as documents and rows
    store                 SQLite or PostgreSQL, and the segments: database, schema, rows, upkeep, folder_lock
    history, timeline     what the store knows (timeline_pool), for: api/, web/, metrics
    alerts, messages      what is sent when a finding opens, gains its cause or closes
    joblogs/, workers/    logs of jobs; several services on one cluster

`runner` puts it together (config, config_text, connections, heartbeat, logs, supervisor, topology_file); `checkup` is
`llmprism doctor`; `compile_ahead` makes a new installation ready, by a service on the records' own clock (`played`).
`windows` and `tracker` are pure: no clock, no file, no thread. Needs the extra `llmprism[serve]`.
"""
