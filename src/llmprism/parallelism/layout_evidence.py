"""How sure a layout is, and what else it might be.

A layout is right when all of its parts are: the kinds of the links, the width of tensor groups, the clock. Each part
has a doubt of its own, and what a part leaves open is an alternative layout. Doubts are not probabilities of mistakes
yet: they are measured on evidence, and mistakes mostly come from what nobody thought of. So the evidence is summed up
as log odds, with a price for every claim beyond pure data parallelism, and mapped to the share of layouts that were
right with as much evidence (`fitted_confidence`, where the numbers and their origin stand).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from llmprism.arrays import Bool
from llmprism.model.flows import TransferTable
from llmprism.model.layout import Group, Layout, LayoutAlternative, PairKind, PairRoles, Schedule, Sharding
from llmprism.parallelism.fitted_confidence import FITTED
from llmprism.parallelism.left_over import LeftOver
from llmprism.parallelism.likely_messages import odd_part
from llmprism.parallelism.other_readings import OtherReadings
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.logistic import logistic

__all__ = [
    "LayoutEvidence",
    "exchanging_share",
    "layout_confidence",
    "named_share",
    "other_layouts",
    "same_lengths",
    "share_right",
    "terms_of",
]


@dataclass(frozen=True, slots=True)
class LayoutEvidence:
    """What speaks for a layout.

    `links` is the mean confidence in the kinds of the links that were judged as they were named, `weakest` that of the
    least sure of them, and `overruled` the share of the links that the whole graph names otherwise than they were
    judged by themselves. `width` is the probability of the width of tensor groups, `widths` are the others with theirs.
    The best clock leads by `lead` bits per pause, over one with a period of `rival_period` of its own (0: there is
    none), and shows `steps`. `named` is the share of the bytes whose kind is known. `even`: all groups, and all
    pipelines, are of one length; `hybrid`: some members are in two gradient groups. `direction`: how clear the
    direction of the pipelines is, from 0 to 1. `exchanging` is the share of the members that take part in exchanges of
    contexts or experts where there are any: all do. `misfit`: nats per message by which the best schedule misses the
    moments of the messages between stages, `over_chance` the same relative to random moments, `played` whether any was
    compared with them. `across`: tensor groups span servers, which few do. `rest` is what the layout leaves
    unexplained. `bytes_say` is how near other layouts are that say the same of all bytes. `job` is the confidence in
    the job: that it trains, and with these members.
    """

    links: float
    weakest: float
    overruled: float
    width: float
    lead: float
    steps: int
    named: float
    even: bool
    hybrid: bool = False
    direction: float = 1.0
    exchanging: float = 1.0
    misfit: float = 0.0
    played: bool = True
    over_chance: float = 0.0
    across: bool = False
    rival_period: float = 0.0
    widths: tuple[tuple[int, float], ...] = ()
    rest: LeftOver = field(default_factory=LeftOver)
    bytes_say: OtherReadings = field(default_factory=OtherReadings)
    job: float = 1.0


def _clock_doubt(evidence: LayoutEvidence, rules: LayoutRules) -> float:
    """Doubt about the clock: less the further it leads."""
    return rules.confidence.clock_doubt * float(np.exp(-max(evidence.lead, 0.0) / rules.confidence.clear_lead_bits))


def layout_confidence(layout: Layout, evidence: LayoutEvidence, rules: LayoutRules = RULES) -> float:
    """The share of layouts with as much evidence, for claims as dear, that were right."""
    return round(share_right(terms_of(layout, evidence, rules), dict(FITTED.weights)), 3)


def share_right(terms: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The same by terms and weights."""
    odds = sum(weight * terms.get(name, 0.0) for name, weight in weights.items())
    return logistic(odds)


def named_share(transfers: TransferTable, bulk: Bool, pairs: PairRoles) -> float:
    """Share of the bytes of the bulk pairs that some kind of training traffic was named for."""
    known = ~np.isin(pairs.kind, (PairKind.UNKNOWN, PairKind.OTHER))
    ends = [src.astype(np.int64) << 32 | dst for src, dst in
            ((transfers.pair_src, transfers.pair_dst), (pairs.src[known], pairs.dst[known]))]  # fmt: skip
    size = transfers.pair_bytes[bulk].astype(np.float64)
    return float(size[np.isin(ends[0][bulk], ends[1])].sum() / max(float(size.sum()), 1.0))


def same_lengths(groups: tuple[Group, ...], pipelines: tuple[tuple[int, ...], ...]) -> bool:
    """Are all groups, and all pipelines, of one length?"""
    lengths = {len(group.members) for group in groups}, {len(pipeline) for pipeline in pipelines}
    return all(len(found) <= 1 for found in lengths)


