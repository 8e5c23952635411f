"""Transfers → jobs: which addresses train together, and when their steps end.

The road of the data, one file per step (`recognise_jobs` calls them in this order):

    segments, epochs      totals of every pair, kept apart at its long silences; a pair that serves two jobs, cut in two
    bulk, clusters        pairs that carry training data, and what they connect: one rail of a job, or a whole job
    cluster_clock         when the steps of a cluster end (without_meshes: without its all-to-alls)
    candidates → joining  which clusters are one job, by evidence in bits: step clocks (lockstep), moments of sending
                          (rhythm), shared servers, whether a cluster works as a whole (coherence)
    quiet_members         members whose traffic stays inside their servers
    job_drafts            jobs: members, pairs, clock, how sure

`draft` holds what is handed from step to step, so that the transfers may lie in another process or on a Spark cluster.
`rules` has every constant. `published_jobs` is the method of the paper, for comparison (`--method paper`).
"""

from llmprism.recognize.published_jobs import recognize_paper

__all__ = ["recognize_paper"]
