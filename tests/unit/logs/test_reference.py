from __future__ import annotations

from pathlib import Path

import pytest

from llmprism.errors import FormatError, InputError
from llmprism.logs.diagnose import diagnose_log
from llmprism.logs.library import load_library
from llmprism.logs.reader import read_job
from llmprism.logs.reference import find_runs, learn_runs, load_reference, save_reference
from llmprism.model.log import Stage

NOISE = "[rank0]: ValueError: probe of the optional cache failed"


def run(folder: Path, name: str, ending: list[str]) -> Path:
    place = folder / name
    place.mkdir(parents=True)
    steps = [f"iteration {n:4d}/  30 | lm loss: 2.0" for n in range(1, 31)]
    (place / "rank0.log").write_text("\n".join([*steps, *ending]) + "\n")
    (place / "rank1.log").write_text("\n".join(steps) + "\n")
    return place


def test_what_good_runs_print_too_is_no_evidence(tmp_path: Path) -> None:
    library = load_library()
    run(tmp_path / "good", "a", [NOISE, "[after training is done]"])
    run(tmp_path / "good", "bad", ["[rank0]: torch.OutOfMemoryError: CUDA out of memory."])
    job = run(tmp_path, "job", [NOISE])
    reference = learn_runs([tmp_path / "good"], library)
    assert (reference.runs, reference.skipped) == (1, 1)
    log = read_job([job], library)
    assert diagnose_log(log).outcome.value == "failed"
    assert diagnose_log(log, normal=reference).outcome.value == "success"


def test_runs_are_found_in_any_arrangement(tmp_path: Path) -> None:
    run(tmp_path / "family", "a", ["[after training is done]"])
    run(tmp_path / "family", "b", ["[after training is done]"])
    (tmp_path / "family" / "README.md").write_text("about")
    flat = tmp_path / "flat"
    flat.mkdir()
    for name in ("result_1.txt", "result_2.txt"):
        (flat / name).write_text("x\n")
    (flat / "manifest.json").write_text('[{"file": "result_1.txt"}]\n')
    assert [len(found) for found in find_runs(tmp_path / "family")] == [1, 1]
    assert [found[0].name for found in find_runs(flat)] == ["result_1.txt", "result_2.txt"]
    assert find_runs(tmp_path / "family" / "a") == [[tmp_path / "family" / "a"]]
    with pytest.raises(InputError):
        learn_runs([flat], load_library())


def test_good_runs_do_not_excuse_a_second_exception(tmp_path: Path) -> None:
    library = load_library()
    handled = "[rank0]: ModuleNotFoundError: No module named 'fused'"
    good = run(tmp_path / "good", "a", [handled, "[after training is done]"])
    job = run(tmp_path, "job", [handled, handled, handled])
    reference = learn_runs([good], library)
    assert diagnose_log(read_job([job], library), normal=reference).outcome.value == "failed"


def test_the_store_is_the_same_again_and_from_two_runs(tmp_path: Path) -> None:
    library = load_library()
    run(tmp_path / "good", "a", ["[after training is done]"])
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    save_reference(learn_runs([tmp_path / "good"], library), first)
    save_reference(learn_runs([tmp_path / "good"], library), second)
    assert first.read_bytes() == second.read_bytes()
    again = load_reference(first)
    save_reference(again, second)
    assert first.read_bytes() == second.read_bytes()
    assert learn_runs([first], library).known.keys() == again.known.keys()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"schema": "llmprism.logs.reference/1"}',
        '{"schema": "llmprism.logs.reference/1", "runs": 1, "skipped": 0, "shapes": [{}]}',
    ],
)
def test_damaged_stores_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "store.json"
    path.write_text(text)
    with pytest.raises(FormatError):
        load_reference(path)


def test_what_few_good_runs_survived_is_not_normal(tmp_path: Path) -> None:
    library = load_library()
    rare = "[rank1]: RuntimeError: flux sensor out of phase"
    for n in range(10):
        run(tmp_path / "good", f"g{n}", [*([rare] if n == 0 else []), "[after training is done]"])
    job = run(tmp_path, "job", [rare])
    rarely = learn_runs([tmp_path / "good"], library)
    assert diagnose_log(read_job([job], library), normal=rarely).outcome.value == "failed"
    once = learn_runs([tmp_path / "good" / "g0"], library)
    assert diagnose_log(read_job([job], library), normal=once).outcome.value != "failed"


WARNING = "WARNING the heartbeat of the monitor is late, trying again"


@pytest.mark.parametrize(("count", "normal"), [(4, True), (40, False)])
def test_a_line_may_appear_a_few_times_as_often_as_in_good_runs(tmp_path: Path, count: int, normal: bool) -> None:
    library = load_library()
    good = run(tmp_path / "good", "a", [WARNING, WARNING, "[after training is done]"])
    log = read_job([run(tmp_path, "job", [WARNING] * count)], library)
    (shape,) = [one for one in log.shapes if "heartbeat" in one.text]
    assert learn_runs([good], library).is_normal(shape, Stage.TRAIN, count / 2) is normal


@pytest.mark.parametrize(("said", "normal"), [("on that host", True), ("for good now", False)])
def test_a_line_that_differs_in_one_word_is_the_same_line(tmp_path: Path, said: str, normal: bool) -> None:
    library = load_library()
    line = "WARNING the cache of kernels was made anew "
    good = run(tmp_path / "good", "a", [f"{line}on this host", "[after training is done]"])
    log = read_job([run(tmp_path, "job", [line + said])], library)
    (shape,) = [one for one in log.shapes if "the cache" in one.text]
    assert learn_runs([good], library).is_normal(shape, Stage.TRAIN, 0.5) is normal
