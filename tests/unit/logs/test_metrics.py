"""Numbers that training lines print, in the forms of frameworks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from llmprism.logs.library import Library
from llmprism.logs.metrics import Metric
from llmprism.logs.reader import read_job

EMPTY = Library([], [])


def values(folder: Path, *lines: str) -> dict[Metric, list[float]]:
    (folder / "rank0.log").write_text("\n".join(lines) + "\n")
    series = read_job([folder], EMPTY).metrics
    return {metric: series.value[series.metric == metric].tolist() for metric in Metric}


@pytest.mark.parametrize(
    ("line", "metric", "expected"),
    [
        (" iteration 30/60 | elapsed time per iteration (ms): 446.6 | lm loss: 2.5E+00 |", Metric.LOSS, 2.5),
        (" iteration 30/60 | elapsed time per iteration (ms): 446.6 | lm loss: 2.5E+00 |", Metric.STEP_SECONDS, 446.6),
        ("iteration 3 | loss scale: 65536.0 | grad norm: 1.25 |", Metric.LOSS_SCALE, 65536.0),
        ("iteration 3 | loss scale: 65536.0 | grad norm: 1.25 |", Metric.GRAD_NORM, 1.25),
        ("{'loss': '9.088', 'grad_norm': '1.389', 'epoch': '0.0008'}", Metric.LOSS, 9.088),
        ("step: 10  loss:  7.1234  memory: 47.52GiB(50.00%)  tps: 1,234", Metric.LOSS, 7.1234),
        ("INFO:tensorflow:loss = 3.5446548, step = 5800 (145.448 sec)", Metric.LOSS, 3.5446548),
        (" 12%|#  | 120/1000 [00:10<01:00,  3.0it/s, loss=2.25]", Metric.LOSS, 2.25),
        (" 12%|#  | 120/1000 [00:10<01:00,  3.0it/s, loss=2.25]", Metric.STEP_SECONDS, 3.0),
        ("completed step: 7, seconds: 1.0, step_time: 0.75, loss: 10.1", Metric.STEP_SECONDS, 0.75),
        ("step 5 loss -inf", Metric.LOSS, -np.inf),
    ],
)
def test_forms(tmp_path: Path, line: str, metric: Metric, expected: float) -> None:
    assert values(tmp_path, line)[metric] == [pytest.approx(expected)]


@pytest.mark.parametrize(
    "line",
    [
        "eval_loss: 3.2",
        "validation loss at iteration 100 | lm loss value: 2.1",
        "{'train_runtime': 32.1, 'train_samples_per_second': 7.4, 'train_loss': 9.08}",
        "aux_loss: 0.01",
        "the loss of connection 3",
    ],
)
def test_other_losses_do_not_count(tmp_path: Path, line: str) -> None:
    assert values(tmp_path, line)[Metric.LOSS] == []
