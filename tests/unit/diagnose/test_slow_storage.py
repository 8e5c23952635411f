"""Slow storage: a job of one member that reads from servers at given rates."""

import numpy as np
import pytest

from llmprism.diagnose.rules import RULES
from llmprism.diagnose.slow_storage import find_slow_storage
from llmprism.model import FindingKind, Where, WhereType
from unit.builders import EPOCH, MS, SECOND, Flow, transfer_table

SIZE = 50_000_000
MIN_TRANSFERS = RULES.storage.requests


def reads(rates, server="s", member="a", size=SIZE, every_ns=SECOND, writes=False):
    """One transfer every second, each at its rate in Gb/s."""
    ends = (member, server) if writes else (server, member)
    return [
        Flow(*ends, EPOCH + i * every_ns, EPOCH + i * every_ns + int(8 * size / rate), size)
        for i, rate in enumerate(rates)
    ]


def found(flows, members="a"):
    transfers = transfer_table(flows)
    return find_slow_storage(transfers, frozenset(transfers.addresses.index(member) for member in members))


def about(rate, count, seed=0):
    return (rate * np.random.default_rng(seed).uniform(0.8, 1.25, count)).tolist()


@pytest.mark.parametrize("writes", [False, True])
def test_a_server_that_drops_to_a_third_is_found_with_its_time_and_rates(writes):
    (finding,) = found(reads(about(10, 30) + about(3, 20), writes=writes))
    assert finding.kind is FindingKind.SLOW_STORAGE
    assert finding.where == Where(WhereType.STORAGE, "s")
    assert (finding.job, finding.end_ns) == (None, None)
    assert finding.start_ns == EPOCH + 30 * SECOND
    assert finding.severity == pytest.approx(0.7, abs=0.06)
    assert 0.7 < finding.confidence <= 0.9
    rate, count = finding.evidence
    assert (rate.value, rate.expected) == (pytest.approx(3, rel=0.15), pytest.approx(10, rel=0.15))
    assert count.value == 20
    assert f"s serves {'writes' if writes else 'reads'}" in finding.summary


def checkpoint(rate, members=16, at=60, size=500_000_000):
    """All members write at once and share the server's rate."""
    start = EPOCH + at * SECOND
    return [Flow(f"{i:02}", "s", start, start + int(8 * size * members / rate), size) for i in range(members)]


def test_a_checkpoint_of_all_ranks_at_once_at_the_end_of_the_window_is_no_fault():
    """Each write is sixteen times slower than the reads before it: that is no change of either."""
    loading = [flow for i in range(16) for flow in reads(about(10, 60), member=f"{i:02}")[i::16]]
    members = [f"{i:02}" for i in range(16)]
    assert found(loading + checkpoint(10.0), members) == []
    assert found(loading + checkpoint(10.0, at=20) + checkpoint(10.0), members) == []
    (finding,) = found(loading + checkpoint(10.0, at=20) + checkpoint(2.0), members)
    assert finding.start_ns == EPOCH + 60 * SECOND
    assert "serves writes" in finding.summary


def test_only_the_slow_server_is_named():
    flows = reads(about(10, 30) + about(3, 20)) + reads(about(10, 50, seed=1), server="t")
    assert [finding.where.id for finding in found(flows)] == ["s"]


def test_a_server_that_was_never_faster_is_not_slow():
    assert found(reads(about(0.5, 60))) == []


def test_load_halves_a_rate_and_that_is_no_fault():
    assert found(reads(about(10, 30) + about(5, 20))) == []


def test_a_server_that_gets_faster_is_not_slow():
    assert found(reads(about(3, 30) + about(10, 20))) == []


def test_a_fault_that_passes_has_an_end():
    (finding,) = found(reads(about(10, 30) + about(2, 14) + about(10, 30)))
    assert finding.start_ns == EPOCH + 30 * SECOND
    assert EPOCH + 43 * SECOND < finding.end_ns < EPOCH + 44 * SECOND


def test_a_request_that_comes_in_pieces_is_one_request():
    """Every piece is as fast as ever; the pauses between them make the request slow."""
    slow = [
        Flow("s", "a", EPOCH + i * SECOND + part * 50 * MS, EPOCH + i * SECOND + part * 50 * MS + 4 * MS, SIZE // 10)
        for i in range(30, 50)
        for part in range(10)
    ]
    (finding,) = found(reads(about(10, 30)) + slow)
    assert (finding.start_ns, finding.end_ns) == (EPOCH + 30 * SECOND, None)
    assert finding.evidence[0].value < 2.0


def test_a_cache_that_answers_now_and_then_is_no_fault():
    """Two usual rates: neither is slow, and what is slower than both is."""
    cached = [100.0 if i % 3 else 12.0 for i in range(30)]
    assert found(reads(cached * 2)) == []
    (finding,) = found(reads(cached + about(1, 20)))
    assert finding.start_ns == EPOCH + 30 * SECOND


def test_a_short_busy_moment_and_single_slow_transfers_are_no_fault():
    assert found(reads(about(10, 30) + about(2, 4) + about(10, 30))) == []
    assert found(reads([0.5 if i % 5 == 0 else 10.0 for i in range(60)])) == []


def test_transfers_that_are_now_slow_and_now_as_fast_as_ever_are_no_fault():
    rates = [2.0, 2.0, 2.0, 10.0, 10.0]
    assert found(reads(about(10, 30) + rates * 6)) == []
    assert len(found(reads(about(10, 30) + [2.0, 2.0, 2.0, 2.0, 2.0, 10.0] * 5))) == 1


@pytest.mark.parametrize(("after", "result"), [(MIN_TRANSFERS - 1, 0), (MIN_TRANSFERS, 1)])
def test_enough_slow_transfers_are_needed(after, result):
    assert len(found(reads([10.0] * MIN_TRANSFERS + [2.0] * after))) == result


def test_it_must_last():
    rates = about(10, 30) + about(3, 20)
    assert len(found(reads(rates, every_ns=SECOND))) == 1
    assert found(reads(rates, every_ns=SECOND // 5)) == [], "four seconds"


def test_small_transfers_are_dominated_by_latency():
    assert found(reads(about(10, 30) + about(3, 20), size=200_000)) == []


def test_traffic_between_members_is_not_storage():
    assert found(reads(about(10, 30) + about(3, 20)), members="as") == []


def test_nothing_outside_the_jobs_nothing_to_say():
    assert find_slow_storage(None, frozenset({1})) == []
    assert find_slow_storage(transfer_table([]), frozenset()) == []
