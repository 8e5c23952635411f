"""Who comes after the suspects: weak evidence, each kind by its weight."""

from __future__ import annotations

from pathlib import Path

from llmprism.logs.diagnose import diagnose_paths
from llmprism.logs.library import load_library
from llmprism.model.log import LogDiagnosis

LIBRARY = load_library()
WATCHDOG = (
    "[rank{r}]:[E1115 01:02:30.3 ProcessGroupNCCL.cpp:689] [Rank {r}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=68, OpType=ALLREDUCE, Timeout(ms)=15000) ran for 15098 milliseconds before timing out."
)
LOST = (
    "node{r:02d}:10{r}:11{r} [0] transport/net_ib.cc:101 NCCL WARN NET/IB : Got completion from peer "
    "10.5.0.{peer}<36315> with status=5 opcode=0 len=0 vendor err 244 (Recv)"
)


def run(folder: Path, *, behind: int | None = None, named: dict[int, int] | None = None) -> LogDiagnosis:
    """Six ranks that all time out; one may be an iteration `behind`, some may have `named` another before."""
    for r in range(6):
        lines = [f"node{r:02d}:10{r}:10{r} [0] NCCL INFO Bootstrap: Using eth0:10.5.0.{r}<0>"]
        lines += [f"node{r:02d}:10{r}:10{r} [0] NCCL INFO comm 0x1 rank {r} nranks 6 - Init COMPLETE"]
        last = 58 if r == behind else 59
        lines += [f"[2026-11-15 01:00:{i:02d}] iteration {i}/500 | loss: 2.0" for i in range(1, last + 1)]
        lines += [LOST.format(r=r, peer=(named or {})[r])] if r in (named or {}) else []
        (folder / f"node{r:02d}.log").write_text("\n".join([*lines, WATCHDOG.format(r=r)]) + "\n")
    return diagnose_paths([folder], library=LIBRARY)


def test_a_rank_behind_the_others_is_ranked_first(tmp_path: Path) -> None:
    found = run(tmp_path, behind=4)
    assert (found.outcome.value, found.suspects) == ("failed", ())
    assert (found.ranking[0].rank, found.ranking[0].score > 0.25) == (4, True)
    assert "its last iteration lies behind the others'" in found.ranking[0].why


def test_ranks_that_some_peers_name_come_before_those_that_nobody_names(tmp_path: Path) -> None:
    """Too few name the same one for a suspect."""
    found = run(tmp_path, named={0: 4, 1: 4, 2: 3, 3: 2, 5: 1})
    assert found.suspects == ()
    assert (found.ranking[0].rank, "peers name it" in found.ranking[0].why) == (4, True)
    assert {one.rank for one in found.ranking[1:4]} == {1, 2, 3}, "one peer each; nobody names 0 and 5"
