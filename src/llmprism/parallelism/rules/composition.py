"""The composition of collectives that explains the bytes of all pairs: every constant of it."""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.parallelism.rank_mesh import GradientRoute

__all__ = ["CompositionRules"]


@dataclass(frozen=True, slots=True)
class CompositionRules:
    """Which layouts are tried, and what their predictions are worth."""

    most_ranks: int = 1024
    """Members of a job whose layouts are tried: each layout costs a pass over all pairs, 0.1 s in all for 1024."""

    most_pairs: int = 8192
    """Pairs of such a job: all-to-alls of hundreds of experts have more, and are found by their meshes."""

    most_stages: int = 64
    """Stages of a pipeline."""

    most_tensors: int = 64
    """Ranks of a tensor-parallel group."""

    most_contexts: int = 64
    """Ranks of a ring of contexts or of an all-to-all of experts."""

    routes: tuple[GradientRoute, ...] = (
        GradientRoute(tree=False, orders=((0,),)),
        GradientRoute(tree=False, orders=((0,), (1,))),
        GradientRoute(tree=False, orders=((0, 1),)),
        GradientRoute(tree=False, orders=((0, 1, 2),)),
        GradientRoute(tree=False, orders=((0, 1, 2, 3),)),
        GradientRoute(tree=False, orders=((0, 2), (1, 3))),
        GradientRoute(tree=False, orders=((0, 2, 0), (1, 3, 1))),
        GradientRoute(tree=True, orders=((0,),)),
        GradientRoute(tree=True, orders=((0, 1),)),
        GradientRoute(tree=True, orders=((0, 1, 2),)),
        GradientRoute(tree=True, orders=((0, 1, 2, 3),)),
    )
    """Rings and trees of one channel to four, in the orders that libraries take; rings both ways with one channel or
    several."""

    taken: float = 0.97
    """Share of the pairs of a collective that must carry something: collectors lose records, seldom all of a pair."""

    covered: float = 0.9
    """Share of the pairs that carry something that a layout must take."""

    least_amount: float = 0.02
    """Share of the median bytes of a pair below which errors are no longer relative."""

    rounds: int = 8
    """Rounds of the fit that takes the weight from outliers."""

    outlier: float = 0.02
    """Relative error from which a pair loses weight."""

    amount_range: float = 10.0
    """Bytes of pairs are known before to within this many e-foldings: from kilobytes to terabytes."""

    errors: tuple[float, ...] = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
    """Relative errors of the bytes of a pair: counters alone, records lost, many lost or sampled."""

    token_errors: tuple[float, ...] = (0.0, 0.005, 0.02, 0.1, 0.3)
    """Relative errors of what experts exchange in all steps of a window, by how unevenly tokens are routed."""

    contexts_of_tokens: float = 0.1
    """Bytes of contexts, relative to those of tokens on the same pairs, below which they are what tokens differ by:
    0.026 in two random jobs without contexts. Both are activations of one pass, so contexts carry about as much."""

    fitting: float = 5.0
    """Errors within which a pair fits, where they are larger than what makes an outlier."""

    not_sent_bits: float = 10.0
    """Bits that a pair costs at most that carries nothing, or something else than predicted."""

    collective_bits: float = 4.0
    """Bits to name a collective of a layout."""

    # Against what the passes found
    complete: float = 0.9
    """Share of the pairs whose bytes a composition must predict before it is held against other evidence.
    Without it two wrong layouts of 720 were surer (0.25 to 0.74, 0.16 to 0.64) and none became right."""

    agreeing: float = 0.99
    """Share of the pairs of which a layout must say the same to be the same."""

    ahead_bits: float = 20.0
    """Bits by which a composition must be ahead of a layout that moments speak for."""

    across_bits: float = 16.0
    """Bits that tensor groups across servers cost: they are slow, and few jobs have them."""

    axis_bits: float = 2.0
    """Bits that each axis costs that not every job has: contexts, experts."""

    shards_bits: float = 18.0
    """Bits that shards with replicas cost that moments and fixed ratios of bytes (`hybrid`) do not show."""

    not_found_bits: float = 4.0
    """Bits that shards with replicas cost besides which the passes did not find: they find nine of ten of true ones
    (trees hide some), and none where there are none."""

    merged_bits: float = 6.0
    """Bits that two collectives cost that take the very same pairs: bytes do not show the second one."""

    denied_bits: float = 10.0
    """Bits that each decision costs that moments decided otherwise: stages, the width of tensor groups, contexts,
    experts, which of the three an exchange is. More than a second collective on the same pairs costs, which only
    moments show."""