def exchanging_share(groups: tuple[Group, ...], members: tuple[int, ...]) -> float:
    """The least share of the members that are in groups of contexts, or of experts, where there are such groups."""
    shares = [
        len({member for group in groups if group.kind is kind for member in group.members}) / max(len(members), 1)
        for kind in (PairKind.CP, PairKind.EP)
    ]
    return min((share for share in shares if share > 0.0), default=1.0)


def terms_of(layout: Layout, evidence: LayoutEvidence, rules: LayoutRules = RULES) -> dict[str, float]:
    """What the log odds of a layout are made of, by the names of `fitted_confidence`."""
    rule = rules.confidence
    return {
        "constant": 1.0,
        "links": _log_odds(evidence.links, rules),
        "weakest_link": _log_odds(evidence.weakest, rules),
        "overruled_links": evidence.overruled,
        "width": _log_odds(evidence.width, rules),
        "clock": _log_odds(1.0 - _clock_doubt(evidence, rules), rules),
        "steps": float(np.log2(max(evidence.steps, 1) / rules.confidence.usual_steps)),
        "unnamed_bytes": 1.0 - evidence.named,
        "uneven": float(not evidence.even),
        "pipelines": float((layout.pp or 1) > 1),
        "interleaved": float(layout.schedule is Schedule.INTERLEAVED),
        "micro_batch_bits": _micro_batch_bits(layout),
        "hybrid": float(evidence.hybrid),
        "experts": float(layout.ep is not None),
        "contexts": float(layout.cp is not None),
        "open_degrees": float(None in (layout.tp, layout.pp, layout.dp)),
        "unknown_sharding": float(layout.sharding is Sharding.UNKNOWN and (layout.dp or 1) > 1),
        "silent_pairs": evidence.rest.silent_pairs,
        "varied_bytes": evidence.rest.varied_bytes,
        "varied_pairs": evidence.rest.varied_pairs,
        "uneven_hops": evidence.rest.uneven_hops,
        "irregular_steps": evidence.rest.irregular_steps,
        "open_micro_batches": float((layout.pp or 1) > 1 and layout.micro_batches is None),
        "unclear_direction": -float(np.log2(max(evidence.direction, rules.confidence.least_doubt))),
        "partly_exchanging": 1.0 - evidence.exchanging,
        "sharded_stages": float((layout.pp or 1) > 1 and layout.sharding is Sharding.FSDP),
        "sharded_alone": float(_sharded_alone(layout)),
        "open_shards": float(_sharded_alone(layout) and bool(evidence.widths) and evidence.width < rule.known_width),
        "other_readings": 0.0 if evidence.bytes_say.share is None else _log_odds(evidence.bytes_say.share, rules),
        "behind": min(evidence.bytes_say.behind / rules.confidence.far_behind_bits, 1.0),
        "not_composed": 1.0 - evidence.bytes_say.explained,
        "contexts_of_one": float(layout.dp == 1 and layout.cp is not None),
        "no_schedule": min(evidence.misfit, rules.stages.schedule_hopeless),
        "no_moments": float(_counted(layout) and not evidence.played),
        "like_chance": min(evidence.over_chance, rule.most_over_chance),
        "one_micro_batch": float((layout.pp or 1) > 1 and layout.micro_batches == 1),
        "tensors_across": float(evidence.across),
        "two_replicas": float(layout.dp == 2 and layout.ep is None and layout.cp is None),
        "doubtful_job": max(0.0, float(np.log2(max(1.0 - evidence.job, 1e-9) / rules.confidence.usual_doubt))),
    }


def _counted(layout: Layout) -> bool:
    """Are there several micro-batches, by the number of messages between stages?"""
    return (layout.pp or 1) > 1 and (layout.micro_batches or 1) > 1


def _sharded_alone(layout: Layout) -> bool:
    """Are parameters sharded over all ranks, with no pipeline that shows who works together?"""
    return (layout.pp or 1) == 1 and layout.sharding is Sharding.FSDP


def _micro_batch_bits(layout: Layout) -> float:
    """What it takes to say how many micro-batches there are beyond a power of two and the stages: nobody sets 59, and
    messages that are no micro-batches make such numbers."""
    stages, batches = layout.pp or 1, layout.micro_batches
    if batches is None or batches < 1 or stages <= 1:
        return 0.0
    return math.log2(odd_part(batches, stages))


