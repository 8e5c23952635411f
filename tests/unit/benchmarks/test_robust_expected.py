"""What a report is expected to say about a planted fault: by the run without it, never by the report."""

from dataclasses import replace
from pathlib import Path

import numpy as np

import robust_expected
from llmprism.model import FindingKind, WhereType
from llmprism.score import read_truth
from llmprism.sim import parse_scenario, simulate
from llmprism.sim.simulation import EPOCH_NS
from robust_expected import _ends_a_step, _longer, _stops, _varies, answers_of, fault_shows, with_own_slowdowns

TEXT = """
seconds = 12
[cluster]
servers = 4
gpus_per_server = 1
nvlink = false
[[job]]
name = "a"
{shape}
compute_ms = 100
gradient_mb = 50
[[fault]]
job = "a"
{fault}
"""
ALONE = "dp = 4\noverlap = false\nbuckets = 1"
PIPED = "pp = 4\nmicro_batches = 8"
BOTH = "pp = 2\ndp = 2\nmicro_batches = 8"


def played(folder: Path, shape: str, fault: str):
    scenario = parse_scenario("x", TEXT.format(shape=shape, fault=fault))
    simulate(scenario, folder)
    return scenario, folder


def names(scenario, folder):
    return [(truth.faults[0].kind, truth.faults[0].where.type) for truth in answers_of(scenario, folder)]


def test_a_fault_that_costs_nothing_is_not_expected(tmp_path: Path) -> None:
    for factor, shows in ((1.02, False), (3, True)):
        fault = f'kind = "slow_gpu"\nat_s = 4\nfor_s = 5\nfactor = {factor}'
        assert fault_shows(*played(tmp_path / str(factor), ALONE, fault)) is shows


def test_steps_that_are_as_long_as_the_job_s_others_are_not_expected_to_be_noticed(tmp_path: Path) -> None:
    _, folder = played(tmp_path, ALONE, 'kind = "slow_gpu"\nat_s = 4\nfor_s = 5\nfactor = 3')
    job = read_truth(folder / "truth.json.gz").jobs[0]
    hit, varying, even = [100] * 3, (30, 100, 125, 100, 130, 100, 100, 100, 125, 60), (30, *[100] * 8, 60)
    for lengths, shows in ((varying, False), (even, True)):
        ends = tuple(np.cumsum(lengths).tolist())
        twin = replace(job, step_start_ns=(0, *ends[:-1]), step_end_ns=ends)
        assert _longer({"a": [115] * 3}, {"a": hit}, {"a": _varies(twin)}) is shows


def test_a_stall_where_the_job_rests_anyway_is_not_expected(tmp_path: Path) -> None:
    fault = 'kind = "stall"\nat_s = 4.03\nfor_s = 3'
    assert not fault_shows(*played(tmp_path / "rest", ALONE, fault)), "it computes in silence most of the time"
    assert fault_shows(*played(tmp_path / "piped", PIPED, fault)), "micro-batches pass all the time"


def test_a_crash_where_the_job_rests_anyway_is_its_end_for_all_that_anybody_sees(tmp_path: Path) -> None:
    for kind, shows in (("crash", False), ("hang", True)):
        fault = f'kind = "{kind}"\nrank = 1\nat_s = 4.3'
        assert fault_shows(*played(tmp_path / kind, ALONE, fault)) is shows, "ranks that hang are still heard"
        assert fault_shows(*played(tmp_path / f"{kind}-piped", PIPED, fault))


def test_a_crash_at_rest_is_an_end_however_the_collector_cuts_the_records(tmp_path: Path) -> None:
    for rank in range(4):
        fault = f'kind = "crash"\nrank = {rank}\nat_s = 4.3\n[collector]\nidle_ms = 2\ncuts = 0.3'
        assert not fault_shows(*played(tmp_path / str(rank), ALONE, fault)), "cuts differ from run to run"


def test_a_restart_after_the_end_of_the_scenario_is_a_crash_for_good(tmp_path: Path) -> None:
    for restart_s, shows in ((20, False), (3, True)):
        fault = f'kind = "crash_restart"\nrank = 1\nat_s = 4.3\nrestart_s = {restart_s}'
        assert fault_shows(*played(tmp_path / str(restart_s), ALONE, fault)) is shows


