"""Spark's part of the Spark engine done here, with Arrow alone: the same pieces, the same tasks, no JVM."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from llmprism.engine.spark.arrow_tables import ROWS
from llmprism.engine.spark.graph import graph_from
from llmprism.engine.spark.spark_cluster import TaskCluster
from llmprism.engine.spark.tasks import TaskContext, bucket_task, site_blob
from llmprism.ingest.spark_bucket import exporters_of, reading_of

__all__ = ["InProcessCluster"]


@dataclass(frozen=True, slots=True)
class Held:
    value: bytes


class InProcessCluster(TaskCluster):
    """Records as an Arrow table, split into buckets of pairs at random; groups come with their rows in any order."""

    def __init__(self, records: pa.Table, buckets: int, seed: int = 0, *, with_events: bool = False) -> None:
        self.random = np.random.default_rng(seed)
        reading = reading_of("records", records.slice(0, 0), None, None)
        several = len(exporters_of(records, reading.scans)) > 1
        ends = list(zip(records["src"].to_pylist(), records["dst"].to_pylist(), strict=True))
        bucket_of = {pair: int(self.random.integers(buckets)) for pair in dict.fromkeys(ends)}
        bucket = np.array([bucket_of[pair] for pair in ends])
        task = bucket_task(reading, several_exporters=several)
        parts = [task(records.take(self.random.permutation(np.flatnonzero(bucket == b)))) for b in np.unique(bucket)]
        self.pairs = pa.concat_tables(parts)
        keys = zip(self.pairs["src"].to_pylist(), self.pairs["dst"].to_pylist(), strict=True)
        self.row_of = {pair: row for row, pair in enumerate(keys) if pair[0] is not None}
        graph = graph_from(self.pairs, "records")
        super().__init__(graph, Held(site_blob(TaskContext(graph.addresses, graph.window))), with_events=with_events)

    def _joined(self, pieces):
        names = zip(pieces["src"].to_pylist(), pieces["dst"].to_pylist(), strict=True)
        rows = self.pairs.take(pa.array([self.row_of.get(pair) for pair in names], type=pa.int64()))
        for column in ("gap_ns", *ROWS, "paths"):
            pieces = pieces.append_column(column, rows[column])
        return pieces.take(self.random.permutation(pieces.num_rows))

    def _groups(self, table, key):
        values = table[key].to_numpy()
        return {value: table.filter(pa.array(values == value)) for value in self.random.permutation(np.unique(values))}

    def _grouped(self, pieces, key, task, schema):
        found = [task(group).cast(schema) for group in self._groups(self._joined(pieces), key).values()]
        return pa.concat_tables(found)

    def _cogrouped(self, pieces, second, key, task, schema, wanted=None):
        others = self._groups(second, key)
        groups = self._groups(self._joined(pieces), key).items()
        found = pa.concat_tables([task(group, others[value]).cast(schema) for value, group in groups])
        if wanted is None:
            return found
        last = found[schema.names[-1]].combine_chunks().field(wanted)
        return pa.table({schema.names[0]: found[schema.names[0]], wanted: last})
