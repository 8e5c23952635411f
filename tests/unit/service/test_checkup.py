"""The checks of `llmprism doctor`: each can find what it is for."""

from dataclasses import replace

from llmprism.service.checkup import CheckLevel, check_answers, examine
from llmprism.service.clock_of_source import Clock, ClockState
from llmprism.service.config import Config, DirectorySettings, StoreSettings, TopologySettings
from llmprism.service.store import Batch


def found(results, level):
    return [result.text for result in results if result.level is level]


def test_a_fresh_machine_has_no_problem(tmp_path):
    results = examine(Config(store=StoreSettings(folder=str(tmp_path / "new"))))
    assert found(results, CheckLevel.PROBLEM) == []


def test_a_broken_topology_and_a_missing_folder_are_problems(tmp_path):
    (tmp_path / "topology.json").write_text("{broken")
    config = Config(
        store=StoreSettings(folder=str(tmp_path / "new")),
        topology=TopologySettings(str(tmp_path / "topology.json")),
        directory=(DirectorySettings(str(tmp_path / "nowhere")),),
    )
    problems = found(examine(config), CheckLevel.PROBLEM)
    assert any("not JSON" in text for text in problems)
    assert any("does not exist" in text for text in problems)


def test_a_store_of_another_version_and_a_wrong_clock_are_seen(store, config):
    wrong = Clock("http:tap", "leaf7", ClockState.MOVED, offset_ns=90 * 10**9, lag_ns=1, wall_ns=2**62)
    store.commit_batch(Batch("one", (), None, 2**62, clocks=(wrong,)))
    warnings = found(examine(config), CheckLevel.WARNING)
    assert "http:tap leaf7: its clock is 90 s ahead of the others; its times are moved by as much" in warnings
    store.put_state("schema", "99")
    assert any("schema 99" in text for text in found(examine(config), CheckLevel.PROBLEM))


def test_a_running_service_reports_its_troubles_and_losses():
    source = {"name": "http:a", "received": 100, "stored": 50, "dropped": {"future": 50}, "refused": {}}
    overview = {
        "now_ns": 10**18,
        "window": {"wall_ns": 10**18 - 200 * 10**9, "records": 5},
        "clocks": ["http:a: its clock is 9 s ahead"],
        "sources": [source, {"name": "service", "seconds_left_out": 7, "dropped": {}}],
        "shedding": False,
    }
    results = check_answers({"ready": False, "troubles": ["upkeep failed"]}, overview, 10**18 + 60 * 10**9)
    assert found(results, CheckLevel.PROBLEM) == ["upkeep failed"]
    warnings = " | ".join(found(results, CheckLevel.WARNING))
    for part in ("differ by 60 s", "200 s ago", "9 s ahead", "50 dropped", "7 s were never looked at"):
        assert part in warnings
    healthy = replace(results[0])
    assert healthy.advice
    assert check_answers({"troubles": []}, None, 0)[-1].advice == "set LLMPRISM_TOKEN"
