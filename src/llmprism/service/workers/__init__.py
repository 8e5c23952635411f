"""Several identical `llmprism serve` on one cluster: they share a Kafka consumer group, a database and a folder.

Any worker takes records in: batches of a partition become segments in the shared folder, committed together with the
partition's position (`store`). Whoever holds the leader's lock plans the windows, cuts each into shares that no job
spans (`shares`), and puts them on the table (`desk`); all workers take shares from it, and the leader puts their
answers (`share_reports`) together. Everything that must survive is in the database; a worker that dies takes nothing
along. Why it is right: docs/decisions/live-at-scale.md.
"""
