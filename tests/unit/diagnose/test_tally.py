"""The tally of places over several jobs, against one made anew."""

from dataclasses import replace

import numpy as np

from llmprism.diagnose.passes import INTO, OUT_OF, both_ways
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.diagnose.tally import Tally
from llmprism.model import WhereType
from unit.builders import Flow, transfer_table
from unit.diagnose.evidence_builder import STEP, during, evidence_of, ring_pairs, with_transfers


def slow_job(name, sick, rings=("abcdef",), paths=None):
    pairs = [pair for ring in rings for pair in ring_pairs(ring)]
    rate = {pair: during(8, 14, 2.0, 10.0) for pair in sick}
    return judge_transfers(evidence_of(pairs, rate=rate, name=name, paths=paths))


def test_the_place_that_explains_most_and_the_jobs_that_have_it():
    through = dict.fromkeys(ring_pairs("abcdef"), ("t0", "s0", "t1"))
    jobs = [slow_job(name, ring_pairs("abcdef")[:5], paths=through) for name in ("one", "two")]
    suspect = Tally([*jobs, slow_job("three", ["ab", "bc"])]).best()
    assert suspect.place[0] in (WhereType.LINK, WhereType.SWITCH)
    assert (suspect.cells, set(suspect.steps)) == (2 * 5 * 6, {"one", "two"})


def test_of_two_that_explain_the_same_the_likelier_is_named():
    paths = dict.fromkeys(("ab", "bc"), ("leaf", "spine"))
    suspect = Tally([slow_job("job", ["ab", "bc"], rings=("abcdef",), paths=paths)]).best()
    assert suspect.place == (WhereType.NIC, "b")
    assert np.flatnonzero(suspect.steps["job"]).tolist() == list(range(8, 14))


def test_one_sick_hop_of_a_ring_is_a_card_that_sends_slowly():
    assert Tally([slow_job("job", ["cd"])]).best().place == (WhereType.NIC, ("c", OUT_OF))


def test_what_cannot_tell_does_not_speak_for_a_healthy_switch():
    paths = dict.fromkeys(ring_pairs("abcdef"), ("leaf", "spine"))
    paths.update(dict.fromkeys(ring_pairs("ghijkl"), ("other", "spine")))
    job = slow_job("job", ["ab", "cd"], rings=("abcdef", "ghijkl"), paths=paths)
    assert Tally([job]).best().place[0] is WhereType.NIC, "four of six pairs over the leaf are healthy"
    known = job.known.copy()
    known[[index for index, pair in enumerate(sorted(paths)) if pair in ("bc", "de", "ef", "fa")]] = False
    place = Tally([replace(job, known=known)]).best().place
    assert place[0] in (WhereType.LINK, WhereType.SWITCH)
    assert "leaf" in place[1]


def test_a_fault_that_comes_and_goes_is_seen_both_times():
    rate = during(3, 7, 2.0, 10.0)
    rate[14:18] = 2.0
    evidence = evidence_of(ring_pairs("abcdef"), rate={"ab": rate, "bc": rate})
    steps = Tally([judge_transfers(evidence)]).best().steps["job"]
    assert np.flatnonzero(steps).tolist() == [3, 4, 5, 6, 14, 15, 16, 17]


def test_hops_of_a_ring_that_wait_for_a_sick_one_are_taken_away_with_it():
    rate = dict.fromkeys(ring_pairs("abcd"), during(8, 14, 2.0, 10.0))
    rate["ef"] = during(8, 14, 1.0, 10.0)
    paths = {pair: ("sick" if pair == "ab" else f"well{pair}",) for pair in (*ring_pairs("abcd"), *ring_pairs("efgh"))}
    other = dict.fromkeys(ring_pairs("wxyz"), during(8, 14, 2.0, 10.0))
    first, second = ([*ring_pairs(a), *ring_pairs(b)] for a, b in (("abcd", "efgh"), ("wxyz", "qrst")))
    through = dict.fromkeys(ring_pairs("wxyz"), ("sick",))
    jobs = [
        judge_transfers(evidence_of(first, rate=rate, groups=("abcd", "efgh"), paths=paths)),
        judge_transfers(evidence_of(second, rate=other, name="two", paths=through)),
    ]
    tally = Tally(jobs)
    suspect = tally.best()
    assert suspect.place[1] == "sick" or "sick" in suspect.place[1]
    tally.take_away(suspect)
    left = tally.best()
    assert left.place == (WhereType.NIC, ("e", OUT_OF)), "the others of the first ring only waited"


