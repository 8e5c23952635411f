"""Which cells are sick, and what they are worth."""

from dataclasses import replace

import numpy as np

from llmprism.diagnose import slow_cells
from llmprism.diagnose.computing import Computing
from llmprism.diagnose.find_faults import Shared
from llmprism.diagnose.slow_cells import JudgedCells, judge_transfers
from llmprism.diagnose.slow_transfer import find_slow_places
from llmprism.model import Finding, FindingKind, Where, WhereType
from unit.builders import MS, Flow, transfer_table
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs, with_transfers

PAIRS = ring_pairs("abcdef")


def small(rate):
    """Cells of pairs with small messages only."""
    evidence = evidence_of(PAIRS, rate=rate)
    return judge_transfers(replace(evidence, timed=np.zeros(len(PAIRS), dtype=np.bool_)))


def test_small_messages_that_are_slow_in_a_row_are_sick():
    cells = small({"ab": during(8, 12, 1.0, 10.0)})
    assert (cells.sick.sum(), cells.known.all()) == (4, True), "a throttle that slows some slows others of their size"


def test_where_small_messages_are_often_slow_those_in_a_row_are_so_by_chance():
    noisy = {pair: np.where((np.arange(STEPS) + number) % 4 == 0, 1.0, 10.0) for number, pair in enumerate(PAIRS)}
    noisy["ab"] = during(8, 12, 1.0, 10.0)
    assert not small(noisy).sick.any()


def test_a_finding_on_storage_bears_on_the_jobs_of_its_clients():
    finding = Finding(FindingKind.SLOW_STORAGE, None, Where(WhereType.STORAGE, "s"), 0, None, 0.5, 0.9, 0.0, "", ())
    shared = Shared((finding,), (), (0,), ((0, "a"),))
    assert shared.about(evidence_of(ring_pairs("abc")).job).findings == (finding,)
    assert shared.about(evidence_of(ring_pairs("xyz")).job).findings == ()


def with_messages(evidence):
    """The same job with two messages of each pair in each step."""
    names, begin = evidence.job.transfers.addresses, evidence.timeline.steps.start_ns.tolist()
    ends = zip(evidence.job.transfers.pair_src.tolist(), evidence.job.transfers.pair_dst.tolist(), strict=True)
    pairs = [(names[a], names[b]) for a, b in ends]
    flows = [Flow(*pair, at + k * MS, at + k * MS + MS, 500_000) for at in begin for k in (1, 5) for pair in pairs]
    return with_transfers(evidence, transfer_table(flows))


def one_slow_hop(rate, longest=1.15):
    return with_messages(evidence_of(PAIRS, rate=rate, duration=during(8, 11, longest * STEP, STEP)))


def test_slow_hops_in_the_longest_steps_and_at_no_other_time_count_twice():
    cells = judge_transfers(one_slow_hop({"ab": during(8, 11, 1.0, 10.0)}))
    assert cells.weight[:, 8:11].min() == 2.0
    assert cells.weight[:, :8].max() == 1.0
    (finding,) = find_slow_places([cells])
    assert finding.where.id in ("a", "b"), "one hop in three steps that are a little longer"


def test_hops_that_are_slow_now_and_then_and_steps_that_are_as_long_count_once():
    elsewhere = {"ab": during(8, 11, 1.0, 10.0), "cd": during(15, 16, 1.0, 10.0)}
    assert judge_transfers(one_slow_hop(elsewhere)).weight.max() == 1.0
    as_long = one_slow_hop({"ab": during(8, 10, 1.0, 10.0)})
    assert judge_transfers(as_long).weight.max() == 1.0


def test_a_card_that_sends_slowly_and_before_which_pieces_wait_is_named_by_both_signs_together():
    pairs = [a + b for a in "abcd" for b in "abcd" if a != b]
    made = with_messages(
        evidence_of(pairs, rate={"cd": during(8, 9, 1.0, 10.0)}, duration=during(8, 9, 7 * STEP, STEP))
    )
    slow = judge_transfers(with_transfers(made, many(made.job.transfers)))
    assert slow.by_both_signs() is None
    assert find_slow_places([slow]) == []
    held = np.zeros_like(slow.sick)
    held[pairs.index("bc"), 8] = True
    queued = JudgedCells(held, slow.known, np.where(held, 0.8, 0.0), slow.weight, slow.passes)
    assert find_slow_places([replace(slow, sick=np.zeros_like(held), queued=queued)]) == []
    (finding,) = find_slow_places([replace(slow, queued=queued)])
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_NIC, "c")


def many(transfers):
    """The same with seven more messages of each pair in every step, so that long steps are worth what they are."""
    names, flows = transfers.addresses, []
    for row in range(transfers.start_ns.size):
        pair = transfers.pair_of_row[row]
        ends = names[transfers.pair_src[pair]], names[transfers.pair_dst[pair]]
        at = int(transfers.start_ns[row])
        flows += [Flow(*ends, at + k * 10 * MS, at + k * 10 * MS + MS, 500_000) for k in range(4)]
    return transfer_table(flows)


def test_of_a_healthy_job_only_what_it_says_as_a_bystander_is_kept():
    paths = dict.fromkeys(ring_pairs("abc"), ("leaf",))
    well = judge_transfers(evidence_of(ring_pairs("abc"), paths=paths))
    kept = well.worth_keeping()
    assert (kept.rate.size, kept.sick.size, kept.any_sick) == (0, 0, False)
    assert kept.bystander is well.bystander is not None
    assert judge_transfers(evidence_of(ring_pairs("abc"))).worth_keeping() is None
    slow = {pair: during(8, 14, 2.0, 10.0) for pair in ("ab", "bc")}
    sick = judge_transfers(evidence_of(ring_pairs("abc"), rate=slow, paths=paths))
    assert sick.worth_keeping() is sick


def test_slow_messages_come_with_who_may_have_computed_longer_meanwhile(monkeypatch):
    blamed = Computing(0.9, 0.8, ("c",))
    monkeypatch.setattr(slow_cells, "computing", lambda *_: blamed)
    cells = judge_transfers(one_slow_hop({"ab": during(8, 11, 1.0, 10.0)}, longest=2.0))
    assert cells.sick[:, 8:11].any()
    assert cells.computing is blamed
