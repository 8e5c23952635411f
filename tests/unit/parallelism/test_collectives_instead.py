"""Pipelines that explain nothing give way to the layout without them; what the links show counts twice."""

import importlib
from dataclasses import replace

import numpy as np
import pytest

from llmprism.parallelism import identify_layout
from llmprism.parallelism.collectives_instead import collectives_instead, odds_of_rival
from llmprism.parallelism.fitted_confidence import FITTED
from llmprism.parallelism.rival_clocks import best_clock
from llmprism.parallelism.rules import RULES
from support.stages import recognize
from unit.builders import build_job, transfer_table

passes = importlib.import_module("llmprism.parallelism.identify_layout")


@pytest.fixture(scope="module")
def staged():
    """What is seen of the links of two stages, and the layout that follows."""
    job = build_job(pp=2, dp=2)
    (found,) = recognize(transfer_table(job.records), job.topology).jobs
    bulk = np.ones(found.transfers.pair_count, dtype=np.bool_) if found.bulk is None else found.bulk
    clock = best_clock(found, bulk, RULES, 0)
    return passes._seen_links(found, bulk, clock, RULES), identify_layout(found)


def read(draft):
    return passes._after(passes.PASSES, draft)


def test_stages_that_explain_their_messages_stay(staged):
    seen, layout = staged
    assert layout.layout.pp == 2
    assert collectives_instead(seen, layout, read) is layout


def test_stages_that_explain_nothing_are_collectives(staged):
    seen, layout = staged
    doubtful = replace(layout, evidence=(("weakest_link", 0.1), ("no_schedule", 2.0), ("like_chance", 4.0)))
    found = collectives_instead(seen, doubtful, read)
    assert found.layout.pp == 1
    assert not found.pipelines
    assert 0.5 < found.confidence < 0.9


def test_what_the_links_show_speaks_against_the_other_reading(staged):
    _, layout = staged
    weight = FITTED.weight("weakest_link")
    unsure, sure = (replace(layout, evidence=(("weakest_link", bits),)) for bits in (0.0, 3.0))
    assert odds_of_rival(unsure, unsure) == 0.0
    assert odds_of_rival(sure, unsure) == odds_of_rival(sure, sure) == pytest.approx(-3.0 * weight)


def test_a_reading_that_is_unlikely_by_itself_replaces_none(staged):
    seen, layout = staged
    doubtful = replace(layout, evidence=(("weakest_link", 9.0), ("no_schedule", 20.0), ("like_chance", 9.0)))
    assert collectives_instead(seen, doubtful, read) is doubtful
