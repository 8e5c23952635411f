import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.model.job import Job
from llmprism.parallelism.job_end import counted_from_end
from llmprism.parallelism.phase import message_silences
from unit.builders import MS, Flow, transfer_table

STEPS, STEP, MB = 12, 100 * MS, 1_000_000


def job(last_step=(0, 1, 2, 3, 4), watched=5 * STEP):
    """Two stages of two replicas: parameters are gathered while the first activation is on its way, the gradient comes
    back, gradients are reduced. Of the last step only some of these; nobody gathers for another one."""
    flows = []
    for step in range(STEPS):
        now = step * STEP
        parts = [
            [Flow(a, b, now, now + 20 * MS, 2 * MB) for a, b in ("ab", "ba", "cd", "dc")],
            [Flow("a", "c", now + 10 * MS, now + 12 * MS, MB), Flow("b", "d", now + 10 * MS, now + 12 * MS, MB)],
            [Flow("c", "a", now + 50 * MS, now + 52 * MS, MB), Flow("d", "b", now + 50 * MS, now + 52 * MS, MB)],
            [Flow(a, b, now + 60 * MS, now + 70 * MS, 4 * MB) for a, b in ("cd", "dc")],
            [Flow(a, b, now + 80 * MS, now + 95 * MS, 4 * MB) for a, b in ("ab", "ba")],
        ]
        flows += [flow for k in (last_step if step == STEPS - 1 else range(5)) for flow in parts[k]]
    table = transfer_table(flows)
    until = max(flow.end_ns for flow in flows) + watched
    return Job("job", tuple(range(4)), (), 1.0, table, watched_until_ns=until)


def links_of(table):
    pair = {(int(a), int(b)): k for k, (a, b) in enumerate(zip(table.pair_src, table.pair_dst, strict=True))}
    a, b, c, d = (table.addresses.index(name) for name in "abcd")
    return [(pair[a, c], pair[c, a]), (pair[b, d], pair[d, b])]


def clock_at(place, steps=STEPS):
    ticks = np.arange(steps, dtype=np.int64) * STEP + place
    return StepClock(ticks, np.ones(steps - 1, dtype=np.bool_), 1.0)


def counted(seen, passes, links, clock):
    silences = message_silences(seen.transfers, seen.transfers.pair_bytes > 0)
    return counted_from_end(seen, silences, passes, links, clock)


ENDS = [step * STEP + 95 * MS for step in range(STEPS)]


def test_what_is_gathered_before_the_ticks_is_the_next_steps():
    """Ticks after the gathers: the last step has none behind it."""
    seen = job()
    found = counted(seen, seen.transfers, links_of(seen.transfers), clock_at(20 * MS))
    assert found.complete
    assert found.boundary_ns[1:].tolist() == ENDS


def test_the_last_tick_may_be_missing_too():
    seen = job()
    found = counted(seen, seen.transfers, links_of(seen.transfers), clock_at(20 * MS, STEPS - 1))
    assert found.complete
    assert found.boundary_ns[1:].tolist() == ENDS


@pytest.mark.parametrize("last_step", [(0, 1), (0, 1, 2), (0, 1, 2, 3)])
def test_a_job_that_stops_in_a_step_tells_no_end(last_step):
    """Activations are outstanding, or gradients have not been reduced."""
    seen, clock = job(last_step), clock_at(20 * MS)
    assert counted(seen, seen.transfers, links_of(seen.transfers), clock) is clock


def test_a_window_that_ends_tells_no_end():
    seen, clock = job(watched=0), clock_at(20 * MS)
    assert counted(seen, seen.transfers, links_of(seen.transfers), clock) is clock


def test_ticks_that_are_missing_at_the_end_are_added():
    seen = job()
    clock = StepClock(np.array(ENDS[:-2], dtype=np.int64), np.ones(STEPS - 3, dtype=np.bool_), 1.0)
    assert counted(seen, seen.transfers, [], clock).boundary_ns.tolist() == ENDS


