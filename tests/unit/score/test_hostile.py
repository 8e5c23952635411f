"""Whatever the documents hold, the scorer answers with a score or with an error of ours."""

from __future__ import annotations

import contextlib
import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmprism.errors import LLMPrismError
from llmprism.score import read_truth, score_report
from llmprism.score.truth import parse_truth

JOB: dict[str, Any] = {
    "id": "a",
    "members": ["x", "y", "z"],
    "state": "running",
    "layout": {"tp": 1, "pp": 1, "dp": 3, "ep": None, "sharding": "none", "micro_batches": 2},
    "groups": [{"kind": "dp", "members": ["x", "y", "z"]}],
    "pipelines": [["x", "y"]],
    "pairs": [{"src": "x", "dst": "y", "kind": "dp"}, {"src": "y", "dst": "x", "kind": "pp"}],
    "steps": [{"index": i, "start_ns": i * 100, "end_ns": i * 100 + 90} for i in range(4)],
}
FAULT: dict[str, Any] = {
    "kind": "slow_nic",
    "job": "a",
    "where": {"type": "nic", "id": "x"},
    "start_ns": 100,
    "end_ns": None,
    "equivalents": ["y"],
}
CAPTURE: dict[str, Any] = {
    "jobs": [
        {
            "job": 0,
            "members": ["x", "y"],
            "tp": 1,
            "pp": 1,
            "dp": 2,
            "mode": "ddp",
            "dp_groups": [["x", "y"]],
            "pipelines": [],
            "steps": [{"index": 0, "start_ns": 0, "end_ns": 9}],
        }
    ],
    "faults": [{"kind": "crash", "job": 0, "where": "x", "t_start": 5, "t_end": None}],
}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything inside a document."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key in keys for place in places(value[key], (*path, key))]


def changed(document: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    result = copy.deepcopy(document)
    inside: Any = result
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return result


REPORT = {"schema": "llmprism.report/1", "jobs": [JOB], "findings": [FAULT]}
TRUTH = {"schema": "llmprism.truth/1", "jobs": [JOB], "faults": [FAULT]}


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(places(REPORT)), values)
def test_any_change_to_a_report(place: tuple[Any, ...], value: Any) -> None:
    with contextlib.suppress(LLMPrismError):
        json.dumps(score_report(changed(REPORT, place, value), parse_truth(TRUTH)).to_dict())


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([TRUTH, CAPTURE]), st.data())
def test_any_change_to_a_truth(document: dict[str, Any], data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(places(document)))
    with contextlib.suppress(LLMPrismError):
        score_report(REPORT, parse_truth(changed(document, place, data.draw(values))))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_as_a_truth(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "truth.json.gz"
    path.write_bytes(content)
    with contextlib.suppress(LLMPrismError):
        read_truth(path)
