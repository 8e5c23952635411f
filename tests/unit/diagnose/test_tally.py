"""The tally of places over several jobs, against one made anew."""

import numpy as np

from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.diagnose.tally import Tally
from llmprism.model import WhereType
from unit.diagnose.evidence_builder import during, evidence_of, ring_pairs


def slow_job(name, sick, rings=("abcdef",), paths=None):
    pairs = [pair for ring in rings for pair in ring_pairs(ring)]
    rate = {pair: during(8, 14, 2.0, 10.0) for pair in sick}
    return judge_transfers(evidence_of(pairs, rate=rate, name=name, paths=paths))


def test_the_place_that_explains_most_and_the_jobs_that_have_it():
    through = dict.fromkeys(ring_pairs("abcdef"), ("t0", "s0", "t1"))
    jobs = [slow_job(name, ring_pairs("abcdef")[:5], paths=through) for name in ("one", "two")]
    place, gain, concerned = Tally([*jobs, slow_job("three", ["ab", "bc"])]).best()
    assert place[0] in (WhereType.LINK, WhereType.SWITCH)
    assert (gain, concerned) == (2 * 5 * 6, {"one", "two"})


def test_of_two_that_explain_the_same_the_smaller_is_named():
    paths = dict.fromkeys(("ab", "bc"), ("leaf", "spine"))
    place, _, _ = Tally([slow_job("job", ["ab", "bc"], rings=("abcdef",), paths=paths)]).best()
    assert place == (WhereType.NIC, "b")


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
        assert best == Tally(tally.cells).best()
        before = sum(int(cell.sick.sum()) for cell in tally.cells)
        tally.take_away(best[0])
        assert sum(int(cell.sick.sum()) for cell in tally.cells) < before
        rounds += 1
    assert rounds > 2