def test_bytes_that_take_no_time_are_no_gathering():
    """Who dies in the last reduction leaves its peers without a message that took them half a millisecond before."""
    flows = []
    for step in range(STEPS):
        now = step * STEP
        flows += [Flow("a", "c", now + 10 * MS, now + 12 * MS, MB), Flow("c", "a", now + 50 * MS, now + 52 * MS, MB)]
        flows += [Flow(a, b, now + 60 * MS, now + 95 * MS, 8 * MB) for a, b in ("ab", "ba", "cd", "dc")]
        last = [("a", "b"), ("b", "a")] if step < STEPS - 1 else []
        flows += [Flow(a, b, now + 95 * MS, now + 95 * MS + MS // 2, MB) for a, b in last]
    table = transfer_table(flows)
    names = [(table.addresses[a], table.addresses[b]) for a, b in zip(table.pair_src, table.pair_dst, strict=True)]
    until = max(flow.end_ns for flow in flows) + 5 * STEP
    seen = Job("job", tuple(range(4)), (), 1.0, table, watched_until_ns=until)
    clock = clock_at(96 * MS, STEPS - 1)
    links = [(names.index(("a", "c")), names.index(("c", "a")))]
    assert counted(seen, table, links, clock) is clock


def test_ticks_without_a_byte_between_them_tell_no_end():
    seen = job()
    ticks = np.arange(STEPS, dtype=np.int64) * MS // 5 + 3 * STEP + 96 * MS
    clock = StepClock(ticks, np.ones(STEPS - 1, dtype=np.bool_), 1.0)
    assert counted(seen, seen.transfers, [], clock) is clock


def rings(last, watched=5 * STEP):
    """Two replicas and their mates: gradients go round one way, parameters for the next step the other way round, at
    its beginning. Of the last step only gradients, of which the pairs have sent such shares."""
    flows = []
    for step in range(STEPS):
        now = step * STEP
        flows += [Flow(a, b, now, now + 20 * MS, 4 * MB) for a, b in ("ba", "cb", "ac")]
        share = last if step == STEPS - 1 else (1.0, 1.0, 1.0)
        flows += [
            Flow(*pair, now + 80 * MS, now + 95 * MS, int(part * 4 * MB))
            for pair, part in zip(("ab", "bc", "ca"), share, strict=True)
        ]
    table = transfer_table(flows)
    until = max(flow.end_ns for flow in flows) + watched
    return Job("job", tuple(range(3)), (), 1.0, table, watched_until_ns=until)


def test_pairs_that_have_sent_whole_steps_some_one_less_have_ended_one():
    """Ticks after the gathers, which the last step does not have behind it: no pipeline is asked."""
    seen = rings((1.0, 1.0, 1.0))
    found = counted(seen, seen.transfers, [], clock_at(20 * MS))
    assert found.complete
    assert found.boundary_ns[1:].tolist() == ENDS


def test_pairs_that_stand_in_parts_of_their_steps_have_been_stopped():
    seen, clock = rings((1.0, 0.6, 0.3)), clock_at(20 * MS)
    assert counted(seen, seen.transfers, [], clock) is clock


def test_ticks_that_are_placed_by_what_is_gathered_stay():
    seen, clock = job(), clock_at(20 * MS)
    silences = message_silences(seen.transfers, seen.transfers.pair_bytes > 0)
    links = links_of(seen.transfers)
    assert counted_from_end(seen, silences, seen.transfers, links, clock, placed=True) is clock


def test_pairs_of_one_message_in_a_step_do_not_tell_a_gathering():
    """Who hangs leaves some pairs with the message of the last step and others without: seven tenths of the bytes."""
    flows = []
    for step in range(STEPS):
        now, last = step * STEP, step == STEPS - 1
        flows += [Flow(a, b, now + 50 * MS, now + 60 * MS, 2 * MB) for a, b in ("ab", "ba")]
        flows += [] if last else [Flow(a, b, now + 70 * MS, now + 80 * MS, 3 * MB) for a, b in ("cd", "dc")]
    table = transfer_table(flows)
    seen = Job("job", tuple(range(4)), (), 1.0, table, watched_until_ns=max(f.end_ns for f in flows) + 5 * STEP)
    clock = clock_at(80 * MS, STEPS - 1)
    assert counted(seen, table, [], clock) is clock
