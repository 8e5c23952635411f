"""Several identical `llmprism serve` on one cluster: they share a Kafka consumer group, a database and a folder.

Any worker takes records in: batches of a partition become segments in the shared folder, committed together with the
partition's position (`shared_store`). Whoever holds the leader's lock plans the windows, cuts each into shares that no
job spans (`shares`), and hands them out (`desk`); all workers take shares, and the leader puts their answers
(`share_reports`) together. Everything that must survive is in the database; a worker that dies takes nothing along.
Why it is right: docs/decisions/live-at-scale.md.

A worker's second process is `evaluating_process`; while it leads it runs `shared_evaluator` and `shared_late_lane`.
`duty` is what one worker does for all. `locks` and `coordinator_tables` are in the database; `places` numbers both ends
of a record for `shares`; `worker_metrics` adds to `/metrics`.
"""
