"""What is saved of a finding comes back as it was, also from a store that knew no alternatives."""

import json
from dataclasses import asdict

from llmprism.model import Alternative, Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.live import FindingPhase, LiveState, TrackedFinding, TrackedRun
from llmprism.service.codec import decode_finding, decode_state, encode_finding, encode_state
from llmprism.service.tracker import TrackerState
from llmprism.service.windows import WindowPlan

FINDING = Finding(
    FindingKind.SLOW_LINK,
    None,
    Where(WhereType.LINK, ("leaf1", "spine0")),
    1,
    None,
    0.5,
    0.9,
    3.0,
    "slow",
    (Evidence("rate", 1.0, 2.0),),
    (Alternative(FindingKind.SLOW_SWITCH, Where(WhereType.SWITCH, "leaf1"), 0.9, same_place=True),),
)


def test_a_finding_comes_back_as_it_was():
    assert decode_finding(json.loads(json.dumps(encode_finding(FINDING)))) == FINDING


def test_a_finding_of_an_older_store_has_no_alternatives():
    saved = json.loads(json.dumps(encode_finding(FINDING)))
    del saved["alternatives"]
    assert decode_finding(saved).alternatives == ()


def test_runs_and_plan_come_back_as_they_were():
    run = TrackedRun("job-1", ("a", "b"), ("s",), LiveState.SLOWED, 1, 2, 3, 4, step_votes=((10, 20), (30, 40)))
    state, plan = TrackerState(runs=(run,)), WindowPlan(8, 4, 5, 6)
    text = encode_state(state, plan)
    assert decode_state(text) == (state, plan)
    assert json.loads(text)["runs"] == [json.loads(json.dumps(asdict(run)))]


def test_a_state_in_the_words_of_the_version_before_is_read():
    state = TrackerState(findings=(TrackedFinding("f-1", FINDING, FindingPhase.OPEN, clear=True),))
    document = json.loads(encode_state(state, WindowPlan()))
    (tracked,) = document.pop("findings")
    tracked["plain"] = tracked.pop("clear")
    before = json.dumps({**document, "version": 2, "lives": [tracked]})
    assert decode_state(before)[0] == state
