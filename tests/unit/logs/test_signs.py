# ruff: noqa: E501 (log lines as they are)
"""What the numbers show: hang, slow, NaN; and what they must not shout at."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from llmprism.logs.diagnose import Expected, diagnose_paths
from llmprism.logs.library import load_library
from llmprism.model.log import LogDiagnosis

LIBRARY = load_library()


def megatron(step: int, seconds: float = 0.5, loss: str = "2.1E+00", scale: str = "1.0") -> str:
    clock = f"2026-11-15 01:{step // 60 % 60:02d}:{step % 60:02d}"
    return (
        f" [{clock}] iteration {step:8d}/ 1000000 | consumed samples: {step * 512:12d} | elapsed time per iteration (ms): {seconds * 1000:.1f} | "
        f"learning rate: 1.0E-04 | global batch size: 512 | lm loss: {loss} | loss scale: {scale} | grad norm: 1.2 | number of nan iterations: 0 |"
    )  # fmt: skip


def run(folder: Path, files: dict[str, list[str]], expected: Expected | None = None) -> LogDiagnosis:
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    return diagnose_paths([folder], library=LIBRARY, expected=expected)


def verdict(found: LogDiagnosis) -> tuple[str, str, str]:
    return found.outcome.value, found.symptom.value, found.cause.signature or found.cause.cause_class.value


def test_a_loss_that_stays_nan_is_seen(tmp_path: Path) -> None:
    lines = [megatron(n, loss="nan" if n > 45 else "2.1E+00") for n in range(1, 61)]
    found = run(tmp_path, {f"rank{r}.log": lines for r in range(2)})
    assert verdict(found) == ("running", "unknown", "sign.nan")
    assert found.iteration == 46
    assert 0.5 < found.cause.confidence < 1


def test_a_run_that_ends_well_with_nan_did_not(tmp_path: Path) -> None:
    lines = [megatron(n, loss="nan" if n > 45 else "2.1E+00") for n in range(1, 61)]
    found = run(tmp_path, {"rank0.log": [*lines, "[after training is done] datetime: 2026-11-15 12:00:00"]})
    assert verdict(found) == ("success", "unknown", "sign.nan")


def test_a_single_nan_that_was_skipped_is_none(tmp_path: Path) -> None:
    lines = [megatron(n, loss="nan" if n == 30 else "2.1E+00") for n in range(1, 61)]
    assert verdict(run(tmp_path, {"rank0.log": lines})) == ("running", "none", "none")


@pytest.mark.parametrize(("values", "seen"), [(5, False), (15, True)])
def test_a_long_run_of_nan_that_passed_is_worth_a_sign(tmp_path: Path, values: int, seen: bool) -> None:
    lines = [megatron(n, loss="nan" if 20 < n <= 20 + values else "2.1E+00") for n in range(1, 61)]
    found = run(tmp_path, {"rank0.log": lines})
    assert verdict(found) == ("running", "none", "none")
    assert [sign.lasts for sign in found.signs] == [False] * seen


def test_nan_of_one_rank_names_it(tmp_path: Path) -> None:
    files = {f"rank{r}.log": [megatron(n, loss="nan" if r == 2 and n > 45 else "2.1E+00") for n in range(1, 61)] for r in range(4)}  # fmt: skip
    found = run(tmp_path, files)
    assert [suspect.rank for suspect in found.suspects] == [2]
    assert 0.5 < found.suspects[0].score < 1


def test_a_hardware_line_where_a_slowdown_began_is_less_sure_than_the_slowdown(tmp_path: Path) -> None:
    lines = [megatron(n, 5.0 if n > 40 else 0.5) for n in range(1, 61)]
    lines.insert(
        40, "[2026-11-15 01:00:40] NVRM: Xid (PCI:0000:9c:00): 63, pid=7, Row Remapper: New row marked for remapping"
    )
    found = run(tmp_path, {"rank0.log": lines})
    assert verdict(found)[1:] == ("slow", "gpu.xid63")
    assert 0.5 < found.cause.confidence < found.signs[0].confidence


@pytest.mark.parametrize("loss", ["'loss': 'nan'", "'loss': nan", "loss=nan", "loss: inf", "train_loss nan"])
def test_forms_of_nan(tmp_path: Path, loss: str) -> None:
    good = loss.replace("nan", "2.5").replace("inf", "2.5")
    lines = [f"step {n} {good if n < 20 else loss}" for n in range(1, 40)]
    assert verdict(run(tmp_path, {"rank0.log": lines}))[2] == "sign.nan"


def test_a_tenfold_slowdown_is_slow(tmp_path: Path) -> None:
    noise = random.Random(1)
    lines = [megatron(n, (5.0 if n > 40 else 0.5) * noise.uniform(0.95, 1.05)) for n in range(1, 61)]
    found = run(tmp_path, {"rank0.log": lines})
    assert verdict(found) == ("running", "slow", "sign.slow")
    assert found.iteration == 41
    assert found.signs[0].value == pytest.approx(5.0, rel=0.1)


def test_slow_from_the_times_of_lines(tmp_path: Path) -> None:
    clock, lines = 0, []
    for n in range(1, 61):
        clock += 60 if n > 40 else 6
        lines.append(f"2026-11-15T{clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d} step {n} loss 2.5")
    assert verdict(run(tmp_path, {"rank0.log": lines}))[1] == "slow"


@pytest.mark.parametrize(
    "pace",
    [
        lambda n: 0.36 if n % 2 else 0.215,  # healthy runs that alternate
        lambda n: 5.0 if n % 20 == 0 else 0.5,  # a checkpoint every 20 iterations
        lambda n: 8.0 if n < 3 else 0.5,  # the first iterations
        lambda n: 0.5 if n < 30 else 0.6,
    ],
)
def test_healthy_paces_are_quiet(tmp_path: Path, pace: object) -> None:
    lines = [megatron(n, pace(n)) for n in range(1, 61)]  # type: ignore[operator]
    assert verdict(run(tmp_path, {"rank0.log": lines})) == ("running", "none", "none")


def test_a_slowdown_that_passed_is_a_note(tmp_path: Path) -> None:
    lines = [megatron(n, 3.0 if 20 < n <= 35 else 0.5) for n in range(1, 61)]
    found = run(tmp_path, {"rank0.log": lines})
    assert verdict(found) == ("running", "none", "none")
    assert any("back to normal" in note for note in found.notes)


def test_a_rank_that_stopped_counting_hangs(tmp_path: Path) -> None:
    files = {f"rank{r}.log": [megatron(n) for n in range(1, 36 if r == 5 else 41)] for r in range(8)}
    found = run(tmp_path, files)
    assert verdict(found) == ("running", "hang", "sign.hang")
    assert (found.suspects[0].rank, found.iteration) == (5, 36)
    assert 0.5 < found.cause.confidence < 1


def test_ranks_interleaved_in_one_file_count_each_for_itself(tmp_path: Path) -> None:
    lines = [f"{r}: {megatron(n)}" for n in range(1, 41) for r in range(8) if not (r == 5 and n > 35)]
    assert [suspect.rank for suspect in run(tmp_path, {"job.log": lines}).suspects] == [5]


def test_half_the_ranks_behind_is_a_log_copied_in_mid_step(tmp_path: Path) -> None:
    files = {f"rank{r}.log": [megatron(n) for n in range(1, 40 if r % 2 else 41)] for r in range(8)}
    assert verdict(run(tmp_path, files)) == ("running", "none", "none")


def test_logs_that_go_on_without_iterations_show_a_hang(tmp_path: Path) -> None:
    beats = [f"2026-11-15 0{2 + n // 60}:{n % 60:02d}:00 monitor: gpu util 0" for n in range(100)]
    assert verdict(run(tmp_path, {"rank0.log": [megatron(n) for n in range(1, 60)] + beats}))[1] == "hang"


def test_a_loss_scale_at_its_floor(tmp_path: Path) -> None:
    scales = [65536.0 / 2 ** max(0, n - 20) for n in range(60)]
    lines = [megatron(n + 1, scale=f"{max(scale, 1.0):.1f}") for n, scale in enumerate(scales)]
    found = run(tmp_path, {"rank0.log": lines})
    assert (verdict(found)[2], 0.5 < found.cause.confidence < 1) == ("sign.loss_scale", True)


def test_a_loss_that_left_its_range(tmp_path: Path) -> None:
    lines = [megatron(n, loss=f"{(9.0 / n**0.3) if n < 50 else 40.0:.3f}") for n in range(1, 61)]
    found = run(tmp_path, {"rank0.log": lines})
    assert (verdict(found)[2], 0.3 < found.cause.confidence < 0.7) == ("sign.diverged", True)


def test_coloured_torchtitan_counts(tmp_path: Path) -> None:
    form = "[rank{r}]:[titan] 2026-11-15 01:{m:02d}:{s:02d},120 - root - INFO - \x1b[31mstep: {n:2d}  \x1b[32mloss: {loss:7.4f}  \x1b[38;2;180;60;0mgrad_norm:  1.2  \x1b[34mmemory: 47.52GiB(50.00%)\x1b[39m"
    survived = [
        "[rank0]:Traceback (most recent call last):",
        '[rank0]:  File "a.py", line 1, in <module>',
        "[rank0]:ImportError: no fused kernels",
    ]
    lines = [
        *survived,
        *(form.format(r=r, n=n, m=n // 60, s=n % 60, loss=9.0 - n / 10) for n in range(1, 41) for r in range(2)),
    ]
    found = run(tmp_path, {"job.log": lines})
    assert (verdict(found), found.iteration) == (("running", "none", "none"), 40)


def test_what_the_user_says_lowers_the_bar(tmp_path: Path) -> None:
    lines = {f"rank{r}.log": [megatron(n) for n in range(1, 41)] for r in range(4)}
    assert verdict(run(tmp_path, lines))[1] == "none"
    assert verdict(run(tmp_path, lines, Expected.HUNG))[1:] == ("hang", "unknown")
    mild = {"rank0.log": [megatron(n, 0.65 if n > 40 else 0.5) for n in range(1, 61)]}
    (tmp_path / "mild").mkdir()
    assert verdict(run(tmp_path / "mild", mild, Expected.SLOW))[1:] == ("slow", "sign.slow")


@pytest.mark.parametrize("expected", list(Expected))
def test_advice_speaks_of_ranks_that_differ_only_where_some_do(tmp_path: Path, expected: Expected) -> None:
    alike = {f"rank{r}.log": [megatron(n) for n in range(1, 41)] for r in range(4)}
    found = run(tmp_path, alike, expected)
    assert found.ranking == ()
    assert found.cause.advice
    assert "differ" not in found.cause.advice
    (tmp_path / "late").mkdir()
    longer = {**alike, "rank3.log": [*alike["rank3.log"], "[2026-11-15 01:00:55] saving a picture of the loss"]}
    found = run(tmp_path / "late", longer, expected)
    assert found.ranking
    assert "differ" in found.cause.advice


@pytest.mark.parametrize(("seconds_late", "sure"), [(0, True), (1, False)])
def test_one_line_behind_is_a_hang_where_ranks_print_together(tmp_path: Path, seconds_late: int, sure: bool) -> None:
    """A rank that always prints a step later than the others is one line behind in any copy of a healthy log."""

    def line(step: int, late: int) -> str:
        return f"[2026-11-15 01:{(step + late) // 60:02d}:{(step + late) % 60:02d}] iteration {step}/2000 | elapsed (ms): 1000 |"

    files = {f"rank{rank}.log": [line(n, 0) for n in range(1, 41)] for rank in range(7)}
    files["rank7.log"] = [line(n, seconds_late) for n in range(1, 40)]
    found = run(tmp_path, files)
    assert (found.cause.confidence >= 0.6) is sure
