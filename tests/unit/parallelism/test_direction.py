import numpy as np
import pytest

from llmprism.parallelism.direction import in_stage_order
from unit.builders import build_job, cut_in_pieces, transfer_table


@pytest.mark.parametrize("order", ["1f1b", "gpipe"])
@pytest.mark.parametrize("pp", [2, 3, 4])
@pytest.mark.parametrize("phase", [0.0, 0.4, 0.8])
def test_the_first_stage_comes_first_wherever_the_clock_ticks(order, pp, phase):
    job = build_job(pp=pp, dp=2, micro_batches=6, order=order)
    transfers = transfer_table(cut_in_pieces(job.records))
    number = {name: index for index, name in enumerate(transfers.addresses)}
    pair_of = {(int(s), int(d)): p for p, (s, d) in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))}
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    boundary = ends[1:] + (phase * np.median(np.diff(ends))).astype(np.int64)
    for pipeline in job.pipelines:
        stages = tuple(number[name] for name in pipeline)
        for path in (stages, stages[::-1]):
            ordered, sure = in_stage_order(transfers, path, pair_of, boundary)
            assert ordered == stages
            assert 0.0 < sure <= 1.0


def test_without_traffic_there_is_no_certainty():
    transfers = transfer_table(build_job().records)
    path, sure = in_stage_order(transfers, (0, 1), {}, np.array([0, 1, 2], dtype=np.int64))
    assert path == (0, 1)
    assert sure == 0.0
