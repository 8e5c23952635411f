"""Live monitoring: `llmprism serve` takes flow records as they arrive and keeps an up-to-date picture of the jobs.

In the order the data takes: `sources/` (directory, HTTP push, Kafka) → `intake` (batches become Parquet segments and
rows of the store, in one transaction with the source's position) → `windows` (which span of time is due) → `pipeline`
→ `tracker` (the same job and the same finding from window to window) → `store` → `api`, `metrics`, `alerts`, `web/`.
`windows` and `tracker` are pure: no clock, no file, no thread. Needs the extra `llmprism[serve]`.
"""
