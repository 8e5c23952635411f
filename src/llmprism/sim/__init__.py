"""A simulated cluster with exact truth: scenario in, flow records, topology and truth out.

Shares no code with the stages that analyse flows: a simulator that shares the analyser's assumptions proves nothing.
"""

from llmprism.sim.run import Summary, simulate
from llmprism.sim.scenario import Scenario, parse_scenario, read_scenario, scaled, scenario_names

__all__ = ["Scenario", "Summary", "parse_scenario", "read_scenario", "scaled", "scenario_names", "simulate"]
