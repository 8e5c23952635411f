from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.logs.masking import mask_text
from llmprism.logs.templates import group_shapes

LOGHUB = Path(__file__).parents[3] / "../shared/data/loghub_2k"
WORDS = st.sampled_from(["open", "close", "user", "root", "alice", "from", "*", "port", "failed"])


def test_words_that_differ_become_wildcards() -> None:
    shapes = [f"session closed for user {name} after * s" for name in ("alice", "bob", "carol")]
    groups = group_shapes(shapes)
    assert {groups[shape].text for shape in shapes} == {"session closed for user <*> after * s"}


@given(st.lists(st.lists(WORDS, min_size=1, max_size=7).map(" ".join), min_size=1, max_size=25), st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_the_order_of_arrival_does_not_matter(shapes: list[str], seed: int) -> None:
    shuffled = random.Random(seed).sample(shapes, len(shapes))
    one, other = group_shapes(shapes), group_shapes(shuffled)
    assert {s: one[s].text for s in shapes} == {s: other[s].text for s in shapes}


@pytest.mark.skipif(not LOGHUB.is_dir(), reason="no ../shared/data/loghub_2k next to the project")
def test_grouping_accuracy_on_loghub_with_one_setting() -> None:
    import csv
    from collections import defaultdict

    accuracies = []
    for system in sorted(p for p in LOGHUB.iterdir() if p.is_dir()):
        with (system / f"{system.name}_2k.log_structured.csv").open(
            newline="", encoding="utf-8", errors="replace"
        ) as file:
            rows = list(csv.DictReader(file))
        masks = [mask_text(row["Content"].encode()).decode("utf-8", "replace") for row in rows]
        groups = group_shapes(masks)
        mine, truth = defaultdict(list), defaultdict(list)
        for line, (mask, row) in enumerate(zip(masks, rows, strict=True)):
            mine[id(groups[mask])].append(line)
            truth[row["EventId"]].append(line)
        right = sum(len(lines) for lines in mine.values() if truth[rows[lines[0]]["EventId"]] == lines)
        accuracies.append(right / len(rows))
    assert len(accuracies) == 16
    assert sum(accuracies) / 16 >= 0.865
