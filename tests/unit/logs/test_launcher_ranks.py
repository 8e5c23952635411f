"""Ranks of nodes as launchers print them."""

from pathlib import Path

import pytest

from llmprism.logs.library import load_library
from llmprism.logs.members import identify_members
from llmprism.logs.reader import read_job

AGENT = """[2026-11-14 00:00:00,100] torch.distributed.elastic.agent.server.api: [INFO] [default] Rendezvous \
complete for workers. Result:
  restart_count=0
  master_addr=10.0.0.1
  group_rank={group}
  group_world_size=2
  local_ranks=[0, 1]
  role_ranks={ranks}
  global_ranks={ranks}
  role_world_sizes=[4, 4]
  global_world_sizes=[4, 4]
"""


@pytest.fixture(scope="module")
def library():
    return load_library()


def who(paths, library):
    members = identify_members(read_job(paths, library))
    return {actor.rank: actor.node for actor in members.actors}


def node_file(folder: Path, host: str, group: int, ranks: list[int]) -> None:
    folder.mkdir(exist_ok=True)
    lines = [f"[default{local}]:iteration {step} loss 2.5" for step in range(5) for local in range(2)]
    (folder / f"{host}.log").write_text(AGENT.format(group=group, ranks=ranks) + "\n".join(lines) + "\n")


def test_torchrun_says_which_ranks_a_node_has(tmp_path, library):
    node_file(tmp_path / "job", "node07", 0, [0, 1])
    node_file(tmp_path / "job", "node03", 1, [2, 3])
    assert who([tmp_path / "job"], library) == {0: "node07", 1: "node07", 2: "node03", 3: "node03"}


def test_nodes_that_claim_the_same_ranks_say_nothing(tmp_path, library):
    node_file(tmp_path / "job", "node07", 0, [0, 1])
    node_file(tmp_path / "job", "node03", 0, [0, 1])
    assert set(who([tmp_path / "job"], library)) == {None}


def test_deepspeed_says_which_host_a_rank_is_on(tmp_path, library):
    first = (
        "[2026-11-14 00:00:00,100] [INFO] [launch.py:146:main] global_rank_mapping=defaultdict(<class 'list'>, "
        "{'worker-1': [0, 1], 'worker-0': [2, 3]})\n"
    )
    for rank in range(4):
        lines = "".join(f"[rank{rank}]: iteration {step} loss 2.5\n" for step in range(5))
        (tmp_path / f"rank{rank}.log").write_text((first if rank == 0 else "") + lines)
    assert who([tmp_path], library) == {0: "worker-1", 1: "worker-1", 2: "worker-0", 3: "worker-0"}
