"""Who was waited for, by all signs together."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose import blame as blame_module
from llmprism.diagnose.blame import Signs, blame, runner_up, shares_of, signs_of, tensor_peers
from llmprism.diagnose.own_gaps import OwnGaps, own_gaps
from llmprism.diagnose.rules import RULES
from llmprism.model import PairKind
from unit.diagnose.evidence_builder import STEP, during, evidence_of, ring_pairs
from unit.diagnose.ring_builder import NAMES, USUAL, ring, ring_evidence
from unit.diagnose.test_own_gaps import pushed


def nothing(count):
    none = np.zeros(0, dtype=np.int64)
    zeros = np.zeros(count)
    never = none.astype(np.bool_)
    return Signs(zeros, zeros, zeros, zeros, zeros, zeros, zeros, OwnGaps(none, none, np.zeros(0), never, never))


@pytest.mark.parametrize("sign", ["late_clear", "silent_clear", "handed_clear", "held_clear", "work"])
def test_each_sign_speaks_for_a_member_and_without_any_all_are_alike(sign):
    assert shares_of(nothing(4)) == pytest.approx([0.25] * 4)
    shares = shares_of(replace(nothing(4), **{sign: np.array([0.0, 0.0, 1.0, 0.0])}))
    assert int(np.argmax(shares)) == 2
    assert shares.sum() == pytest.approx(1.0)


def test_the_one_that_is_silent_by_itself_is_waited_for_and_not_those_that_answer_it():
    found = blame(ring_evidence(*pushed("c")), ~USUAL, USUAL)
    assert NAMES[found.row] == "c"
    assert found.share > 0.9
    assert found.confidence > 0.8
    assert found.grown_ns > 0.0


def test_silences_before_pipeline_messages_say_more_than_those_before_collectives():
    signs = replace(nothing(2), handed_clear=np.array([1.0, 0.0]), silent_clear=np.array([0.0, 1.0]))
    assert int(np.argmax(shares_of(signs))) == 0


def test_steps_that_are_a_little_longer_by_chance_say_nothing_about_who_was_waited_for_in_long_ones():
    made = ring_evidence(*pushed("c"))
    duration = np.where(USUAL, made.normal_ns, 3.0 * made.normal_ns)
    duration[:2] = 1.15 * made.normal_ns
    slower, usual = ~USUAL, USUAL.copy()
    slower[:2], usual[:2] = True, False
    alone, together = (blame(replace(made, duration_ns=duration), steps, usual) for steps in (~USUAL, slower))
    assert together == alone


def test_of_two_that_are_late_alike_the_one_that_is_silent_by_itself():
    made = ring_evidence(*ring(slow="c"))
    late = np.zeros_like(made.lateness_ns)
    late[[NAMES.index("c"), NAMES.index("d")]] = np.where(USUAL, 0.0, 1e8)
    assert NAMES[blame(replace(made, lateness_ns=late), ~USUAL, USUAL).row] == "c"


def test_a_slow_hop_makes_many_silences_and_is_no_gpu():
    slow_gpu, slow_hop = (blame(ring_evidence(*made), ~USUAL, USUAL) for made in (ring(slow="c"), ring(hops=("bc",))))
    assert slow_hop.confidence < RULES.trust.worth_a_look < slow_gpu.confidence


def test_rates_that_fell_speak_against_a_gpu_and_one_that_was_found_late_for_it():
    job = evidence_of(ring_pairs("abcd"), groups=("abcd",), duration=during(6, 10, 1.5 * STEP, STEP))
    slower = during(6, 10, 1.0).astype(np.bool_)
    late = np.where(slower, 0.3, 0.0) * STEP * np.arange(4)[:, None]
    job = replace(job, lateness_ns=late)
    rates = np.where(slower[None, :], 0.1 * job.rate, job.rate)
    usual_rates, fallen, found = (
        blame(replace(job, rate=rate), slower, ~slower, found=3 if late else None).confidence
        for rate, late in ((job.rate, False), (rates, False), (job.rate, True))
    )
    assert fallen < usual_rates < found


def test_two_that_are_silent_alike_share_the_blame_unless_they_are_tensor_peers(monkeypatch):
    made = ring_evidence(*ring(slow="c"))
    gaps, c, d = own_gaps(made), NAMES.index("c"), NAMES.index("d")
    twin = gaps.member == c
    both = OwnGaps(
        np.append(gaps.member[gaps.member != d], np.full(twin.sum(), d)),
        *(
            np.append(values[gaps.member != d], values[twin])
            for values in (gaps.step, gaps.length_ns, gaps.own, gaps.piped)
        ),
    )
    monkeypatch.setattr(blame_module, "own_gaps", lambda *_: both)
    monkeypatch.setattr(blame_module, "held_ns", lambda *_: np.zeros_like(made.lateness_ns))
    apart = blame(made, ~USUAL, USUAL)
    (other,) = runner_up(made, apart)
    assert {NAMES[apart.row], other.where.id} == {"c", "d"}
    assert apart.share == pytest.approx(apart.rival_share)
    layout = replace(made.layout, layout=replace(made.layout.layout, tp=2))
    peers = replace(made, layout=layout, job=replace(made.job, places=("s0", "s0", "s1", "s1", "s2", "s2")))
    together = blame(peers, ~USUAL, USUAL)
    assert together.share == pytest.approx(2 * apart.share)
    assert together.confidence > apart.confidence


def test_nobody_is_blamed_without_usual_steps_or_slower_ones():
    made = ring_evidence(*ring(slow="c"))
    assert blame(made, ~USUAL, np.zeros_like(USUAL)) is None
    assert blame(made, np.zeros_like(USUAL), USUAL) is None


def test_lateness_is_measured_in_what_steps_take_longer_and_in_its_own_jitter():
    job = evidence_of(ring_pairs("abcd"), groups=("abcd",), duration=during(6, 10, 1.5 * STEP, STEP))
    slower = during(6, 10, 1.0).astype(np.bool_)
    late = np.zeros_like(job.lateness_ns)
    late[1] = during(6, 10, 0.5 * STEP)
    signs = signs_of(replace(job, lateness_ns=late), slower, ~slower, 0.5 * STEP)
    assert signs.late == pytest.approx([0.0, 1.0, 0.0, 0.0])
    assert signs.late_clear[1] == pytest.approx(np.log1p(1.0 / RULES.blame.least_jitter))
    late += np.where(np.arange(late.shape[1]) % 2, 0.1, -0.1) * STEP
    shaky = signs_of(replace(job, lateness_ns=late), slower, ~slower, 0.5 * STEP)
    assert 0.0 < shaky.late_clear[1] < signs.late_clear[1]


def test_holding_is_no_sign_in_a_large_job():
    made, few = ring_evidence(*ring(slow="c")), replace(RULES, blame=replace(RULES.blame, most_members=5))
    assert signs_of(made, ~USUAL, USUAL, 1e8).held_clear.any()
    assert not signs_of(made, ~USUAL, USUAL, 1e8, few).held_clear.any()


def peers_of(made, width, places, **job):
    layout = replace(made.layout, layout=replace(made.layout.layout, tp=width))
    placed = replace(made, layout=layout, job=replace(made.job, places=tuple(places), **job))
    return ["".join(np.array(list(NAMES))[tensor_peers(placed, row)]) for row in range(len(NAMES))]


def test_tensor_peers_are_next_to_each_other_by_their_gpus_and_not_by_the_letters_of_their_addresses():
    made = ring_evidence(*ring())
    assert peers_of(made, 2, ["s"] * 6) == ["ab", "ab", "cd", "cd", "ef", "ef"]
    assert peers_of(made, 2, ["s"] * 6, slots=(0, 3, 1, 4, 2, 5)) == ["ac", "be", "ac", "df", "be", "df"]


def test_tensor_peers_of_two_servers_are_known_by_the_sums_between_these():
    made = ring_evidence(*ring())
    servers = ["s0"] * 3 + ["s1"] * 3
    assert peers_of(made, 6, servers)[0] == "abc"
    across = made.job.transfers.pair_src == NAMES.index("c")
    kinds = np.where(across, PairKind.TP, made.pair_kind).astype(np.int8)
    assert peers_of(replace(made, pair_kind=kinds), 6, servers) == [NAMES] * 6


def test_who_holds_no_longer_than_it_is_silent_by_itself_is_kept(monkeypatch):
    made = ring_evidence(*ring(slow="c"))
    held = np.where(USUAL, 0.0, 1e8)[None, :] * np.ones((len(NAMES), 1))
    monkeypatch.setattr(blame_module, "held_ns", lambda *_: held)
    clear = signs_of(made, ~USUAL, USUAL, 1e8).held_clear
    assert int(np.argmax(clear)) == NAMES.index("c")
    assert clear[NAMES.index("c")] > 2.0 * np.delete(clear, NAMES.index("c")).max()
