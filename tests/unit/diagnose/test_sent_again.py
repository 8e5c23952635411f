"""Lost packets: bytes that are sent again, and the place that explains them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose import sent_again
from llmprism.diagnose.sent_again import resent_cells
from llmprism.diagnose.slow_cells import SlowCells, judge_transfers
from llmprism.diagnose.slow_transfer import find_slow_places
from llmprism.engine.arrow_codec import decode, encode
from llmprism.model import FindingKind, WhereType
from support.stages import find_slow_transfers
from unit.builders import MS, Flow, transfer_table
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs, with_transfers

PAIRS = ring_pairs("abcdef")
BYTES = 1_000_000
LOSSY = range(8, 14)


def evidence(more: dict[str, list[int]], *, slower: float = 1.3):
    """A ring whose pairs send `more` bytes than usual in each step; its steps are longer while packets are lost."""
    base = evidence_of(PAIRS, groups=("abcdef",), duration=during(LOSSY[0], LOSSY[-1] + 1, slower * STEP, STEP))
    begin = base.timeline.steps.start_ns.tolist()
    flows = [
        Flow(pair[0], pair[1], begin[step] + 10 * MS, begin[step] + 20 * MS, BYTES + more.get(pair, [0] * STEPS)[step])
        for pair in PAIRS
        for step in range(STEPS)
    ]
    return with_transfers(base, transfer_table(flows))


def in_steps(steps, *sizes):
    """Bytes per step: the sizes in turn in these steps, 0 in the others."""
    return [sizes[step % len(sizes)] if step in steps else 0 for step in range(STEPS)]


LOSS = in_steps(LOSSY, 18_000, 45_000, 27_000)


def test_a_nic_that_loses_packets_is_named_by_the_bytes_that_are_sent_again():
    (finding,) = find_slow_transfers([evidence({"bc": LOSS, "cd": LOSS})])
    assert (finding.kind, finding.where.type, finding.where.id) == (FindingKind.SLOW_NIC, WhereType.NIC, "c")
    assert "loses packets" in finding.summary
    assert finding.evidence[0].value == pytest.approx(0.027, abs=0.01)


def test_losses_that_slow_nobody_are_not_reported():
    assert find_slow_transfers([evidence({"bc": LOSS, "cd": LOSS}, slower=1.0)]) == []


def test_where_bytes_are_missing_as_often_as_there_are_too_many_a_collector_loses_them():
    """A ring of which many steps lack records: those with fewer losses have more bytes than the usual one."""
    lost = in_steps((1, 4, 16), -60_000)
    sick, _, _ = resent_cells(evidence({"bc": LOSS, "cd": LOSS, "ef": lost}))
    assert sick.any()
    assert not resent_cells(evidence({"bc": LOSS, "cd": LOSS, "ef": lost, "fa": lost}))[0].any()


def test_a_message_that_falls_into_the_next_step_is_not_sent_again():
    late = [0] * STEPS
    for step in LOSSY[::2]:
        late[step], late[step + 1] = -40_000, 40_000
    sick, known, _ = resent_cells(evidence({"bc": late}))
    assert not sick.any()
    assert known.all()


def test_what_most_pairs_send_more_is_the_jobs_own():
    sick, known, _ = resent_cells(evidence(dict.fromkeys(PAIRS, LOSS)))
    assert not sick.any()
    assert not known[:, LOSSY[0]].any(), "such steps cannot tell"


def test_the_same_bytes_more_every_time_are_a_message_of_the_job():
    sick, _, _ = resent_cells(evidence({"bc": in_steps(LOSSY, 40_000)}))
    assert not sick.any()


def test_pairs_whose_bytes_vary_say_nothing():
    varies = np.random.default_rng(7).integers(-80_000, 80_000, STEPS).tolist()
    sick, known, _ = resent_cells(evidence({"bc": varies}))
    changed = known.any(axis=1)
    assert not sick.any()
    assert (np.count_nonzero(changed), np.count_nonzero(~changed)) == (len(PAIRS) - 1, 1)


def test_of_the_two_ends_of_one_hop_the_receiver_loses_packets():
    """What its sender's card loses is not counted twice: exporters stand behind it."""
    (finding,) = find_slow_transfers([evidence({"bc": LOSS})])
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_NIC, "c")
    assert finding.alternatives[0].where.id == "b"


def test_what_is_lost_and_slow_on_the_way_of_the_same_pair_is_one_finding():
    """One hop is slow, and its bytes are sent again: not a sender that is slow beside a receiver that loses packets."""
    lossy = evidence({"bc": LOSS})
    rate = np.where(np.arange(len(PAIRS))[:, None] == sorted(PAIRS).index("bc"), during(8, 14, 2.0, 10.0), 10.0)
    both = find_slow_transfers([replace(lossy, rate=rate)])
    assert [(finding.kind, finding.where.id) for finding in both] == [(FindingKind.SLOW_NIC, "c")]
    far = np.where(np.arange(len(PAIRS))[:, None] == sorted(PAIRS).index("ef"), during(8, 14, 2.0, 10.0), 10.0)
    assert {finding.where.id for finding in find_slow_transfers([replace(lossy, rate=far)])} == {"c", "e"}


def test_bytes_of_pairs_and_steps_are_summed_alike_in_a_loop_and_by_arrays():
    random = np.random.default_rng(0)
    offsets = np.array([0, 4, 4, 30])
    start = np.concatenate([np.sort(random.integers(0, 100, n)) for n in (4, 26)])
    arguments = offsets, start, random.integers(1, 2**40, 30), np.array([10, 40, 60]), np.array([40, 50, 90])
    summed, by_arrays = sent_again._sums_of_cells.python(*arguments), sent_again._sums_by_arrays(*arguments)
    assert summed.tolist() == by_arrays.tolist()
    assert summed[1].sum() == 0.0
    assert summed[2].sum() > 0.0


def test_cells_travel_between_engines_with_what_was_sent_again():
    cells = judge_transfers(evidence({"bc": LOSS, "cd": LOSS}))
    assert cells.any_sick
    assert not cells.sick.any()
    (back,) = decode(encode([cells], SlowCells), SlowCells)
    assert back.resent is not None
    assert (back.resent.sick == cells.resent.sick).all()
    assert find_slow_places([back]) == find_slow_places([cells]) != []
