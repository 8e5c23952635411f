"""Orders of passes, played through: dependencies hold, every micro-batch passes, known makespans come out."""

import numpy as np
import pytest

from llmprism.kernel import always_compiled
from llmprism.parallelism.schedules import gpipe, interleaved, message_times, one_f_one_b, v_shaped


@pytest.mark.parametrize(
    ("order", "each_way"),
    [
        (gpipe(4, 6), {(0, 1): 6, (1, 0): 6, (2, 3): 6}),
        (one_f_one_b(4, 6), {(0, 1): 6, (3, 2): 6}),
        (interleaved(2, 6, 2), {(0, 1): 18, (1, 0): 18}),
        (interleaved(2, 8, 4), {(0, 1): 56, (1, 0): 56}),
        (interleaved(4, 8, 2), {(0, 1): 16, (3, 0): 8, (0, 3): 8}),
        (v_shaped(4, 8), {(0, 1): 16, (1, 0): 16, (3, 2): 16}),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_every_order_ends_and_sends_what_its_micro_batches_make(order, each_way):
    times = message_times(order, backward=2.0, delay=0.1)
    assert all(np.isfinite(moments).all() for moments in times.values())
    assert {link: times[link].size for link in each_way} == each_way


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_1f1b_and_gpipe_take_as_long_as_their_bubble_says(stages):
    batches = 2 * stages
    for order in (gpipe(stages, batches), one_f_one_b(stages, batches)):
        last = message_times(order, backward=2.0, delay=0.0)[1, 0][-1]
        assert last == (batches + stages - 1) * 3.0 - 2.0  # the last gradient leaves before the last backward pass


def test_1f1b_returns_gradients_while_activations_flow_and_gpipe_does_not():
    early = message_times(one_f_one_b(2, 8), backward=2.0, delay=0.0)
    late = message_times(gpipe(2, 8), backward=2.0, delay=0.0)
    assert early[1, 0][0] < early[0, 1][2]
    assert late[1, 0][0] > late[0, 1][-1]


def test_a_delay_moves_what_waits_for_it():
    order = one_f_one_b(2, 2)
    assert message_times(order, 2.0, 0.5)[1, 0][0] == message_times(order, 2.0, 0.0)[1, 0][0] + 0.5


def test_the_compiled_play_is_the_interpreted_one():
    order = v_shaped(3, 7)
    interpreted = message_times(order, 2.0, 0.3)
    with always_compiled():
        compiled = message_times(order, 2.0, 0.3)
    assert all(np.array_equal(interpreted[link], compiled[link]) for link in interpreted)
