"""What `service_chaos` plans and how it judges: a run that goes wrong must not pass."""

import pytest

from chaos_jobs import SECOND, Fault, FaultKind, ScheduledJob
from chaos_plan import Plan, Role, Tenant, make_plan
from chaos_verdict import memory_grows, wrong_counts, wrong_findings

BEGIN = 1_790_000_000 * SECOND
KINDS = ("PostgreSQL", "Kafka", "room on the disk")


def test_a_plan_depends_on_its_seed_alone_and_holds_everything():
    one, same, other = (make_plan(180, 9, seed, KINDS) for seed in (1, 1, 2))
    assert (one.kills, one.outages) == (same.kills, same.outages)
    assert [tenant.jobs for tenant in one.tenants] == [tenant.jobs for tenant in same.tenants]
    assert one.kills != other.kills
    assert {outage.what for outage in one.outages} == set(KINDS)
    assert {tenant.role for tenant in one.tenants} == set(Role)
    assert {fault.kind for tenant in one.tenants for job in tenant.jobs for fault in job.faults} == set(FaultKind)


def ends(job, seconds):
    return [end for second in range(seconds) for end in job.records(second, seconds).end_ns.tolist()]


def test_a_job_stands_still_and_goes_on_in_the_same_exchange():
    fault = Fault(FaultKind.HANG, 10, 5)
    healthy, hung = ScheduledJob("a", 0.5), ScheduledJob("a", 0.5, faults=(fault,))
    crashed = ScheduledJob("a", 0.5, faults=(Fault(FaultKind.CRASH, 10, 5),))
    gap = max(
        later - earlier for earlier, later in zip(sorted(ends(hung, 20)), sorted(ends(hung, 20))[1:], strict=False)
    )
    assert gap / SECOND == pytest.approx(5, abs=0.1)
    assert len(ends(healthy, 20)) - len(ends(hung, 20)) == 10 * 6 * 8
    assert len(ends(crashed, 20)) % (6 * 8) == 3 * 8, "the exchange in which it crashed is never finished"


def test_a_slow_nic_slows_its_own_transfers_and_the_steps():
    job = ScheduledJob("a", 0.5, faults=(Fault(FaultKind.SLOW, 10, 5, gpu=3),))
    records = job.records(12, 20)
    length = {name: [] for name in records.src}
    for name, start, end in zip(records.src, records.start_ns.tolist(), records.end_ns.tolist(), strict=True):
        length[name].append(end - start)
    slow, usual = (sum(length[name]) / len(length[name]) for name in ("a-gpu3", "a-gpu4"))
    assert slow / usual == pytest.approx(3, rel=0.1)
    assert len(job.records(12, 20)) < len(job.records(2, 20))


@pytest.fixture
def plan():
    """One healthy tenant and one whose job hangs from 100 to 120 s."""
    sick = ScheduledJob("b", 0.6, faults=(Fault(FaultKind.HANG, 100, 20),))
    tenants = [Tenant("t0", Role.STEADY, [ScheduledJob("a", 0.5)], sent=10), Tenant("t1", Role.STEADY, [sick], sent=10)]
    return Plan(180, tenants)


RUNS = [{"id": "job-a", "members": ["a-gpu0"]}, {"id": "job-b", "members": ["b-gpu0"]}]


def finding(job, start, end, kind="stall", phase="closed"):
    times = {"start_ns": BEGIN + int(start * SECOND), "end_ns": None if end is None else BEGIN + int(end * SECOND)}
    return {"job": job, "kind": kind, "phase": phase, "where": {"type": "job", "id": job}, **times}


def test_a_fault_that_opened_and_closed_once_at_its_time_is_right(plan):
    assert list(wrong_findings(plan, RUNS, [finding("job-b", 100.3, 120.5)], BEGIN)) == []


@pytest.mark.parametrize(
    ("findings", "says"),
    [
        ([], "opened 0 times"),
        ([finding("job-b", 100, 120), finding("job-b", 101, 120)], "opened 2 times"),
        ([finding("job-b", 100, None, phase="open")], "not closed in time"),
        ([finding("job-b", 100, 140)], "not closed in time"),
        ([finding("job-b", 90, 120)], "opened 0 times"),
        ([finding("job-b", 100, 120), finding("job-a", 50, 60)], "a (steady) is healthy"),
        ([finding("job-b", 100, 120), finding("job-b", 140, 150, "slow_nic")], "b (steady) is healthy"),
        ([finding("job-b", 100, 120), finding(None, 50, 60)], "no job"),
    ],
)
def test_findings_that_are_wrong_are_said_to_be(plan, findings, says):
    assert any(says in line for line in wrong_findings(plan, RUNS, findings, BEGIN))


def source(name, received=10, stored=10, **dropped):
    return {"name": name, "received": received, "stored": stored, "dropped": dropped}


def test_counts_that_add_up_are_right_also_with_pushes_that_were_turned_away(plan):
    assert list(wrong_counts(plan, [source("http:t0", 13, 10, no_disk=3), source("http:t1")], 0)) == []


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (source("http:t0", 9, 9), "10 records were sent, 9 are counted"),
        (source("http:t0", 11, 11), "10 records were sent, 11 are counted"),
        (source("http:t0", 10, 9), "is not stored + dropped"),
        (source("http:t0", 10, 9, future=1), "its clock is right"),
        (source("http:other"), "10 records were sent, 0 are counted"),
    ],
)
def test_counts_that_do_not_are_said_to_be(plan, first, says):
    assert any(says in line for line in wrong_counts(plan, [first, source("http:t1")], 0))


def test_memory_that_grows():
    assert memory_grows([300, 310, 500, 520])
    assert not memory_grows([300, 310, 320, 330])
    assert not memory_grows([])
