"""Drafts of jobs, given their transfers."""

import numpy as np

from llmprism.model.flows import TransferTable
from llmprism.recognize.draft import JobDraft


def table(src, dst, offsets):
    rows = offsets[-1]
    start, none = np.arange(rows) * 10, np.zeros(rows, dtype=np.int32)
    return TransferTable(
        ("a", "b"), (), np.array(src, dtype=np.int32), np.array(dst, dtype=np.int32), np.array(offsets),
        np.arange(len(src)) + 5, start, start + 1, np.full(rows, 100), np.full(rows, 1), none, none + 1,
    )  # fmt: skip


def drafted(bulk):
    return JobDraft("job", (0, 1), (), 0.9, np.arange(len(bulk), dtype=np.int32), np.array(bulk), None, ("", ""))


def test_pieces_of_one_pair_are_joined_where_one_job_has_both():
    job = drafted([False, True, True]).job(table([0, 0, 1], [1, 1, 0], [0, 2, 5, 9]))
    assert job.transfers.pair_src.tolist() == [0, 1]
    assert job.transfers.pair_dst.tolist() == [1, 0]
    assert job.transfers.pair_offsets.tolist() == [0, 5, 9]
    assert job.transfers.pair_gap_ns.tolist() == [5, 7]
    assert job.bulk.tolist() == [True, True]


def test_whole_pairs_stay_as_they_are():
    transfers = table([0, 1], [1, 0], [0, 5, 9])
    job = drafted([True, False]).job(transfers)
    assert job.transfers is transfers
    assert job.bulk.tolist() == [True, False]