def test_nothing_sick_nothing_said():
    assert Tally([]).best() is None
    assert Tally([slow_job("job", [])]).best() is None


def test_what_is_left_after_taking_away_is_what_a_new_tally_counts():
    random = np.random.default_rng(1)
    pairs = [pair for ring in ("abcdef", "ghijkl") for pair in ring_pairs(ring)]
    paths = {pair: (f"t{random.integers(3)}", f"s{random.integers(2)}", f"t{random.integers(3)}") for pair in pairs}
    jobs = [
        slow_job(name, [pair for pair in pairs if random.random() < 0.6], rings=("abcdef", "ghijkl"), paths=paths)
        for name in ("one", "two", "three")
    ]
    tally, rounds = Tally(jobs), 0
    while (best := tally.best()) is not None:
        again = Tally(tally.cells).best()
        assert (best.place, best.cells) == (again.place, again.cells)
        before = sum(int(cell.sick.sum()) for cell in tally.cells)
        tally.take_away(best)
        assert sum(int(cell.sick.sum()) for cell in tally.cells) < before
        rounds += 1
    assert rounds > 1


def long_steps(messages):
    """Pairs of a ring of six; one is slow in two steps that take six times as long, with so many messages in each."""
    pairs = ring_pairs("abcdef")
    evidence = evidence_of(pairs, rate={"ab": during(8, 10, 1.0, 10.0)}, duration=during(8, 10, 6 * STEP, STEP))
    steps = evidence.timeline.steps
    flows = [
        Flow(*pair, start, start + 1, 1)
        for pair in pairs
        for step in (8, 9)
        for start in range(int(steps.start_ns[step]), int(steps.end_ns[step]), int(6 * STEP) // messages)
    ]
    return judge_transfers(with_transfers(evidence, transfer_table(flows)))


def test_a_step_that_takes_six_times_as_long_counts_for_six():
    assert Tally([long_steps(messages=1)]).best() is None, "one message that was held up in each is two observations"
    suspect = Tally([long_steps(messages=20)]).best()
    assert (suspect.place, suspect.cells) == ((WhereType.NIC, ("a", OUT_OF)), 12)


def test_small_messages_into_a_card_wait_in_the_switch_and_hardly_speak_for_it():
    """Of one sick hop with healthy pairs at either end, the end that receives is named if these are small."""
    pairs = ["ab", "ac", "bg", "eb", "ha"]
    cells = judge_transfers(evidence_of(pairs, rate={"ab": during(8, 14, 2.0, 10.0)}))
    assert Tally([cells]).best().place == (WhereType.NIC, ("a", OUT_OF))
    small = np.where([pair == "ab" for pair in sorted(pairs)], cells.shows, RULES.places.small_sick_while)
    assert Tally([replace(cells, shows=small)]).best().place == (WhereType.NIC, ("b", INTO))


def test_small_messages_that_are_never_slow_are_one_witness_however_many_there_are():
    """The two of a group exchange large messages slowly; both have small ones, and some of one are slow."""
    pairs = ["ab", "ba", "ac", "ad", "ca", "da", "be", "bf", "eb", "fb"]
    large, slow = np.isin(sorted(pairs), ["ab", "ba"]), during(4, 18, 2.0, 10.0)
    rate = {"ab": slow, "ba": slow, "ac": during(8, 14, 2.0, 10.0)}
    evidence = replace(evidence_of(pairs, rate=rate, groups=("ab",)), group_of_pair=np.where(large, 0, -1))
    cells = judge_transfers(evidence)
    assert Tally([cells]).best().place[0] is WhereType.GROUP
    small = np.where(large, cells.shows, RULES.places.small_sick_while)
    assert Tally([replace(cells, shows=small)]).best().place == (WhereType.NIC, "a")


def test_what_is_slower_than_usual_and_many_times_faster_than_a_sick_card_explains_nothing():
    pairs = ["ab", "ac", "ba", "ca", "de", "ed", "df", "fd"]
    for slow, left in ((0.1, None), (2.0, (WhereType.NIC, ("e", INTO)))):
        rate = {"ab": during(8, 14, slow, 10.0), "ac": during(8, 14, slow, 10.0), "de": during(8, 14, 4.0, 10.0)}
        tally = Tally([judge_transfers(evidence_of(pairs, rate=rate))])
        suspect = tally.best()
        assert suspect.place == (WhereType.NIC, ("a", OUT_OF))
        tally.take_away(suspect)
        other = tally.best()
        assert (other and other.place) == left


def lanes_of_two(sick):
    """Two lanes of four servers with two GPUs each, all behind one leaf, with these pairs slow."""
    rings = ("aceg", "bdfh")
    pairs = [pair for ring in rings for pair in ring_pairs(ring)]
    evidence = evidence_of(pairs, rate={pair: during(10, 16, 1.0, 10.0) for pair in sick}, groups=rings)
    layout = replace(evidence.layout, layout=replace(evidence.layout.layout, tp=2))
    job = replace(evidence.job, places=tuple(f"server{k // 2}" for k in range(8)))
    return judge_transfers(replace(evidence, layout=layout, job=job))


def test_all_lanes_of_a_group_of_tensor_parallel_ranks_are_one_place_and_two_cards_of_a_server_are_not():
    whole = [pair for ring in ("aceg", "bdfh") for pair in ring_pairs(ring)]
    assert Tally([lanes_of_two(whole)]).best().place == (WhereType.GROUP, tuple("acegbdfh"))
    assert Tally([lanes_of_two(["ac", "ga", "bd", "hb"])]).best().place[0] is WhereType.NIC


def test_the_switch_between_two_cables_that_the_same_pairs_pass_is_the_same_place_and_no_rival():
    pairs = [pair for ring in ("abc", "def") for pair in ring_pairs(ring)]
    across, back = ["ad", "be", "cf"], ["da", "eb", "fc"]
    paths = dict.fromkeys(across, ("left", "spine", "right")) | dict.fromkeys(back, ("right", "spine", "left"))
    rate, switch = {pair: during(8, 14, 2.0, 10.0) for pair in across + back}, (WhereType.SWITCH, "spine")
    pairs += across + back
    suspect = Tally([judge_transfers(evidence_of(pairs, rate=rate, paths=paths))]).best()
    names = {both_ways(place) for place in (suspect.place, *suspect.in_series)}
    assert names >= {(WhereType.LINK, ("left", "spine")), (WhereType.LINK, ("right", "spine")), switch}
    paths |= dict.fromkeys(["ga", "ag"], ("third", "spine", "left"))
    suspect = Tally([judge_transfers(evidence_of([*pairs, "ga", "ag"], rate=rate, paths=paths))]).best()
    assert switch not in suspect.in_series, "a third leaf tells the switch from the cable"


def test_a_healthy_job_on_the_switch_speaks_against_it_and_not_at_other_times():
    ring = ring_pairs("abcd")
    paths = dict.fromkeys(ring, ("leaf",))
    rate = {pair: during(8, 14, 2.0, 10.0) for pair in ring}
    sick = judge_transfers(evidence_of(ring, rate=rate, groups=("abcd",), paths=paths))
    assert Tally([sick]).best().place == (WhereType.SWITCH, "leaf")
    well = slow_job("well", [], rings=("wxyz",), paths=dict.fromkeys(ring_pairs("wxyz"), ("leaf",)))
    assert Tally([sick], RULES, [well.bystander]).best().place[0] is WhereType.GROUP
    later = replace(
        well.bystander, start_ns=well.bystander.start_ns + 90 * STEP, end_ns=well.bystander.end_ns + 90 * STEP
    )
    elsewhere = replace(well.bystander, number={(WhereType.SWITCH, "other"): 0})
    assert Tally([sick], RULES, [later, elsewhere]).best().place == (WhereType.SWITCH, "leaf")
    own = replace(well.bystander, job=sick.job)
    assert Tally([sick], RULES, [own]).best().place == (WhereType.SWITCH, "leaf"), "its own cells have spoken already"
    few = replace(well.bystander, before=np.minimum(well.bystander.before, 1))
    few.before[:, :11] = 0
    best = Tally([sick], RULES, [few]).best()
    assert (best.place, best.well) == ((WhereType.SWITCH, "leaf"), 1), "one healthy cell costs less than the group does"
