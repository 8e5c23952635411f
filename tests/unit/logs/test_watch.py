from __future__ import annotations

from pathlib import Path

from llmprism.logs.library import load_library
from llmprism.logs.watch import watch_job

LIBRARY = load_library()


class Time:
    """A clock that stands still but for sleeping; what happens while it sleeps is scripted."""

    def __init__(self, *happenings: object) -> None:
        self.now = 0.0
        self.happenings = list(happenings)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.happenings:
            self.happenings.pop(0)()  # type: ignore[operator]


def steps(low: int, high: int) -> str:
    return "".join(f"[rank{r}]: step {n} loss 2.0\n" for n in range(low, high) for r in range(4))


def test_a_failure_ends_the_watch(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(steps(1, 30))

    def grow(text: str) -> object:
        return lambda: path.write_text(path.read_text() + text)

    time = Time(grow(steps(30, 40)), grow("[rank2]: torch.OutOfMemoryError: CUDA out of memory.\n"))
    looks = list(watch_job([tmp_path], LIBRARY, every_s=10, clock=time.clock, sleep=time.sleep))
    assert [look.diagnosis.outcome.value for look in looks] == ["running", "running", "failed"]
    assert [look.changed for look in looks] == [True, False, True]
    assert looks[-1].diagnosis.suspects[0].rank == 2


def test_logs_that_stop_growing_are_a_hang(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(steps(1, 30))
    time = Time()
    begin = time.clock()
    for look in watch_job([tmp_path], LIBRARY, every_s=60, clock=time.clock, sleep=time.sleep):
        silent_s = time.clock() - begin
        assert (look.diagnosis.symptom.value == "hang") == (silent_s >= 120)
        if silent_s >= 120:
            assert 0.5 < look.diagnosis.signs[0].confidence < 1
            break


def test_the_watch_waits_for_the_first_line(tmp_path: Path) -> None:
    time = Time(lambda: None, lambda: (tmp_path / "job.log").write_text(steps(1, 30) + "Training completed.\n"))
    looks = list(watch_job([tmp_path], LIBRARY, every_s=10, clock=time.clock, sleep=time.sleep))
    assert [look.diagnosis.outcome.value for look in looks] == ["success"]
