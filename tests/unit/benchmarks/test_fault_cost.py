"""What a fault costs, against a twin run without it: one small scenario."""

from __future__ import annotations

from fault_cost import twin_costs
from llmprism.sim import read_scenario


def test_what_a_fault_costs_is_within_a_tenth_of_a_twin_run() -> None:
    (cost,) = twin_costs(read_scenario("slow-nic"))
    assert cost.true > 50.0
    assert abs(cost.error) < 0.1
