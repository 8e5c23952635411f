"""The loader, on a small folder and on the dataset of the repository; the dataset's own checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmprism.dataset import FOLDER, SPLITS, cases, load, verify
from llmprism.errors import FormatError, InputError, UsageError
from llmprism.score import score_report
from support.perfect_report import truth_as_report

EMPTY: dict[str, Any] = {"schema": "llmprism.report/1", "jobs": [], "findings": []}
ENTRY: dict[str, Any] = {
    "name": "one", "split": "dev", "about": "", "frameworks": ["torch DDP"], "layouts": ["data"], "faults": [],
    "backend": "gloo", "records": 1, "seconds": 30,
    "watched_until_ns": 1, "files": {"topology.json": "0" * 64},
}  # fmt: skip
PUBLISHED = cases() if (FOLDER / "cases.json").is_file() else []


def write(folder: Path, *entries: dict[str, Any], schema: str = "llmprism.dataset/1") -> Path:
    (folder / "cases.json").write_text(json.dumps({"schema": schema, "cases": list(entries)}))
    return folder


def test_cases_of_a_split_by_name(tmp_path: Path) -> None:
    write(tmp_path, {**ENTRY, "name": "b"}, {**ENTRY, "name": "a"}, {**ENTRY, "name": "c", "split": "test"})
    assert [case.name for case in cases("dev", tmp_path)] == ["a", "b"]
    assert [case.name for case in cases(folder=tmp_path)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../secrets"}, "no name of a case"),
        ({"files": {"../../x": "0"}}, "no name of a case"),
        ({"split": "train"}, "split: 'train'"),
        ({"records": "many"}, "records: an integer"),
        ({"faults": "crash"}, "faults: a list"),
        ({"about": None}, "about: text"),
    ],
)
def test_a_hostile_index_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        cases(folder=write(tmp_path, {**ENTRY, **change}))


def test_another_schema_an_absent_folder_and_an_unknown_split_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="schema"):
        cases(folder=write(tmp_path, ENTRY, schema="other/1"))
    with pytest.raises(InputError, match="there is no dataset"):
        cases(folder=tmp_path / "none")
    with pytest.raises(UsageError, match="split"):
        cases("validation", tmp_path)


def test_a_changed_or_absent_file_is_found(tmp_path: Path) -> None:
    case = cases(folder=write(tmp_path, ENTRY))[0]
    with pytest.raises(FormatError, match="No such file"):
        verify(case)
    case.folder.mkdir()
    (case.folder / "topology.json").write_text("{}")
    with pytest.raises(FormatError, match="not the one that was published"):
        verify(case)


needs_data = pytest.mark.skipif(not PUBLISHED, reason="the dataset is not part of this checkout")


@needs_data
def test_the_dataset_is_large_enough_and_small_enough() -> None:
    assert len(PUBLISHED) >= 60
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 40e6
    shares = [sum(case.split == split for case in PUBLISHED) / len(PUBLISHED) for split in SPLITS]
    assert min(shares) > 0.4
    assert sum(20 <= case.seconds <= 45 for case in PUBLISHED) == len(PUBLISHED)


@needs_data
@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: case.name)
def test_truth_as_a_report_is_perfect_and_an_empty_one_worthless(case: Any) -> None:
    verify(case)
    truth = case.truth()
    perfect = score_report(truth_as_report(truth), truth)
    shares = [perfect.jobs.exact.f1, perfect.pairs.accuracy, perfect.steps.boundaries.f1]
    shares += [perfect.structure.groups.f1, perfect.structure.pipelines.f1, perfect.faults.exact.value]
    assert {share for share in shares if share is not None} == {1.0}
    assert perfect.faults.false_alarms == 0
    nothing = score_report(EMPTY, truth)
    assert (nothing.jobs.exact.right, nothing.steps.boundaries.right, nothing.faults.exact.right) == (0, 0, 0)
    assert nothing.pairs.accuracy == 0.0
    assert len(truth.faults) == len(case.faults)


@needs_data
def test_flows_topology_and_truth_speak_of_the_same_addresses(tmp_path: Path) -> None:
    smallest = min(PUBLISHED, key=lambda case: case.records)
    (tmp_path / smallest.name).symlink_to(smallest.folder)
    entry = {"name": smallest.name, "split": smallest.split, "files": smallest.files, "records": smallest.records}
    write(tmp_path, {**ENTRY, **entry})
    case, flows, topology, truth = next(load(smallest.split, tmp_path))
    named = {nic.address for server in topology.servers for nic in server.nics}
    for job in truth.jobs:
        assert job.members <= named
        assert job.members <= set(flows.addresses)
    assert flows.start_ns.size == case.records
