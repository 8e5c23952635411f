from __future__ import annotations

import pytest

from llmprism.logs.shapes import exception_name, iteration_anchor
from llmprism.logs.tags import Identity, identity_of_file, identity_of_prefix, looks_host_prefixed


@pytest.mark.parametrize(
    ("prefix", "identity"),
    [
        (" 3: ", Identity(listed_rank=3)),
        ("[rank11]:", Identity(rank=11)),
        ("[default3]:[rank11]:", Identity(rank=11, local_rank=3)),
        ("[1,5]<stderr>:", Identity(rank=5)),
        ("(RayTrainWorker pid=12, ip=10.0.0.3) ", Identity(node="10.0.0.3", process="10.0.0.3:12")),
        ("gpu-node01:586:590 [0] ", Identity(node="gpu-node01", process="gpu-node01:586")),
        ("12: node7:5:6 [1] ", Identity(listed_rank=12, node="node7", process="node7:5")),
        ("[pod/worker-0/pytorch] ", Identity(node="worker-0")),
    ],
)
def test_prefixes(prefix: str, identity: Identity) -> None:
    assert identity_of_prefix(prefix) == identity


@pytest.mark.parametrize(
    ("name", "rank", "node"),
    [
        ("rank6.log", 6, None),
        ("job0/rank_12.log.gz", 12, None),
        ("gpu-node01.log", None, "gpu-node01"),
        ("worker-3/stdout.log", None, "worker-3"),
        ("slurm-1234.out", None, None),
        ("result_1.txt", None, None),
        ("r_01.txt.gz", None, None),
        ("ok_3.txt.gz", None, None),
    ],
)
def test_file_names(name: str, rank: int | None, node: str | None) -> None:
    found = identity_of_file(name)
    assert (found.rank, found.node) == (rank, node)


def test_pdsh_output_is_recognised() -> None:
    assert looks_host_prefixed("\n".join(f"node{n}: text" for n in range(20)))
    assert not looks_host_prefixed("\n".join("INFO: text" for _ in range(20)))


@pytest.mark.parametrize(
    ("text", "anchor"),
    [
        ("iteration        7/ 100 | elapsed time per iteration (ms): 3 | global batch size: 8", b"iteration"),
        ("[Rank 0] step=10, skipped=0", b"step="),
        ("step:  3  loss:  2.1", b"step:"),
        ("{'global_steps': 78, 'eval_loss': 8.07}", b"bal_steps':"),
        ("max_steps=1000", b""),
        ("saving checkpoint at iteration 500", b""),
        ("Total optimization steps = 200", b""),
    ],
)
def test_iteration_numbers(text: str, anchor: bytes) -> None:
    found = iteration_anchor(text)
    assert found == anchor or (anchor and found.endswith(anchor[-6:]))


def test_exceptions() -> None:
    assert exception_name("torch.OutOfMemoryError: CUDA") == "torch.OutOfMemoryError"
    assert exception_name("a line with ValueError inside") is None
