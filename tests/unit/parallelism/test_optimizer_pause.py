import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.optimizer_pause import after_control, optimizer_pause
from unit.builders import MS, Flow, transfer_table

STEP = 1000 * MS
STEPS = 12
MEGABYTE = 1_000_000


def ring(parts, norms=(), members=4):
    """A ring that sends (begin in ms, megabytes) in every step, and tiny messages at these times of it."""
    names = [f"10.0.{i}.1" for i in range(members)]
    rows = []
    for step in range(STEPS):
        for i, name in enumerate(names):
            to = names[(i + 1) % members]
            for begin, size in parts:
                for piece in range(size):
                    start = step * STEP + (begin + piece) * MS
                    rows.append(Flow(name, to, start, start + MS, MEGABYTE))
            for when in norms:
                start = step * STEP + when * MS + i * 1000
                rows.append(Flow(name, to, start, start + 500, 64))
    return transfer_table(rows)


def clock_at(ms):
    ticks = np.arange(STEPS) * STEP + ms * MS
    return StepClock(ticks.astype(np.int64), np.ones(STEPS - 1, dtype=np.bool_), 1.0)


def every(transfers):
    return np.ones(transfers.pair_count, dtype=np.bool_)


def test_parameters_gathered_after_the_optimizer_belong_to_the_step():
    # forward silent, 200 MB of gradients, optimizer with the norm, 100 MB of parameters
    transfers = ring([(300, 200), (600, 100)], norms=[550])
    found = optimizer_pause(transfers, every(transfers), clock_at(505))
    assert found is not None
    assert found.gathers
    assert found.shift == pytest.approx(1 / 3, abs=0.02)


def test_parameters_that_a_forward_pass_paces_belong_to_the_next_step():
    # 200 MB of gradients, optimizer with the norm, then a megabyte of parameters every 3 ms, and silence
    transfers = ring([(300, 200), *((600 + 3 * k, 1) for k in range(100))], norms=[550])
    found = optimizer_pause(transfers, every(transfers), clock_at(400))
    assert found is not None
    assert found.gathers
    assert found.shift == pytest.approx(1 / 3, abs=0.02)


def test_the_first_of_several_silent_forward_passes_ends_the_gathering():
    # two passes of accumulated gradients, both silent forward, 50 MB each, optimizer with the norm, 50 MB of parameters
    transfers = ring([(200, 50), (700, 50), (760, 50)], norms=[755])
    found = optimizer_pause(transfers, every(transfers), clock_at(752))
    assert found is not None
    assert found.gathers
    assert found.shift == pytest.approx(1 / 3, abs=0.02)


def test_layers_gathered_under_the_forward_pass_begin_a_step():
    # the optimizer's pause is longer than the one between 100 MB of gathers and 100 MB of reductions
    transfers = ring([(0, 100), (440, 100)], norms=[700])
    found = optimizer_pause(transfers, every(transfers), clock_at(120))
    assert found is not None
    assert not found.gathers
    assert found.longest
    assert found.shift == pytest.approx(1 / 2, abs=0.02)


def test_a_step_ends_with_the_optimizer_when_its_pause_is_the_longest():
    transfers = ring([(0, 100), (150, 200)], norms=[500])
    found = optimizer_pause(transfers, every(transfers), clock_at(120))
    assert found is not None
    assert found.longest
    assert not found.gathers
    assert found.shift == pytest.approx(2 / 3, abs=0.02)


def test_what_follows_with_pauses_gathers_layer_by_layer():
    layers = [(100 * k, 30) for k in range(3)] + [(300 + 150 * k, 60) for k in range(3)]
    transfers = ring(layers, norms=[690])
    found = optimizer_pause(transfers, every(transfers), clock_at(240))
    assert found is not None
    assert not found.gathers
    assert found.shift == pytest.approx(2 / 3, abs=0.02)


@pytest.mark.parametrize("norms", [(), (50, 250, 420, 550, 650, 900)])
def test_tiny_messages_that_come_never_or_always_tell_nothing(norms):
    transfers = ring([(300, 100), (440, 100), (600, 100)], norms=norms)
    found = optimizer_pause(transfers, every(transfers), clock_at(205))
    assert found is None or found.longest


def test_an_optimizer_that_communicates_to_the_end_of_its_pause_is_part_of_the_step():
    transfers = ring([(0, 100), (150, 200)], norms=range(360, 1000, 40))
    moved = after_control(transfers, every(transfers), clock_at(350))
    assert np.all(np.abs(moved.boundary_ns[:-1] - clock_at(960).boundary_ns[:-1]) < 2 * MS)


def test_a_norm_at_the_beginning_of_the_pause_moves_no_end():
    transfers = ring([(0, 100), (150, 200)], norms=[360, 365])
    moved = after_control(transfers, every(transfers), clock_at(350))
    assert np.array_equal(moved.boundary_ns, clock_at(350).boundary_ns)


def test_tiny_messages_where_steps_do_not_pause_are_no_exchange():
    """They crowd at one place of a burst of both passes; every pause is elsewhere."""
    transfers = ring([(0, 300), (500, 200)], norms=[150, 151, 152])
    assert optimizer_pause(transfers, every(transfers), clock_at(320)) is None
