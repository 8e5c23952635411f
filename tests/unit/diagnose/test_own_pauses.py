"""Rings that pass pieces round; in some steps one member computes longer, or one hop passes its pieces on slowly."""

from dataclasses import replace

import numpy as np

from llmprism.diagnose.late_member import find_late_members
from llmprism.diagnose.own_pauses import kept_by_hops_ns, own_pauses, paused_beyond_usual_ns
from llmprism.kernel import always_compiled, always_interpreted
from llmprism.model import FindingKind, Job, Steps
from unit.builders import MS, Flow, transfer_table
from unit.diagnose.evidence_builder import evidence_of, ring_pairs

NAMES = "abcd"
STEPS = 20
SLOW_STEPS = range(8, 14)
PIECES = 12
USUAL = np.array([step not in SLOW_STEPS for step in range(STEPS)])


def ring(slow="", hop="", slow_steps=SLOW_STEPS, slow_ms=160):
    """Every member computes for 40 ms, the `slow` one for `slow_ms` more, and passes each piece on at once.
    A piece takes 2 ms; behind the record it takes 20 ms more on the slow `hop`, and the next one leaves 5 ms later."""
    flows, ends, now = [], [], 0
    for step in range(STEPS):
        ill = step in slow_steps
        has = {name: now + (40 + (slow_ms if ill and name == slow else 0)) * MS for name in NAMES}
        room = dict.fromkeys(NAMES, 0)
        for _ in range(PIECES):
            comes = {}
            for name in NAMES:
                to = NAMES[(NAMES.index(name) + 1) % 4]
                at = max(has[name], room[name])
                queued = 20 * MS if ill and name + to == hop else 0
                flows.append(Flow(name, to, at, at + 2 * MS, 1_000_000))
                comes[to] = at + 2 * MS + queued
                room[name] = comes[to] + (5 * MS if queued else 0)
            has = {name: max(has[name], comes[name]) + MS // 2 for name in NAMES}
        now = max(has.values())
        ends.append(now)
    end = np.array(ends, dtype=np.int64)
    steps = Steps(np.concatenate([[0], end[:-1]]), end, np.zeros(STEPS, dtype=np.bool_))
    return Job("job", (0, 1, 2, 3), (), 1.0, transfer_table(flows)), steps


def evidence(job, steps):
    made = evidence_of(ring_pairs(NAMES), groups=(NAMES,))
    return replace(made, job=job, timeline=replace(made.timeline, steps=steps), duration_ns=steps.duration_ns * 1.0)


def pair_names(job):
    transfers = job.transfers
    names = transfers.addresses
    return [names[a] + names[b] for a, b in zip(transfers.pair_src, transfers.pair_dst, strict=True)]


def test_the_pauses_of_the_slow_member_grow_by_what_it_computes_longer_and_nobody_elses():
    job, steps = ring(slow="c")
    grown = np.median(paused_beyond_usual_ns(evidence(job, steps), USUAL)[:, ~USUAL], axis=1)
    assert 100 * MS < grown[NAMES.index("c")] <= 160 * MS
    assert np.delete(grown, NAMES.index("c")).max() < 5 * MS


def test_a_slow_hop_keeps_pieces_back_and_is_no_slow_member():
    job, steps = ring(hop="bc")
    pauses = own_pauses(job, steps)
    kept = np.median(kept_by_hops_ns(pauses, 4, np.full(STEPS, np.inf), USUAL)[:, ~USUAL], axis=1)
    names = pair_names(job)
    assert names[int(np.argmax(kept))] == "bc"
    assert kept.max() > 60 * MS
    assert np.delete(kept, int(np.argmax(kept))).max() < 0.2 * kept.max()
    grown = np.median(paused_beyond_usual_ns(evidence(job, steps), USUAL)[:, ~USUAL], axis=1)
    assert grown.max() < 0.5 * kept.max()


def test_a_slow_member_keeps_nothing_back_at_its_hops():
    job, steps = ring(slow="c")
    kept = kept_by_hops_ns(own_pauses(job, steps), 4, np.full(STEPS, np.inf), USUAL)
    assert kept[:, ~USUAL].max() < 5 * MS


def test_pauses_that_are_longer_than_asked_for_do_not_count_at_hops():
    job, steps = ring()
    pauses = own_pauses(job, steps)
    everything, _ = pauses.of_hops(4, np.full(STEPS, np.inf))
    short, _ = pauses.of_hops(4, np.full(STEPS, 10.0 * MS))
    assert everything[:, 1:].min() >= 40 * MS
    assert short[:, 1:].max() < 10 * MS


def test_pauses_begin_no_earlier_than_their_step():
    job, steps = ring()
    later = replace(steps, start_ns=steps.start_ns + 35 * MS)
    assert own_pauses(job, later).length_ns.max() <= 5 * MS


def test_compiled_and_interpreted_pauses_are_equal():
    job, steps = ring(slow="b", hop="cd")
    with always_interpreted():
        one = own_pauses(job, steps)
    with always_compiled():
        other = own_pauses(job, steps)
    for name in ("member", "step", "length_ns", "sent", "received"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def judged(job, steps):
    made = evidence(job, steps)
    return replace(made, normal_ns=float(np.quantile(made.duration_ns, 0.25)))


def test_a_member_that_alone_pauses_longer_is_a_slow_gpu_also_where_nobody_is_late_at_the_synchronisation():
    (finding,) = find_late_members(judged(*ring(slow="c")), {})
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_GPU, "c")


def test_a_slow_hop_is_no_slow_gpu():
    assert find_late_members(judged(*ring(hop="bc")), {}) == []


def test_of_members_that_are_as_late_the_one_that_paused_stood_still():
    job, steps = ring(slow="c", slow_steps=range(8, 9), slow_ms=6_000)
    made = judged(job, steps)
    late = np.zeros_like(made.lateness_ns)
    late[:3, 8] = [6_000 * MS, 6_001 * MS, 5_990 * MS]  # those before it are as late as it
    made = replace(made, lateness_ns=late, layout=replace(made.layout, pipelines=((0, 1, 2, 3),)))
    (finding,) = find_late_members(made, {})
    assert (finding.kind, finding.where.id) == (FindingKind.STALL, "c")
