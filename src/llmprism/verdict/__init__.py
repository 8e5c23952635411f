"""Flows and logs of the same jobs → one verdict per cause.

The road of the data, one file per step:

    folders      paths of logs → one group of files per job
    rank_file    a list of ranks, hosts and addresses, where somebody has one
    clock        iterations of a log laid over the steps of the flows: which step is which, how far the clocks are apart
    fingerprint  ranks and addresses compared by how their steps vary
    seats        who is who: rank → address, how sure and why
    matching     which logs belong to which job of the flows

Only `folders` and `rank_file` touch files; the rest are pure functions. The flow side is a finished report: this
package looks at no flow record.
"""
