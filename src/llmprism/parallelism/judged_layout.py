"""How sure a layout is, once all passes are done: what the draft rests on, and what else it may be."""

from __future__ import annotations

from dataclasses import replace

from llmprism.arrays import Float64
from llmprism.model.layout import JobLayout, PairKind
from llmprism.parallelism.features import pair_features
from llmprism.parallelism.layout_evidence import (
    LayoutEvidence,
    exchanging_share,
    layout_confidence,
    named_share,
    other_layouts,
    same_lengths,
    terms_of,
)
from llmprism.parallelism.left_over import left_over
from llmprism.parallelism.other_readings import other_readings
from llmprism.parallelism.partial_layout import PartialLayout
from llmprism.parallelism.stated_layout import stated_layout
from llmprism.parallelism.step_confidence import steps_confidence
from llmprism.parallelism.structure import in_two

__all__ = ["judged_layout"]


def judged_layout(draft: PartialLayout) -> JobLayout:
    """The layout that a finished draft states, with how sure it is and what else it might be."""
    layout, rules = stated_layout(draft), draft.rules
    judged = draft.kinds.confidence
    links = judged[judged >= 0.5]
    evidence = _evidence(draft, layout, links)
    known = evidence.named if any(group.kind is PairKind.UNKNOWN for group in layout.groups) else 1.0
    confidence, grouping = (
        round(known * layout_confidence(one, evidence, rules), 3) if links.size else 0.0
        for one in (layout.layout, replace(layout.layout, micro_batches=None))
    )
    others = other_layouts(layout.layout, evidence, confidence, rules)
    terms = terms_of(layout.layout, evidence, rules)
    return replace(
        layout, confidence=confidence, grouping=grouping, alternatives=others, evidence=tuple(terms.items()),
        steps_confidence=steps_confidence(layout.layout, terms), step_bytes=draft.best.step_bytes,
    )  # fmt: skip


def _evidence(draft: PartialLayout, layout: JobLayout, links: Float64) -> LayoutEvidence:
    """What speaks for and against it; `links` are the confidences of those that have a meaning."""
    job, bulk, peers = draft.whole, draft.bulk, draft.peers
    known_already = draft.job.transfers is job.transfers and draft.measured is draft.clock
    features = draft.features if known_already else pair_features(job.transfers, draft.clock, draft.rules)
    return LayoutEvidence(
        links=float(links.mean()) if links.size else 0.0,
        weakest=float(links.min()) if links.size else 0.0,
        overruled=1.0 - links.size / max(draft.kinds.confidence.size, 1),
        width=peers.confidence if peers is not None else 1.0,
        widths=peers.others if peers is not None else (),
        lead=draft.best.lead,
        rival_period=draft.best.rival_period,
        steps=draft.clock.steps,
        named=named_share(job.transfers, bulk, layout.pairs),
        even=same_lengths(draft.groups, draft.pipes.members),
        hybrid=in_two(draft.groups),
        direction=draft.pipes.clear,
        exchanging=exchanging_share(layout.groups, job.members),
        misfit=draft.rules.stages.schedule_hopeless if draft.order.by_bytes else draft.order.misfit,
        played=draft.order.played,
        over_chance=draft.order.over_chance(draft.rules),
        across=bool((layout.pairs.kind == PairKind.TP).any()),
        rest=left_over(job.transfers, bulk, draft.collective & draft.inside.gradients & ~draft.inside.inside,
                       features, draft.groups, draft.clock, draft.rules),
        bytes_say=other_readings(draft.explained, job.transfers, layout, draft.rules),
        job=job.confidence,
    )  # fmt: skip
