"""CNPs and NAKs travel against the traffic that they are about; findings about that traffic name them."""

from __future__ import annotations

import numpy as np

from llmprism.diagnose.congestion_signs import congestion_note, with_congestion_signs
from llmprism.model.congestion import CongestionTable
from llmprism.model.finding import Finding, FindingKind, Where, WhereType


def table(*rows: tuple[str, str, int, int, int, int]) -> CongestionTable:
    columns = (np.array([row[place] for row in rows], dtype=np.int64) for place in range(2, 6))
    return CongestionTable(tuple(row[0] for row in rows), tuple(row[1] for row in rows), *columns)


SIGNS = table(("a", "b", 5, 1, 0, 0), ("b", "a", 0, 0, 7, 2), ("c", "a", 0, 0, 1, 0), ("a", "c", 0, 0, 9, 0))


def finding(where: Where) -> Finding:
    return Finding(FindingKind.SLOW_NIC, "job", where, 0, 1, 0.5, 0.9, 1.0, "slow")


def values(where: Where, signs: CongestionTable | None = SIGNS) -> list[float]:
    (result,) = with_congestion_signs([finding(where)], signs)
    return [evidence.value for evidence in result.evidence]


def test_a_nic_gets_what_all_its_peers_complained_about() -> None:
    assert values(Where(WhereType.NIC, "a")) == [8.0, 2.0, 5.0]


def test_a_link_gets_what_its_far_end_complained_about() -> None:
    assert values(Where(WhereType.LINK, ("a", "b"))) == [7.0, 2.0, 5.0]
    assert values(Where(WhereType.LINK, ("c", "a"))) == [9.0]


def test_nothing_is_added_without_signs() -> None:
    assert values(Where(WhereType.NIC, "z")) == []
    assert values(Where(WhereType.JOB, "job")) == []
    assert values(Where(WhereType.NIC, "a"), None) == []


def test_the_note_names_the_traffic_not_the_complainer() -> None:
    (note,) = congestion_note(SIGNS)
    assert "17 congestion notifications" in note
    assert "2 NAKs" in note
    assert note.endswith(("from a to b", "from c to a"))
    assert congestion_note(None) == congestion_note(table(("a", "b", 5, 1, 0, 0))) == ()