def test_what_a_restarted_job_sends_is_not_what_others_sent_without_the_victim(tmp_path: Path, monkeypatch) -> None:
    """The clock of one exporter stamps the first message after the restart 2 ms before it."""
    scenario, folder = played(tmp_path, ALONE, 'kind = "crash_restart"\nrank = 1\nat_s = 4.3\nrestart_s = 3')
    early, sent_by = EPOCH_NS + 7_298_000_000, robust_expected._sent_by

    def stamped(place, members):
        sent = sent_by(place, members)
        return {**sent, max(sent): np.sort(np.append(sent[max(sent)], early))}

    monkeypatch.setattr(robust_expected, "_sent_by", lambda a, m: (stamped if a == folder else sent_by)(a, m))
    assert (FindingKind.CRASH, WhereType.JOB) in names(scenario, folder)


def test_a_stall_at_the_end_of_a_step_looks_like_an_evaluation_however_short_the_rest_there_is() -> None:
    sent = np.array([0, 10, 20, 60, 100, 110, 120, 160])
    assert _ends_a_step([95, 195], sent, 60), "the last message of the first step"
    assert not _ends_a_step([95, 195], sent, 20), "the longest silence, but inside a step"
    assert not _ends_a_step([95], sent, 120), "a step whose end was not seen"


def test_who_died_is_expected_where_others_go_on_without_it(tmp_path: Path) -> None:
    """After a hang the others still begin the collective that the victim never joins; a crash tears all of them down
    before they have computed."""
    fault = 'kind = "{}"\nrank = 1\nat_s = 4.2'
    for shape in (ALONE, BOTH):
        hung = names(*played(tmp_path / f"hang-{shape[:2]}", shape, fault.format("hang")))
        assert hung == [(FindingKind.HANG, WhereType.GPU)]
    at_once = names(*played(tmp_path / "crash", ALONE, fault.format("crash")))
    assert at_once == [(FindingKind.CRASH, WhereType.GPU), (FindingKind.CRASH, WhereType.JOB)]


def test_the_slow_stage_of_a_single_pipeline_is_its_gpu(tmp_path: Path) -> None:
    fault = 'kind = "imbalance"\nstage = 2\nat_s = 4\nfor_s = 4\nfactor = 3'
    assert (FindingKind.SLOW_GPU, WhereType.GPU) in names(*played(tmp_path / "one", PIPED, fault))
    fault = fault.replace("stage = 2", "stage = 1")
    assert names(*played(tmp_path / "two", BOTH, fault)) == [(FindingKind.IMBALANCE, WhereType.STAGE)]


def test_who_stops_in_one_collective_with_others_cannot_be_named(tmp_path: Path) -> None:
    """The peer of a rank that dies stops with the same exchange of tokens: both owe the same message, while other
    pipelines go on."""
    fault = 'kind = "crash"\nrank = 0\nat_s = 4.35'
    together = played(tmp_path / "experts", "pp = 2\ndp = 2\nep = 2\nmicro_batches = 8", fault)
    assert names(*together) == [(FindingKind.CRASH, WhereType.GPU), (FindingKind.CRASH, WhereType.JOB)]
    stops = _stops(*together, read_truth(together[1] / "truth.json.gz"))
    assert stops.others_go_on
    assert len(stops.alike) == 1


def test_a_slow_group_alone_on_its_leaf_is_that_leaf_and_no_more_than_that(tmp_path: Path) -> None:
    slow = "at_s = 4\nfor_s = 5\nfactor = 4\nkind = "
    group, leaf = (FindingKind.SLOW_GROUP, WhereType.GROUP), (FindingKind.SLOW_SWITCH, WhereType.SWITCH)
    assert names(*played(tmp_path / "group", ALONE, slow + '"slow_group"')) == [group, leaf]
    assert names(*played(tmp_path / "leaf", ALONE, slow + '"slow_leaf"')) == [leaf, group]
    assert names(*played(tmp_path / "piped", BOTH, slow + '"slow_group"')) == [group]


def test_a_job_that_alternates_is_slower_by_its_own_code_where_its_steps_are_the_longer_ones(tmp_path: Path) -> None:
    scenario, folder = played(tmp_path, ALONE + "\nalternate = 1.5", 'kind = "slow_gpu"\nat_s = 4\nfor_s = 5')
    truth = read_truth(folder / "truth.json.gz")
    ends = tuple(np.cumsum([60, 100, 100, 150, 150, 100, 100, 150, 100, 60]).tolist())
    truth = replace(truth, jobs=(replace(truth.jobs[0], step_start_ns=(0, *ends[:-1]), step_end_ns=ends),))
    own = with_own_slowdowns(scenario, truth).faint
    assert [(issue.start_ns, issue.end_ns) for issue in own] == [(260, 560), (760, 910)]
    assert {(issue.kind, issue.where.type) for issue in own} == {(FindingKind.SLOW_STEP, WhereType.JOB)}
    steady = replace(scenario, jobs=(replace(scenario.jobs[0], alternate=1.0),))
    assert with_own_slowdowns(steady, truth) == truth
