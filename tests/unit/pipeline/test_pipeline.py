"""Where the stages meet: counts, notes, switches, the choice of method."""

from __future__ import annotations

import pytest

from llmprism.dataset import load
from llmprism.errors import UsageError
from llmprism.ingest import read_flows, read_transfers
from llmprism.model import FindingKind, JobState, Nic, Server, Topology
from llmprism.pipeline import METHODS, diagnose
from llmprism.report.json_report import render
from unit.builders import MS, SECOND, Flow, build_job, chatter, flow_table


def noisy():
    """A healthy job, heartbeats of strangers, and a storage server that all members read."""
    job = build_job()
    strangers = chatter({"x", "y"}, job.shape.start_ns, job.step_ends_ns[-1])
    reads = [
        Flow("storage", member, job.shape.start_ns + SECOND, job.shape.start_ns + SECOND + 50 * MS, 90_000_000)
        for member in sorted(job.members)
    ]
    return job, strangers, reads


def test_every_record_is_used_or_dropped_with_a_reason():
    job, strangers, reads = noisy()
    flows = flow_table(job.records + strangers + reads)
    counts = diagnose(flows, job.topology).input
    assert counts.records == flows.counts.records
    assert counts.used == len(job.records)
    assert dict(counts.dropped) == {"control_chatter": len(strangers), "outside_jobs": len(reads)}


def test_the_report_holds_the_window_the_jobs_and_their_states():
    job, _, _ = noisy()
    flows = flow_table(job.records)
    report = diagnose(flows, job.topology)
    assert report.window == flows.window
    assert report.addresses == flows.addresses
    (result,) = report.jobs
    assert {report.addresses[member] for member in result.job.members} == job.members
    assert result.state is JobState.RUNNING
    assert result.timeline.events.count > 0
    assert diagnose(flows, job.topology, with_events=False).jobs[0].timeline.events.count == 0


def test_switches_carry_the_traffic_of_the_paths_through_them():
    job = build_job(tp=2)
    report = diagnose(flow_table(job.records), job.topology)
    loads = {load.switch: load for load in report.switches}
    assert set(loads) == {"leaf0", "leaf1"}
    for rail in range(2):
        through = [record for record in job.records if record.path == (f"leaf{rail}",)]
        load = loads[f"leaf{rail}"]
        assert load.bytes == sum(record.bytes for record in through)
        assert load.pairs == len({(record.src, record.dst) for record in through})
        assert load.median_rate_gbps == pytest.approx(job.shape.rate_gbps, rel=0.05)
        assert load.tier == "leaf"
        assert load.jobs == (report.jobs[0].job.id,)


def test_notes_say_what_the_topology_does_not_know():
    job = build_job()
    flows = flow_table(job.records)
    assert diagnose(flows, job.topology).notes == ()
    assert "no topology" in diagnose(flows).notes[0]
    partial = Topology(job.topology.servers[:3], job.topology.switches)
    assert "1 of 4" in diagnose(flows, partial).notes[0]
    stranger = diagnose(flows, Topology((Server("s", (Nic("nobody", 0),)),)))
    assert "names none" in stranger.notes[0]
    assert stranger.topology is None
    assert [result.job.id for result in stranger.jobs] == [result.job.id for result in diagnose(flows).jobs]


def test_a_job_without_visible_steps_is_noted():
    flows = [Flow("a", "b", 0, 60 * SECOND, 10**9), Flow("b", "a", 0, 60 * SECOND, 10**9)]
    report = diagnose(flow_table(flows))
    (result,) = report.jobs
    assert result.state is JobState.UNKNOWN
    assert report.findings == ()
    assert any(result.job.id in note for note in report.notes)


def test_nothing_in_nothing_out():
    report = diagnose(flow_table([]))
    assert (report.jobs, report.findings, report.switches) == ((), (), ())


@pytest.mark.parametrize("method", METHODS)
def test_every_method_tells_its_progress_and_the_same_answer_twice(method):
    flows = flow_table(build_job().records)
    result = []
    first = diagnose(flows, method=method, progress=lambda stage, share: result.append((stage, share)))
    assert result
    assert all(0.0 <= share <= 1.0 for _, share in result)
    second = diagnose(flows, method=method)
    assert [job.job.id for job in first.jobs] == [job.job.id for job in second.jobs]
    assert first.findings == second.findings


def test_an_unknown_method_is_refused():
    with pytest.raises(UsageError, match="guess"):
        diagnose(flow_table([]), method="guess")


def test_a_memory_limit_changes_no_byte_of_the_report(request):
    """Two megabytes make a dozen buckets of this capture."""
    flows = [request.config.rootpath / "examples" / "crash" / "flows.parquet"]
    at_once = diagnose(read_flows(flows))
    in_buckets = diagnose(read_transfers(flows, memory_limit="2MB"))
    assert render(in_buckets) == render(at_once)


def test_lost_packets_reach_the_report_although_no_message_is_slow():
    """A real capture (`dev` of the dataset): the cells in which bytes are sent again travel with the job."""
    case, flows, topology, _ = next(one for one in load("dev") if one[0].name == "gloo-izb-pp3")
    report = diagnose(flows, topology, with_events=False, watched_until_ns=case.watched_until_ns)
    assert [(one.kind, one.where.id) for one in report.findings] == [(FindingKind.SLOW_NIC, "10.10.1.1")]