def other_layouts(
    layout: Layout, evidence: LayoutEvidence, confidence: float, rules: LayoutRules = RULES
) -> tuple[LayoutAlternative, ...]:
    """The layouts that the doubts leave open, the likeliest first; together as likely as the layout is not."""
    found = _once(
        [
            *_other_widths(layout, evidence),
            *_other_clock(layout, evidence, rules),
            *_other_kinds(layout, evidence, rules),
            *_read_otherwise(layout, evidence),
        ]
    )
    total = sum(one.confidence for one in found)
    if total <= 0.0:
        return ()
    share = min((1.0 - confidence) * (1.0 - rules.confidence.something_else) / total, 1.0)
    scaled = [replace(one, confidence=round(one.confidence * share, 3)) for one in found]
    listed = [one for one in scaled if one.confidence >= rules.confidence.worth_saying and one.layout != layout]
    return tuple(sorted(listed, key=lambda one: -one.confidence))


def _other_widths(layout: Layout, evidence: LayoutEvidence) -> list[LayoutAlternative]:
    if layout.tp is None or layout.dp is None:
        return []
    both = layout.tp * layout.dp
    return [
        LayoutAlternative(
            replace(layout, tp=width, dp=both // width),
            probability,
            f"if {width} GPUs of a server are one tensor-parallel group" if width > 1 else "if no GPUs of a server "
            "are tensor-parallel peers",
        )
        for width, probability in evidence.widths
        if both % width == 0 and width != layout.tp
    ]  # fmt: skip


def _other_clock(layout: Layout, evidence: LayoutEvidence, rules: LayoutRules) -> list[LayoutAlternative]:
    """A step of another length holds other numbers of micro-batches."""
    batches, ratio = layout.micro_batches, evidence.rival_period
    if batches is None:
        return []
    found = []
    if round(batches * ratio) >= 1:
        other = replace(layout, micro_batches=round(batches * ratio))
        found.append(LayoutAlternative(other, _clock_doubt(evidence, rules), f"if a step is {ratio:.3g} times as long"))
    if _micro_batch_bits(layout) > 0.0:
        other, doubt = (
            replace(layout, micro_batches=None),
            rules.confidence.least_doubt * 2.0 ** _micro_batch_bits(layout),
        )
        found.append(LayoutAlternative(other, doubt, "if not all messages between stages are micro-batches"))
    return found


def _other_kinds(layout: Layout, evidence: LayoutEvidence, rules: LayoutRules) -> list[LayoutAlternative]:
    """What it is if a kind is another: gradients for activations, for contexts or for experts."""
    doubt = max(1.0 - evidence.links, evidence.overruled, rules.confidence.least_doubt)
    found = []
    if layout.cp is not None:
        copies = None if layout.dp is None else layout.dp * layout.cp
        found.append(LayoutAlternative(replace(layout, cp=None, dp=copies), doubt, "if the rings of contexts carry "
                                       "gradients"))  # fmt: skip
    if layout.ep is not None:
        found.append(LayoutAlternative(replace(layout, ep=None), doubt, "if the all-to-alls carry gradients"))
    if (layout.pp or 1) > 1:
        other = replace(layout, tp=None, pp=1, dp=None, micro_batches=None)
        found.append(LayoutAlternative(other, doubt, "if the links between stages carry gradients"))
    elif layout.cp is None and layout.ep is None and (layout.dp or 1) > 1:
        other = replace(layout, tp=None, pp=None, dp=None)
        found.append(LayoutAlternative(other, doubt, "if some links carry activations"))
    return found


def _read_otherwise(layout: Layout, evidence: LayoutEvidence) -> list[LayoutAlternative]:
    """The layouts that say the same of the bytes of all pairs, or nearly the same."""
    found = []
    for (tensors, stages, replicas, experts, contexts), share in evidence.bytes_say.others:
        degrees = (("tp", tensors), ("pp", stages), ("dp", replicas), ("ep", experts), ("cp", contexts))
        other = replace(
            layout, tp=tensors, pp=stages, dp=replicas, ep=experts if experts > 1 else None,
            cp=contexts if contexts > 1 else None,
            micro_batches=layout.micro_batches if stages == layout.pp else None,
        )  # fmt: skip
        named = ", ".join(f"{name} {size}" for name, size in degrees if size > 1)
        found.append(
            LayoutAlternative(other, share, f"if the bytes of all pairs are those of {named}, which fit as well")
        )
    return found


def _once(found: list[LayoutAlternative]) -> list[LayoutAlternative]:
    """Each layout once, as likely as the likeliest of its reasons."""
    best: dict[Layout, LayoutAlternative] = {}
    for one in found:
        if one.layout not in best or one.confidence > best[one.layout].confidence:
            best[one.layout] = one
    return list(best.values())


def _log_odds(share: float, rules: LayoutRules) -> float:
    kept = min(max(share, rules.confidence.least_doubt), 1.0 - rules.confidence.least_doubt)
    return float(np.log2(kept / (1.0 - kept)))
