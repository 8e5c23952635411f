"""The stages on an Apache Spark cluster.

    records by bucket of pairs → transfers and totals     on the cluster (`tasks.bucket_task`)
    totals of distinct pairs → clusters                   here
    witnesses of each cluster → its clock                 on the cluster (`tasks.clock_task`)
    clusters whose clocks decide nothing → rails or not     on the cluster (`tasks.rail_task`)
    totals and clocks → jobs                              here
    transfers of each job → layout, timeline, faults      on the cluster (`tasks.job_task`)
    slow messages of all jobs → shared faults, report     here

Records and transfers never come to the driver. Nothing here decides anything about jobs: every decision is a function
of a stage, called where its data lies. See docs/decisions/engines.md.
"""

from llmprism.engine.spark.engine import SparkEngine

__all__ = ["SparkEngine"]
