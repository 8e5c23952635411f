"""Steps in byte-space: series whose boundaries are known, as ragged in time as real ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.stats.byte_steps import LOSSY, MIN_DOMINANCE, TOLERANCES, chain_at
from llmprism.stats.silences import Silences, silences_of
from support.stages import find_steps

MS = 1_000_000
STEP_BYTES = 10_000_000


class Series:
    """Intervals appended one by one; remembers the bytes sent at every step boundary."""

    def __init__(self, seed=0):
        self.random = np.random.default_rng(seed)
        self.now = 1_000 * MS
        self.sent = 0
        self.rows = []
        self.boundaries = []

    def message(self, size, pause_ms, jitter=0.3):
        """A message, then a pause of about this length."""
        length = max(size // 10_000, 1) * 1_000
        self.rows.append((self.now, self.now + length, size))
        self.sent += size
        self.now += length + int(pause_ms * MS * self.random.uniform(1 - jitter, 1 + jitter))

    def step(self, sizes, inner_ms=2.0, outer_ms=80.0):
        for size in sizes[:-1]:
            self.message(size, inner_ms)
        self.message(sizes[-1], outer_ms)
        self.boundaries.append(self.sent)

    def silences(self):
        start, end, size = (np.array(column, dtype=np.int64) for column in zip(*self.rows, strict=True))
        return silences_of(start, end, size)


def buckets(random, total=STEP_BYTES, count=8):
    """Unequal messages that add up to one step."""
    cuts = np.sort(random.choice(np.arange(1, 1000), count - 1, replace=False)) * (total // 1000)
    return np.diff(cuts, prepend=0, append=total).tolist()


def ragged(steps=40, seed=0, spread=0.0, **shape):
    """Steps of the same bytes (but for `spread`), the messages cut anew in every one."""
    series = Series(seed)
    for _ in range(steps):
        total = int(STEP_BYTES * (1 + series.random.uniform(-spread, spread)))
        series.step(buckets(series.random, total), **shape)
    return series


def bytes_at_boundaries(silences, chain):
    return silences.bytes_before[chain.boundaries].tolist()


@pytest.mark.parametrize("seed", range(5))
def test_every_step_is_found_however_ragged(seed):
    series = ragged(seed=seed)
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    assert bytes_at_boundaries(silences, chain) == series.boundaries
    assert chain.steps == 39
    assert chain.regular.all()
    assert chain.bytes_per_step == STEP_BYTES
    assert chain.dominance > 0.9
    assert chain.coverage == pytest.approx(39 / 40)


@pytest.mark.parametrize("spread", [0.001, 0.008])
def test_bytes_may_vary_a_little(spread):
    series = ragged(spread=spread)
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    assert bytes_at_boundaries(silences, chain) == series.boundaries
    assert chain.bytes_per_step == pytest.approx(STEP_BYTES, rel=2 * spread)


def test_a_lossy_collector_is_found_with_the_wider_tolerance():
    series = ragged(spread=0.035, seed=3)
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    found = set(bytes_at_boundaries(silences, chain))
    assert len(found & set(series.boundaries)) >= 0.9 * len(series.boundaries)
    assert len(found - set(series.boundaries)) <= 2


def test_set_up_traffic_before_the_first_step_shifts_the_origin():
    series = Series()
    for size in (3_300_000, 700_000, 17_900_000):
        series.message(size, 300.0)
    setup = series.sent
    for _ in range(30):
        series.step(buckets(series.random))
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    regular_ends = {
        b
        for b, regular in zip(bytes_at_boundaries(silences, chain)[1:], chain.regular.tolist(), strict=True)
        if regular
    }
    assert set(series.boundaries) <= regular_ends, "all 30 steps, the first one from the end of the set-up"
    assert setup in bytes_at_boundaries(silences, chain)
    assert chain.bytes_per_step == STEP_BYTES


def test_long_pauses_for_checkpoints_change_nothing():
    series = Series()
    for step in range(40):
        sizes = buckets(series.random)
        if step % 10 == 5:
            for size in sizes[:4]:
                series.message(size, 2.0)
            series.message(sizes[4], 3_000.0)  # an evaluation or a checkpoint in the middle of a step
            sizes = sizes[5:]
        series.step(sizes)
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    assert bytes_at_boundaries(silences, chain) == series.boundaries


def test_a_pause_at_a_boundary_is_a_boundary_like_any_other():
    series = Series()
    for step in range(30):
        series.step(buckets(series.random), outer_ms=5_000.0 if step in (4, 11, 23) else 80.0)
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    assert bytes_at_boundaries(silences, chain) == series.boundaries


@pytest.mark.parametrize("after", [9, 13, 19])
def test_one_long_pause_does_not_cut_the_series_into_two_or_three_steps(after):
    """A checkpoint in the middle: the parts have equal bytes, and their ends are the longest silences."""
    series = Series()
    for step in range(2 * after + 2):
        series.step(buckets(series.random), outer_ms=3_000.0 if step == after else 80.0)
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    assert bytes_at_boundaries(silences, chain) == series.boundaries


@pytest.mark.parametrize("every", [10, 20])
def test_pauses_every_few_steps_are_no_boundaries_where_that_is_known(every):
    series = Series()
    for step in range(100):
        series.step(buckets(series.random), outer_ms=180.0 if step % every == 3 else 80.0)
    silences = series.silences()
    chain = find_steps(silences, pauses=True)
    assert chain is not None
    assert bytes_at_boundaries(silences, chain) == series.boundaries


@pytest.mark.xfail(strict=True, reason="known: a long pause after every n-th step makes n steps look like one")
@pytest.mark.parametrize("every", [7, 20])
def test_a_long_pause_after_every_nth_step_does_not_make_n_steps_one(every):
    series = Series()
    for step in range(100):
        series.step(buckets(series.random), outer_ms=2_000.0 if step % every == 3 else 80.0)
    silences = series.silences()
    chain = find_steps(silences, pauses=True)
    assert chain is not None
    assert bytes_at_boundaries(silences, chain) == series.boundaries


def test_boundaries_without_a_silence_leave_an_irregular_link():
    series = Series()
    for step in range(40):
        series.step(buckets(series.random), outer_ms=0.0 if step in (11, 25) else 80.0)
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    assert chain.bytes_per_step == STEP_BYTES
    missing = {series.boundaries[11], series.boundaries[25]}
    assert set(bytes_at_boundaries(silences, chain)) == set(series.boundaries) - missing
    assert chain.steps == 39 - 4
    assert (~chain.regular).sum() == 2


def test_extra_traffic_between_steps_is_an_irregular_link():
    series = Series()
    for step in range(30):
        if step == 15:
            series.message(3_700_000, 80.0)
        series.step(buckets(series.random))
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    assert chain.bytes_per_step == STEP_BYTES
    assert set(series.boundaries) <= set(bytes_at_boundaries(silences, chain))
    assert chain.steps >= 28


@pytest.mark.parametrize("batches", [2, 4, 8, 16])
def test_micro_batches_inside_a_step_are_not_steps(batches):
    series = Series(batches)
    for _ in range(40):
        for _ in range(batches - 1):
            for size in buckets(series.random, STEP_BYTES // batches, 4)[:-1]:
                series.message(size, 1.0)
            series.message(STEP_BYTES // batches - sum(row[2] for row in series.rows[-3:]), 20.0)
        series.step(buckets(series.random, STEP_BYTES // batches, 4), outer_ms=80.0)
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    assert bytes_at_boundaries(silences, chain) == series.boundaries


def test_a_pause_half_as_long_in_the_middle_of_every_step_is_no_boundary():
    """The forward direction of a pipeline link: two warm-up activations, a wait, two more, the end of the step."""
    series = Series()
    for _ in range(40):
        series.message(STEP_BYTES // 4, 10.0, jitter=0.1)
        series.message(STEP_BYTES // 4, 50.0, jitter=0.1)
        series.message(STEP_BYTES // 4, 30.0, jitter=0.1)
        series.message(STEP_BYTES // 4, 100.0, jitter=0.1)
        series.boundaries.append(series.sent)
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    assert bytes_at_boundaries(silences, chain) == series.boundaries


def test_alternating_short_and_long_steps_are_steps_not_pairs_of_steps():
    series = Series()
    for step in range(60):
        series.step(buckets(series.random), inner_ms=2.0 if step % 2 else 4.0, outer_ms=60.0 if step % 2 else 75.0)
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    assert chain.bytes_per_step == STEP_BYTES
    assert bytes_at_boundaries(silences, chain) == series.boundaries


def test_three_steps_are_enough_when_they_agree():
    series = ragged(steps=4)
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    assert chain.bytes_per_step == STEP_BYTES
    assert set(bytes_at_boundaries(silences, chain)) >= set(series.boundaries)


@pytest.mark.parametrize("messages", [1, 2])
def test_a_step_may_be_a_single_message(messages):
    """One large all-reduce, put together by the collector or by `ingest`: one silence per step."""
    series = Series()
    for _ in range(30):
        series.step([STEP_BYTES // messages] * messages)
    silences = series.silences()
    chain = find_steps(silences)
    assert chain is not None
    assert bytes_at_boundaries(silences, chain) == series.boundaries


def test_two_messages_are_no_steps():
    series = Series()
    series.step([STEP_BYTES])
    series.step([STEP_BYTES])
    assert find_steps(series.silences()) is None


@pytest.mark.parametrize("seed", range(10))
def test_random_traffic_has_no_steps(seed):
    """Sizes and pauses at random: a chain of more than a few steps must be refused."""
    random = np.random.default_rng(seed)
    series = Series(seed)
    for _ in range(400):
        series.message(int(random.lognormal(14, 1.0)) + 1, random.exponential(20.0))
    chain = find_steps(series.silences())
    assert chain is None or chain.steps <= 3, "two or three silences may be equally far apart by chance"


def test_nothing_has_no_steps():
    none = np.zeros(0, dtype=np.int64)
    assert find_steps(Silences(none, none, none)) is None
    zero = np.zeros(10, dtype=np.int64)
    assert find_steps(Silences(np.arange(10), np.ones(10, dtype=np.int64), zero)) is None


def test_max_steps_bounds_the_search():
    silences = ragged(steps=40).silences()
    assert find_steps(silences, max_steps=20) is None
    assert find_steps(silences, max_steps=45) is not None


def test_chain_at_known_bytes_finds_the_phase():
    series = ragged()
    silences = series.silences()
    chain = chain_at(silences, STEP_BYTES * 1.004, 0.02)
    assert bytes_at_boundaries(silences, chain) == series.boundaries
    assert chain.bytes_per_step == STEP_BYTES
    assert chain.dominance > MIN_DOMINANCE


def test_a_multiple_of_the_step_is_not_dominant():
    silences = ragged().silences()
    for multiple in (2, 3):
        assert chain_at(silences, float(multiple * STEP_BYTES), 0.02).dominance < MIN_DOMINANCE


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1_000), st.integers(0, 1 << 60), st.integers(2, 1_000))
def test_steps_do_not_depend_on_the_origin_of_time_nor_on_the_unit_of_bytes(seed, shift, unit):
    silences = ragged(steps=15, seed=seed).silences()
    chain = find_steps(silences)
    assert chain is not None
    later = find_steps(Silences(silences.begin_ns + shift, silences.length_ns, silences.bytes_before))
    larger = find_steps(Silences(silences.begin_ns, silences.length_ns, silences.bytes_before * unit))
    assert later is not None
    assert larger is not None
    assert later.boundaries.tolist() == larger.boundaries.tolist() == chain.boundaries.tolist()
    assert larger.bytes_per_step == pytest.approx(unit * chain.bytes_per_step)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 1 << 40), st.integers(0, 1 << 50)), max_size=50),
    st.one_of(st.none(), st.integers(1, 100)),
)
def test_any_silences_give_none_or_a_sound_chain(rows, max_steps):
    length = np.array([pause for pause, _ in rows], dtype=np.int64)
    before = np.cumsum(np.array([size for _, size in rows], dtype=np.int64))
    silences = Silences(np.cumsum(length), length, before)
    chain = find_steps(silences, max_steps)
    if chain is None:
        return
    assert chain.steps >= 2
    assert (np.diff(chain.boundaries) > 0).all()
    assert chain.regular.size == chain.boundaries.size - 1
    assert 0.0 <= chain.dominance <= 1.0
    assert 0.0 < chain.coverage <= 1.0
    links = np.diff(silences.bytes_before[chain.boundaries])[chain.regular]
    assert np.abs(links / chain.bytes_per_step - 1.0).max() <= LOSSY * max(TOLERANCES) + 1e-9
