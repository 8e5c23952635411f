"""Whose pauses grow where a member computes longer, and where a hop passes its pieces on slowly."""

from dataclasses import replace

import numpy as np

from llmprism.diagnose.late_member import find_late_members
from llmprism.diagnose.own_pauses import kept_by_hops_ns, own_pauses, paused_beyond_usual_ns
from llmprism.kernel import always_compiled, always_interpreted
from llmprism.model import FindingKind
from unit.builders import MS
from unit.diagnose.ring_builder import NAMES, STEPS, USUAL, pair_names, ring, ring_evidence


def test_the_pauses_of_the_slow_member_grow_by_what_it_computes_longer_and_nobody_elses():
    job, steps = ring(slow="c")
    grown = np.median(paused_beyond_usual_ns(ring_evidence(job, steps), USUAL)[:, ~USUAL], axis=1)
    assert 80 * MS < grown[NAMES.index("c")] <= 160 * MS
    assert np.delete(grown, NAMES.index("c")).max() < 5 * MS


def test_a_slow_hop_keeps_pieces_back_and_is_no_slow_member():
    job, steps = ring(hops=("bc",))
    pauses = own_pauses(job, steps)
    kept = np.median(kept_by_hops_ns(pauses, len(NAMES), np.full(STEPS, np.inf), USUAL)[:, ~USUAL], axis=1)
    names = pair_names(job)
    assert names[int(np.argmax(kept))] == "bc"
    assert kept.max() > 60 * MS
    assert np.delete(kept, int(np.argmax(kept))).max() < 0.2 * kept.max()
    grown = np.median(paused_beyond_usual_ns(ring_evidence(job, steps), USUAL)[:, ~USUAL], axis=1)
    assert grown.max() < 0.5 * kept.max()


def test_a_slow_member_keeps_nothing_back_at_its_hops():
    job, steps = ring(slow="c")
    kept = kept_by_hops_ns(own_pauses(job, steps), len(NAMES), np.full(STEPS, np.inf), USUAL)
    assert kept[:, ~USUAL].max() < 5 * MS


def test_pauses_that_are_longer_than_allowed_do_not_count_at_hops():
    job, steps = ring()
    pauses = own_pauses(job, steps)
    everything, _ = pauses.of_hops(len(NAMES), np.full(STEPS, np.inf))
    short, _ = pauses.of_hops(len(NAMES), np.full(STEPS, 10.0 * MS))
    assert everything[:, 1:].min() >= 40 * MS
    assert short[:, 1:].max() < 10 * MS


def test_pauses_begin_no_earlier_than_their_step():
    job, steps = ring()
    later = replace(steps, start_ns=steps.start_ns + 35 * MS)
    assert own_pauses(job, later).length_ns.max() <= 5 * MS


def test_compiled_and_interpreted_pauses_are_equal():
    job, steps = ring(slow="b", hops=("cd",))
    with always_interpreted():
        one = own_pauses(job, steps)
    with always_compiled():
        other = own_pauses(job, steps)
    for name in ("member", "step", "length_ns", "sent", "received"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_a_member_that_alone_pauses_longer_is_a_slow_gpu_also_where_nobody_is_late_at_the_synchronisation():
    (finding,) = find_late_members(ring_evidence(*ring(slow="c")), {})
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_GPU, "c")


def test_a_member_that_paused_longer_from_the_first_step_on_and_then_no_more_was_not_slow():
    assert find_late_members(ring_evidence(*ring(slow="c", slow_steps=range(9))), {}) == []


def test_a_slow_hop_is_no_slow_gpu():
    assert find_late_members(ring_evidence(*ring(hops=("bc",))), {}) == []


def test_of_members_that_are_as_late_the_one_that_paused_stood_still():
    job, steps = ring(slow="c", slow_steps=range(8, 9), slow_ms=6_000)
    made = ring_evidence(job, steps)
    late = np.zeros_like(made.lateness_ns)
    late[:3, 8] = [6_000 * MS, 6_001 * MS, 5_990 * MS]  # those before it are as late as it
    made = replace(made, lateness_ns=late, layout=replace(made.layout, pipelines=(tuple(range(len(NAMES))),)))
    (finding,) = find_late_members(made, {})
    assert (finding.kind, finding.where.id) == (FindingKind.STALL, "c")


def test_what_several_detectors_ask_for_is_computed_once_for_each_job_and_each_choice_of_steps():
    one, other = (ring_evidence(*ring(slow=slow)) for slow in "bc")
    first = paused_beyond_usual_ns(one, USUAL)
    assert paused_beyond_usual_ns(one, USUAL.copy()) is first
    assert not np.array_equal(paused_beyond_usual_ns(one, ~USUAL), first)
    assert not np.array_equal(paused_beyond_usual_ns(other, USUAL), first)
    assert np.array_equal(paused_beyond_usual_ns(one, USUAL), first)
