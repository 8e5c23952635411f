"""What `/metrics` adds for one of several workers. All other metrics are the cluster's and the same on every worker."""

from __future__ import annotations

from llmprism.service.metrics import metric
from llmprism.service.store import Store
from llmprism.service.workers.shared_store import SharedStore

__all__ = ["render_worker"]


def render_worker(store: Store) -> str:
    """Empty where the service is alone."""
    if not isinstance(store, SharedStore):
        return ""
    workers = store.workers()
    own = next((worker for worker in workers if worker["name"] == store.name), {})
    label = {"worker": store.name}
    present = sum(bool(worker["present"]) for worker in workers)
    return "".join(
        (
            metric("llmprism_workers", "gauge", "Workers seen in the last seconds.", [({}, present)]),
            metric(
                "llmprism_partitions_unread",
                "gauge",
                "Partitions that no worker reads.",
                [({}, len(store.unread_partitions()))],
            ),
            metric(
                "llmprism_worker_partitions",
                "gauge",
                "Partitions that this worker reads.",
                [(label, len(own.get("partitions", ())))],
            ),
            metric("llmprism_worker_leads", "gauge", "1 on the leader.", [(label, own.get("leads", False))]),
            metric(
                "llmprism_worker_shares_total",
                "counter",
                "Shares of windows worked off.",
                [(label, own.get("shares", 0))],
            ),
            metric(
                "llmprism_worker_fenced_batches_total",
                "counter",
                "Batches dropped because another worker had taken the partition over.",
                [(label, store.fenced)],
            ),
        )
    )
