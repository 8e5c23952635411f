"""Messages of a link, counted by its pauses."""

import numpy as np
import pytest

from llmprism.parallelism.link_evidence import _long_pauses
from llmprism.parallelism.rules import RULES


def pauses(pieces, batches, steps):
    """Logarithms of the pauses of steps of `batches` messages in `pieces` pieces, with a long rest after each step."""
    one_message = [1e4] * (pieces - 1)
    one_step = [*one_message, 1e6] * (batches - 1) + one_message
    return np.log2(np.array([*one_step, 1e9] * (steps - 1) + one_step))


@pytest.mark.parametrize("batches", [4, 32])
def test_pieces_of_a_message_are_counted_once(batches):
    assert 1 + _long_pauses(pauses(8, batches, 10), 10, RULES) == pytest.approx(10 * batches, abs=1)


def test_the_rests_between_steps_do_not_make_one_message_of_each_step():
    """Whole messages, whose pauses are a thousandth of the rest between steps."""
    assert 1 + _long_pauses(pauses(1, 32, 10), 10, RULES) == 320
