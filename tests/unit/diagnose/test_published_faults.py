"""Three sigma as published: fires on one of many, is blind among few."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.diagnose.published_faults import diagnose_paper
from llmprism.ingest.records_as_transfers import records_as_transfers
from llmprism.model import (
    EventKind,
    Events,
    FindingKind,
    Group,
    Job,
    JobLayout,
    Layout,
    Nic,
    PairKind,
    PairRoles,
    Server,
    Steps,
    Timeline,
    Topology,
    WhereType,
)

SECOND = 1_000_000_000


def no_events() -> Timeline:
    return Timeline(Steps.empty(), np.zeros((0, 0), dtype=np.int64), Events.empty())


def all_dp(flows, groups: tuple[Group, ...] = ()) -> tuple[Job, JobLayout]:
    job = Job("job", tuple(range(len(flows.addresses))), (), 1.0, records_as_transfers(flows))
    kinds = np.full(flows.bytes.size, PairKind.DP, dtype=np.int8)
    return job, JobLayout(Layout(), groups, (), PairRoles.empty(), kinds)


def steps_of(durations: list[int]) -> Steps:
    ends = np.cumsum(durations) * SECOND
    return Steps(np.concatenate(([0], ends[:-1])), ends, np.zeros(ends.size, dtype=np.bool_))


@pytest.mark.parametrize(("healthy", "fires"), [(20, True), (9, False)])
def test_a_long_step_is_seen_among_twenty_but_not_among_nine(flow_table, healthy: int, fires: bool) -> None:
    job, layout = all_dp(flow_table([("a", "b", 0, 1, 1)]))
    timeline = Timeline(steps_of([1] * healthy + [9]), np.zeros((2, 0), dtype=np.int64), Events.empty())
    findings = diagnose_paper([(job, layout, timeline)], None)
    assert len(findings) == int(fires)
    if fires:
        (found,) = findings
        assert (found.kind, found.where.type, found.where.id) == (FindingKind.SLOW_STEP, WhereType.JOB, "job")
        assert (found.start_ns, found.end_ns) == (20 * SECOND, 29 * SECOND)
        assert found.lost_gpu_seconds == pytest.approx((9 - 29 / 21) * 2)


@pytest.mark.parametrize(("count", "fires"), [(13, True), (11, False)])
def test_a_slow_group_is_seen_among_twelve_but_not_among_ten(flow_table, count: int, fires: bool) -> None:
    members = [f"m{number:02}" for number in range(2 * count)]
    flows = flow_table([(members[2 * g], members[2 * g + 1], 0, 1, 1) for g in range(count)])
    groups = tuple(Group(PairKind.DP, (2 * g, 2 * g + 1)) for g in range(count))
    job, layout = all_dp(flows, groups)
    address = np.arange(2 * count, dtype=np.int32)
    end_ns = np.where(address // 2 == 3, 9 * SECOND, SECOND)
    events = Events(
        address,
        np.where(address < 2, -1, 0).astype(np.int32),  # the first group has no DP flow inside a step
        np.full(address.size, EventKind.DP, dtype=np.int8),
        np.zeros(address.size, dtype=np.int64),
        end_ns,
        address,
        end_ns,
    )
    findings = diagnose_paper([(job, layout, Timeline(steps_of([10]), np.zeros((0, 0), dtype=np.int64), events))], None)
    assert len(findings) == int(fires)
    if fires:
        assert findings[0].kind is FindingKind.SLOW_GROUP
        assert findings[0].where.id == ("m06", "m07")
        assert findings[0].evidence[0].value == 9.0


def switch_records(gbps: list[float], flows_at_once: list[int]) -> list[tuple[object, ...]]:
    return [
        (f"a{switch:02}", f"b{switch:02}", 0, SECOND, int(rate * SECOND / 8), (f"leaf{switch:02}",))
        for switch, (rate, flows) in enumerate(zip(gbps, flows_at_once, strict=True))
        for _ in range(flows)
    ]


def test_a_slow_switch_and_a_crowded_one(flow_table) -> None:
    gbps, at_once = [150.0] * 20, [4] * 20
    gbps[3], at_once[7] = 40.0, 60
    job, layout = all_dp(flow_table(switch_records(gbps, at_once)))
    slow, crowded = diagnose_paper([(job, layout, no_events())], None)
    assert (slow.kind, slow.where.id, slow.job) == (FindingKind.SLOW_SWITCH, "leaf03", None)
    assert slow.evidence[0].value == pytest.approx(40.0)
    assert (crowded.kind, crowded.where.id) == (FindingKind.CONGESTION, "leaf07")
    assert crowded.evidence[0].value == 60.0


def test_known_failure_sick_switches_mask_each_other(flow_table) -> None:
    job, layout = all_dp(flow_table(switch_records([150.0] * 17 + [40.0] * 3, [4] * 20)))
    assert diagnose_paper([(job, layout, no_events())], None) == ()


def test_flows_without_path_count_for_the_switches_of_their_ends(flow_table) -> None:
    records = [row[:5] for row in switch_records([150.0] * 19 + [40.0], [4] * 20)]
    job, layout = all_dp(flow_table(records))
    assert diagnose_paper([(job, layout, no_events())], None) == ()
    nics = [Nic(name, None, f"leaf{name[1:]}") for name in job.transfers.addresses]
    (found,) = diagnose_paper([(job, layout, no_events())], Topology((Server("all", tuple(nics)),)))
    assert found.where.id == "leaf19"


def test_flows_that_follow_each_other_are_not_concurrent(flow_table) -> None:
    records = switch_records([150.0] * 20, [4] * 20)
    records += [
        ("c", "d", k * SECOND, (k + 1) * SECOND, 150 * SECOND // 8, ("leaf20",)) for k in range(10) for _ in range(4)
    ]
    job, layout = all_dp(flow_table(records))
    assert diagnose_paper([(job, layout, no_events())], None) == ()


def test_pp_flows_do_not_count(flow_table) -> None:
    job, layout = all_dp(flow_table(switch_records([150.0] * 19 + [40.0], [4] * 20)))
    pp = JobLayout(Layout(), (), (), PairRoles.empty(), np.full_like(layout.transfer_kind, PairKind.PP))
    assert diagnose_paper([(job, pp, no_events())], None) == ()


def test_nothing_in_nothing_out() -> None:
    assert diagnose_paper([], None) == ()
