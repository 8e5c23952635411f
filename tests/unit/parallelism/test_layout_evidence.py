"""How sure a layout is follows its evidence; what its doubts leave open is listed."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.model.layout import Group, Layout, PairKind, PairRoles, Schedule, Sharding
from llmprism.parallelism.fitted_confidence import FITTED
from llmprism.parallelism.layout_evidence import (
    LayoutEvidence,
    exchanging_share,
    layout_confidence,
    named_share,
    other_layouts,
    same_lengths,
    terms_of,
)
from llmprism.parallelism.left_over import LeftOver
from llmprism.parallelism.other_readings import OtherReadings
from unit.builders import MS, Flow, transfer_table

DATA_PARALLEL = Layout(1, 1, 8, None, None, Sharding.NONE, None, Schedule.UNKNOWN)
STAGED = Layout(2, 4, 2, None, None, Sharding.NONE, 8, Schedule.ONE_F_ONE_B)
CLEAR = LayoutEvidence(links=0.99, weakest=0.98, overruled=0.0, width=1.0, lead=2.0, steps=40, named=1.0, even=True,
                       bytes_say=OtherReadings(1.0, share=1.0))  # fmt: skip


def test_every_term_has_a_weight_and_no_weight_is_idle_for_want_of_a_term():
    assert {name for name, _ in FITTED.weights} == set(terms_of(DATA_PARALLEL, CLEAR))
    assert FITTED.fitted_to, "the numbers must say where they come from"


@pytest.mark.parametrize(
    "weaker",
    [
        {"links": 0.6},
        {"width": 0.5},
        {"lead": 0.0},
        {"steps": 4},
        {"named": 0.5},
        {"even": False},
        {"weakest": 0.1},
        {"overruled": 0.4},
        {"direction": 0.1},
        {"exchanging": 0.5},
        {"misfit": 1.5},
        {"played": False},
        {"over_chance": 3.0},
        {"across": True},
        {"rest": LeftOver(varied_pairs=3.0)},
        {"bytes_say": OtherReadings(1.0, share=0.3)},
        {"bytes_say": OtherReadings(1.0, behind=100.0, share=1.0)},
        {"bytes_say": OtherReadings(0.0, share=1.0)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_less_evidence_never_makes_a_layout_surer(weaker):
    assert layout_confidence(STAGED, replace(CLEAR, **weaker)) <= layout_confidence(STAGED, CLEAR)


def test_readings_that_were_not_looked_for_speak_neither_for_a_layout_nor_against_it():
    terms = terms_of(STAGED, replace(CLEAR, bytes_say=OtherReadings(1.0)))
    assert terms["other_readings"] == 0.0
    assert terms_of(STAGED, CLEAR)["other_readings"] > 0.0


def test_more_bits_that_speak_for_another_layout_count_more_up_to_a_limit():
    doubts = [terms_of(STAGED, replace(CLEAR, bytes_say=OtherReadings(1.0, behind=bits)))["behind"]
              for bits in (0.0, 10.0, 30.0, 100.0, 1000.0)]  # fmt: skip
    assert doubts[0] < doubts[1] < doubts[2] < doubts[3] == doubts[4]


def test_a_layout_is_less_sure_where_its_job_is():
    sure, usual, doubtful = (layout_confidence(DATA_PARALLEL, replace(CLEAR, job=job)) for job in (1.0, 0.98, 0.7))
    assert sure == usual > doubtful


def test_an_open_width_counts_more_where_nothing_but_shards_tells_it():
    open_ = replace(CLEAR, width=0.8, widths=((8, 0.2),))
    sharded = replace(DATA_PARALLEL, sharding=Sharding.FSDP)
    assert terms_of(sharded, open_)["open_shards"] == 1.0
    assert terms_of(sharded, replace(open_, width=0.97))["open_shards"] == 0.0
    assert terms_of(sharded, replace(open_, widths=()))["open_shards"] == 0.0
    assert terms_of(DATA_PARALLEL, open_)["open_shards"] == 0.0
    assert layout_confidence(sharded, open_) < layout_confidence(sharded, replace(open_, widths=()))


def test_a_pipeline_of_one_micro_batch_is_doubtful():
    assert terms_of(replace(STAGED, micro_batches=1), CLEAR)["one_micro_batch"] == 1.0
    assert terms_of(replace(DATA_PARALLEL, micro_batches=1), CLEAR)["one_micro_batch"] == 0.0


def test_doubt_shows():
    doubtful = replace(CLEAR, links=0.55, weakest=0.1, width=0.5, lead=0.0, steps=4)
    assert layout_confidence(STAGED, doubtful) < layout_confidence(STAGED, CLEAR) - 0.1


@pytest.mark.parametrize(("stages", "batches", "odd"), [(4, 8, 1), (3, 9, 3), (3, 6, 1), (4, 12, 3), (2, 59, 59)])
def test_micro_batches_cost_what_it_takes_to_say_how_many(stages, batches, odd):
    layout = replace(STAGED, pp=stages, micro_batches=batches)
    assert terms_of(layout, CLEAR)["micro_batch_bits"] == pytest.approx(np.log2(odd))


def test_other_widths_share_the_gpus_out_otherwise():
    layout = replace(DATA_PARALLEL, tp=4, dp=2)
    (other,) = other_layouts(layout, replace(CLEAR, links=1.0, width=0.6, widths=((1, 0.4),)), 0.5)[:1]
    assert (other.layout.tp, other.layout.dp) == (1, 8)
    assert 0.3 < other.confidence < 0.5


def test_a_step_of_another_length_holds_other_micro_batches():
    (other, *_) = other_layouts(STAGED, replace(CLEAR, lead=0.0, rival_period=2.0), 0.5)
    assert other.layout == replace(STAGED, micro_batches=16)
    assert other.why == "if a step is 2 times as long"


def test_contexts_may_be_gradients():
    layout = replace(STAGED, cp=2, dp=4)
    alternatives = other_layouts(layout, replace(CLEAR, links=0.8), 0.6)
    assert any((one.layout.cp, one.layout.dp) == (None, 8) for one in alternatives)


def test_what_the_bytes_leave_open_is_an_alternative_and_no_layout_is_listed_twice():
    others = (((2, 4, 1, 1, 2), 0.3), ((1, 1, 8, 1, 1), 0.2), ((4, 4, 1, 1, 1), 0.1))
    evidence = replace(CLEAR, bytes_say=OtherReadings(1.0, share=0.4, others=others), widths=((4, 0.25),), width=0.75)
    alternatives = other_layouts(replace(STAGED, tp=2, pp=4, dp=2), evidence, 0.4)
    stated = [(one.layout.tp, one.layout.pp, one.layout.dp, one.layout.cp) for one in alternatives]
    assert stated[:2] == [(2, 4, 1, 2), (4, 4, 1, None)]
    assert len(stated) == len(set(stated))
    staged = next(one for one in alternatives if one.layout.cp == 2)
    assert staged.layout.micro_batches == STAGED.micro_batches
    assert next(one for one in alternatives if one.layout.pp == 1 and one.layout.tp == 1).layout.micro_batches is None


@pytest.mark.parametrize("confidence", [0.0, 0.3, 0.9, 0.999])
def test_alternatives_are_as_likely_as_the_layout_is_not_at_most(confidence):
    evidence = replace(CLEAR, links=0.6, width=0.4, widths=((1, 0.4), (4, 0.2)), lead=0.0, rival_period=0.5)
    alternatives = other_layouts(STAGED, evidence, confidence)
    assert sum(one.confidence for one in alternatives) <= 1.0 - confidence + 0.01
    assert [one.confidence for one in alternatives] == sorted((o.confidence for o in alternatives), reverse=True)
    assert all(one.layout != STAGED for one in alternatives)


def test_named_share_counts_bytes_of_pairs_that_carry_training():
    flows = [Flow("a", "b", 0, MS, 3_000_000), Flow("b", "c", 0, MS, 1_000_000), Flow("c", "a", 0, MS, 9_000_000)]
    transfers = transfer_table(flows)
    kind = np.array([PairKind.DP, PairKind.UNKNOWN], dtype=np.int8)
    pairs = PairRoles(transfers.pair_src[:2], transfers.pair_dst[:2], kind, np.ones(2))
    bulk = np.array([True, True, False])
    assert named_share(transfers, bulk, pairs) == pytest.approx(0.75)


def test_axes_of_contexts_and_experts_take_every_member():
    half = (Group(PairKind.DP, (0, 1, 2, 3)), Group(PairKind.EP, (0, 1)))
    assert exchanging_share(half, (0, 1, 2, 3)) == 0.5
    assert exchanging_share((*half, Group(PairKind.EP, (2, 3))), (0, 1, 2, 3)) == 1.0
    assert exchanging_share(half[:1], (0, 1, 2, 3)) == 1.0


def test_groups_and_pipelines_have_a_shape():
    pair, three = Group(PairKind.DP, (0, 1)), Group(PairKind.DP, (1, 2, 3))
    assert same_lengths((pair, pair), ((0, 1), (2, 3)))
    assert not same_lengths((pair, three), ())
