"""What the traffic of a job says about the model it trains and about how well it uses the network."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["JobFacts", "ModelSize", "Synchronisation"]


class Synchronisation(StrEnum):
    """How the replicas of a parameter are kept equal."""

    ALL_REDUCE = "all_reduce"
    SHARDED_OPTIMIZER = "sharded_optimizer"
    SHARDED_PARAMETERS = "sharded_parameters"


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The size of the model, if its gradients are synchronised in this way with elements of this many bytes.

    The lists have one entry per pipeline stage, and one in all without pipelines. A GPU's parameters are those that it
    computes with, whoever stores them. The totals are None where the tensor-parallel degree is not known.
    """

    synchronisation: Synchronisation
    gradient_element_bytes: int
    parameter_element_bytes: int
    parameters_per_gpu: tuple[int, ...]
    gradient_bytes_per_gpu: tuple[int, ...]
    parameters: int | None
    gradient_bytes: int | None
    confidence: float


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Medians over the steps without the set-up step. None where the evidence does not support a value.

    `sent_bytes_per_gpu` is what a GPU sends in one step to synchronise gradients, one entry per pipeline stage.
    `sizes` are the sizes of the model that this volume fits, the most plausible first. `exposed_communication` is the
    share of a step in which a GPU waits for the synchronisation of gradients, `pipeline_bubble` the share of the
    pipelined part of a step in which the last stage has no work, `bus_bandwidth_gbps` what a GPU sends while it
    synchronises gradients.
    """

    sent_bytes_per_gpu: tuple[int, ...] | None = None
    sizes: tuple[ModelSize, ...] = ()
    exposed_communication: float | None = None
    pipeline_bubble: float | None = None
    bus_bandwidth_gbps: float | None = None

    @property
    def size(self) -> ModelSize | None:
        """The most plausible size of the model."""
        return self.sizes[0] if self.sizes else None
