"""What the ranks wrote down becomes the truth of the case."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from lab.fault_labels import step_effect
from lab.notes import JobNotes
from lab.truth import steady_times, truth_document, window_of

from llmprism.score import score_report
from llmprism.score.truth import parse_truth
from support.perfect_report import truth_as_report
from unit.lab.notes_of_a_run import ADDRESSES, SECOND, bytes_of_steps, fault, job, run


def document(recorded: dict[str, Any], notes: JobNotes, **more: Any) -> dict[str, Any]:
    steady = more.get("steady", bytes_of_steps())
    return truth_document(recorded, [notes], window_of(recorded, [notes]), {"train": steady}, more.get("all", steady))


def test_groups_pipelines_and_pairs_follow_the_framework() -> None:
    truth = document(run(), job())["jobs"][0]
    a, b, c, d = ADDRESSES
    assert truth["groups"] == [{"kind": "dp", "members": [a, b]}, {"kind": "dp", "members": [c, d]}]
    assert truth["pipelines"] == [[a, c], [b, d]]
    kinds = {(pair["src"], pair["dst"]): pair["kind"] for pair in truth["pairs"]}
    assert kinds[a, c] == kinds[c, a] == "pp"
    assert kinds[a, b] == kinds[d, c] == "dp"
    assert (a, d) not in kinds
    assert truth["framework"] == "test 1.0"


def test_groups_of_hybrid_sharding_are_shards_and_replicas() -> None:
    a, b, c, d = ADDRESSES
    notes = job()
    parts = [
        {"dp": [0, 1, 2, 3], "shard": [rank // 2 * 2, rank // 2 * 2 + 1], "replicate": [rank % 2, rank % 2 + 2]}
        for rank in range(4)
    ]
    ranks = tuple({**note, "groups": groups} for note, groups in zip(notes.ranks, parts, strict=True))
    truth = document(run(), JobNotes(notes.name, notes.addresses, ranks, notes.attempts))["jobs"][0]
    assert [group["members"] for group in truth["groups"]] == [[a, b], [c, d], [a, c], [b, d]]


@pytest.mark.parametrize("virtual", [1, 2])
def test_the_last_stage_hands_on_to_the_first_only_where_stages_are_interleaved(virtual: int) -> None:
    """What tied embeddings exchange between them is no hop of the pipeline."""
    a, b, c, d = ADDRESSES
    notes = job()
    layout = {**notes.ranks[0]["layout"], "pp": 4, "dp": 1, "virtual": virtual}
    groups = {"pp": [0, 1, 2, 3], "embedding": [0, 3]}
    ranks = tuple({**note, "layout": layout, "groups": groups} for note in notes.ranks)
    steady = dict.fromkeys([(a, b), (b, a), (b, c), (c, b), (c, d), (d, c), (a, d), (d, a)], 10**9)
    truth = document(run(), JobNotes(notes.name, notes.addresses, ranks, notes.attempts), steady=steady)["jobs"][0]
    kinds = {pair["kind"] for pair in truth["pairs"] if {pair["src"], pair["dst"]} == {a, d}}
    assert kinds == ({"other"} if virtual == 1 else {"other", "pp"})


def test_a_broadcast_before_the_first_step_is_marked_as_setup() -> None:
    a, b, *_ = ADDRESSES
    steady = {pair: count for pair, count in bytes_of_steps().items() if pair != (b, a)}
    truth = document(run(), job(), steady=steady, all=bytes_of_steps())["jobs"][0]
    assert [pair for pair in truth["pairs"] if pair.get("setup")] == [{"src": b, "dst": a, "kind": "dp", "setup": True}]


def test_steps_end_with_the_optimizer_of_the_last_rank() -> None:
    steps = document(run(), job())["jobs"][0]["steps"]
    assert len(steps) == 20
    assert steps[0]["setup"]
    assert not steps[1]["setup"]
    assert steps[3]["end_ns"] == 24 * SECOND - 5_000_000 + 3_000_000
    assert all(before["end_ns"] <= after["start_ns"] for before, after in itertools.pairwise(steps))


def test_the_window_begins_shortly_before_the_first_step_and_ends_with_the_last() -> None:
    notes = job()
    assert window_of(run(), [notes]) == (14 * SECOND, 40 * SECOND - 5_000_000 + 3_000_000 + 50_000_000)
    assert steady_times(notes, (0, 60 * SECOND)) == [(21 * SECOND - 2_000_000, 40 * SECOND - 2_000_000)]


def test_a_window_without_the_start_has_no_set_up_step() -> None:
    recorded = run()
    recorded["scenario"]["window_from_s"] = 3.5
    truth = document(recorded, job())
    steps = truth["jobs"][0]["steps"]
    assert not any(step["setup"] for step in steps)
    assert steps[0]["partial"]
    assert truth["healthy"] == []


@pytest.mark.parametrize(
    ("kind", "how", "said", "place", "state"),
    [
        ("crash", {}, "crash", "gpu", "crashed"),
        ("out_of_memory", {}, "crash", "gpu", "crashed"),
        ("bad_sample", {}, "crash", "gpu", "crashed"),
        ("killed", {}, "crash", "gpu", "crashed"),
        ("mismatched_collective", {}, "hang", "gpu", "hung"),
        ("hang", {}, "hang", "gpu", "hung"),
        ("link_down", {}, "hang", "gpu", "hung"),
        ("link_down", {"for_s": 2.0, "end": 27 * SECOND}, "stall", "job", "running"),
        ("stall", {"for_s": 2.0, "end": 27 * SECOND}, "stall", "job", "running"),
        ("slow_nic", {}, "slow_nic", "nic", "running"),
        ("delay", {}, "slow_nic", "nic", "running"),
        ("slow_leaf", {"where": "leaf00"}, "slow_switch", "switch", "running"),
        ("slow_uplink", {"where": "leaf00", "leaf": "leaf00"}, "slow_link", "link", "running"),
    ],
)
def test_faults_in_the_words_of_the_report(kind: str, how: Any, said: str, place: str, state: str) -> None:
    recorded = run(fault(kind, rank=2, **how))
    truth = document(recorded, job())
    label = (truth["faults"] + truth["faint"])[0]
    assert (label["kind"], label["where"]["type"], truth["jobs"][0]["state"]) == (said, place, state)
    ids = {"gpu": ADDRESSES[2], "nic": ADDRESSES[2], "job": "train", "switch": "leaf00", "link": ["leaf00", "spine0"]}
    assert label["where"]["id"] == ids[place]


def test_a_slow_gpu_lasts_as_long_as_the_rank_says() -> None:
    said = (
        {"kind": "slow", "time": 26 * SECOND, "factor": 2.0},
        {"kind": "slow_end", "time": 33 * SECOND, "factor": 1.0},
    )
    recorded = run(fault("slow_gpu", rank=1, for_s=8.0, end=33 * SECOND - 5))
    truth = document(recorded, job(extra={1: said}))
    label = (truth["faults"] + truth["faint"])[0]
    assert (label["start_ns"], label["end_ns"]) == (26 * SECOND, 33 * SECOND)


def test_a_slowdown_without_effect_is_faint() -> None:
    truth = document(run(fault("slow_nic", end=30 * SECOND, for_s=5.0)), job())
    assert truth["faults"] == []
    assert truth["faint"][0]["effect"] == pytest.approx(1.0, abs=0.01)


def test_effect_is_the_mean_time_from_step_to_step() -> None:
    ends = [0, 10, 20, 30, 50, 70, 80, 90]
    steps = [{"end_ns": end, "setup": i == 0} for i, end in enumerate(ends)]
    assert step_effect(steps, 30, 70) == 2.0
    assert step_effect(steps, 0, None) is None


def test_a_job_that_comes_back_is_one_job_whose_crash_ends() -> None:
    first, second = job(steps=10, first=20, ended=False), job(steps=15, first=40)
    notes = JobNotes("train", ADDRESSES, first.ranks, (first.attempts[0], second.attempts[0]))
    truth = document(run(fault("crash", rank=3, start=30 * SECOND), restart_s=2.0), notes)
    assert truth["jobs"][0]["state"] == "running"
    assert len(truth["jobs"][0]["steps"]) == 25
    assert truth["faults"][0]["end_ns"] == 40 * SECOND


def test_the_truth_as_a_report_is_perfect_and_an_empty_report_is_not() -> None:
    truth = parse_truth(document(run(fault("crash", rank=1)), job()))
    perfect = score_report(truth_as_report(truth), truth)
    assert (
        perfect.jobs.exact.f1
        == perfect.pairs.accuracy
        == perfect.steps.boundaries.f1
        == perfect.faults.exact.value
        == 1
    )
    nothing = score_report({"schema": "llmprism.report/1", "jobs": [], "findings": []}, truth)
    assert not nothing.jobs.exact.right
    assert not nothing.faults.exact.right


def test_a_stray_collective_hangs_over_nccl_and_crashes_over_gloo() -> None:
    recorded, notes = run(fault("mismatched_collective", rank=2)), job()
    assert document(recorded, notes)["faults"][0]["kind"] == "hang"
    everybody = list(range(len(notes.ranks)))
    over_gloo = tuple({**rank, "versions": {"backend": "gloo"}, "groups": {"dp": everybody}} for rank in notes.ranks)
    truth = document(recorded, replace(notes, ranks=over_gloo))
    assert (truth["faults"][0]["kind"], truth["jobs"][0]["state"]) == ("crash", "crashed")
    stages = tuple({**rank, "groups": {"pp": everybody}} for rank in over_gloo)
    assert document(recorded, replace(notes, ranks=stages))["faults"][0]["kind"] == "hang", "nobody else makes one"
