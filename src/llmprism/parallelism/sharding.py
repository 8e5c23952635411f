"""Are the parameters sharded?

Fully sharded training gathers every layer in the forward pass, gathers it again and reduces its gradients in the
backward pass: gradient-like traffic starts with the step, and the step's bytes fall into equal collectives whose number
is a multiple of three. Replicated training is silent until the backward pass. Anything between is `unknown`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.layout import PairKind, Sharding
from llmprism.parallelism.features import PROFILE_BINS, PairFeatures
from llmprism.parallelism.micro_batches import equal_messages

__all__ = ["sharding_of"]

EARLY: Final = 0.15
"""Phase by which a tenth of the bytes must have flowed for sharding: the forward pass gathers a third of them."""

GATHERS_EXPLAIN: Final = 0.4
"""Share of the silence between collectives: chance gives 0.2, pauses inside the large collectives take the rest."""

LATE: Final = 0.25
"""Phase before which less than a tenth of the bytes flow when the forward pass is silent."""


def sharding_of(transfers: TransferTable, pair_kind: NDArray[np.int8], features: PairFeatures, clock: StepClock, *,
                has_pipelines: bool) -> Sharding:  # fmt: skip
    """Sharding of the data-parallel traffic; `unknown` without any, or when its place in the step does not tell."""
    gradient = np.flatnonzero(pair_kind == PairKind.DP)
    profile = features.profile[gradient].sum(axis=0)
    if profile.sum() <= 0:
        return Sharding.UNKNOWN
    tenth = float(np.searchsorted(np.cumsum(profile) / profile.sum(), 0.1)) / PROFILE_BINS
    if tenth >= LATE:
        return Sharding.NONE
    if tenth <= EARLY and not has_pipelines:
        parts = equal_messages(transfers, [int(p) for p in gradient], clock, GATHERS_EXPLAIN)
        if parts is not None and parts >= 6 and parts % 3 == 0:
            return Sharding.FSDP
    return Sharding.UNKNOWN
