"""A simulated cluster with exact truth: scenario in, flow records, topology and truth out.

    scenario, specs, scenario_checks      a TOML file → cluster, jobs, collector, faults
    simulated_cluster, placement          servers, switches and paths; which GPUs each job gets
    program (builder, ops)                a job as operations: pipeline_step (schedule), fsdp_step, gradients,
                                          collectives/
    faults, background                    what goes wrong, and traffic that is not training
    simulation → engine                   plays all operations in time order → transfers, with transfer, exchanges,
                                          rings, engine_tables, noise (random numbers), compiled (kernels)
    meter, collector, recorder, writer    transfers → flow records, as exporters and collectors distort them
    truth, true_events                    what a perfect report would say
    run                                   all of it, into a folder

Shares no code with the stages that analyse flows: a simulator that shares the analyser's assumptions proves nothing.
"""

from llmprism.sim.run import Summary, simulate
from llmprism.sim.scenario import Scenario, parse_scenario, read_scenario, scaled, scenario_names

__all__ = ["Scenario", "Summary", "parse_scenario", "read_scenario", "scaled", "scenario_names", "simulate"]
