from __future__ import annotations

import pytest

from llmprism.verdict.layout_orders import MeshSigns
from llmprism.verdict.rules import RULES

A, B, C, D = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"
IRREGULAR = 0.05
MOST = RULES.seats.most_orders


def test_stages_name_the_order_of_one_pipeline() -> None:
    signs = MeshSigns(pipelines=((C, A, D, B),), sure=1.0)
    assert {tuple(order) for _, order in signs.orders([A, B, C, D], MOST)} == {(C, A, D, B)}
    assert signs.support([C, A, D, B], IRREGULAR) == pytest.approx(1 / IRREGULAR)
    assert signs.support([A, B, C, D], IRREGULAR) == pytest.approx(IRREGULAR)


@pytest.mark.parametrize("order", [[A, B, C, D], [A, C, B, D], [B, A, D, C]])
def test_both_axes_of_a_mesh_may_come_first(order: list[str]) -> None:
    signs = MeshSigns(pipelines=((A, C), (B, D)), groups=((A, B), (C, D)), sure=1.0)
    assert signs.support(order, IRREGULAR) > 1.0


def test_an_order_in_which_stages_alternate_irregularly_is_unlikely() -> None:
    signs = MeshSigns(pipelines=((A, C), (B, D)), sure=1.0)
    assert signs.support([A, C, D, B], IRREGULAR) == pytest.approx(IRREGULAR)
    assert MeshSigns(pipelines=((A, C), (B, D)), sure=0.6).support([A, C, D, B], IRREGULAR) == pytest.approx(0.4)


def test_a_ring_leads_to_the_next_rank_one_way_or_the_other() -> None:
    signs = MeshSigns(groups=((A, D, C, B),), rings=((A, D, C, B),), sure=1.0)
    for order in ([A, B, C, D], [C, D, A, B], [D, C, B, A]):
        assert signs.support(order, IRREGULAR) == pytest.approx(3.0), "one of three cyclic orders of four"
    assert signs.support([A, C, B, D], IRREGULAR) == pytest.approx(IRREGULAR)
    assert len({tuple(order) for _, order in signs.orders([A, B, C, D], MOST)}) == 8


def test_a_ring_of_three_says_nothing() -> None:
    signs = MeshSigns(groups=((A, B, C),), rings=((A, B, C),), sure=1.0)
    assert signs.support([B, A, C], IRREGULAR) == pytest.approx(1.0)


def test_replicas_follow_the_ring_of_their_first_stages() -> None:
    e, f = "10.0.0.5", "10.0.0.6"
    signs = MeshSigns(pipelines=((A, D), (B, e), (C, f)), rings=((B, A, C),), sure=1.0)
    assert ("of the stages", [B, A, C, e, D, f]) in signs.orders([A, B, C, D, e, f], MOST)
    assert ("of the stages within each replica", [B, e, A, D, C, f]) in signs.orders([A, B, C, D, e, f], MOST)


def test_a_layout_of_other_members_says_nothing() -> None:
    signs = MeshSigns(pipelines=((A, B),), rings=((A, B),), sure=1.0)
    assert signs.support([C, D], IRREGULAR) == 1.0
    assert signs.orders([C, D], MOST) == []


def test_a_ring_of_thousands_names_too_many_orders_to_look_at() -> None:
    ring = tuple(f"10.0.{i // 250}.{i % 250}" for i in range(4_000))
    signs = MeshSigns(groups=(ring,), rings=(ring,), sure=1.0)
    assert signs.orders(ring, MOST) == []
    assert signs.support(ring, IRREGULAR) == pytest.approx(1 / IRREGULAR)
