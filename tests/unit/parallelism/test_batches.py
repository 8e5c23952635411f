"""A collective on the link of two stages passes for one more message, and its moments deny it."""

import pytest

from llmprism.model import Schedule
from llmprism.parallelism import batches
from llmprism.parallelism.rules import RULES
from llmprism.parallelism.schedule_fit import ScheduleFit
from llmprism.parallelism.stage_links import Pipelines


def fit(messages, misfit):
    return ScheduleFit(Schedule.ONE_F_ONE_B, messages, misfit, messages=messages)


@pytest.mark.parametrize(
    ("stages", "counted", "one_less", "stands"),
    [
        (2, fit(9, 0.55), fit(8, 0.0), 8),
        (2, fit(9, 0.55), fit(8, 0.5), 9),
        (2, fit(9, 0.0), fit(8, 0.0), 9),
        (3, fit(9, 0.55), fit(8, 0.0), 9),
        (2, fit(448, 0.35), fit(447, 0.2), 448),
    ],
)
def test_one_message_less_where_that_is_explained_better(monkeypatch, stages, counted, one_less, stands):
    monkeypatch.setattr(batches, "fit_of_messages", lambda *given: {one_less.messages: one_less}[given[4]])
    pipes = Pipelines((tuple(range(stages)),), [(0, 1)], [], [], rings=False)
    fits = batches._Fits(None, pipes, None, None, RULES)
    assert fits._without_collective(counted).micro_batches == stands
    assert fits._without_collective(None) is None
