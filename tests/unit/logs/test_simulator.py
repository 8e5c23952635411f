"""The planted faults of the simulator, joined with the diagnosis: the issue's thresholds on a small set."""

from __future__ import annotations

import itertools
from pathlib import Path

from llmprism.logs.diagnose import diagnose_log
from llmprism.logs.library import load_library
from llmprism.logs.reader import read_job
from logs_faults import FAULTS
from logs_simulator import LogScenario, simulate_logs, write_logs


def test_planted_faults_are_found(tmp_path: Path) -> None:
    library = load_library()
    turn = itertools.cycle(
        itertools.product(("megatron", "deepspeed", "torchtitan", "trainer"), ("rank", "node", "srun"))
    )
    named = stages = iterations = blamed = counted = 0
    for number, fault in enumerate(FAULTS):
        framework, layout = next(turn)
        simulated = simulate_logs(LogScenario(framework, layout, 2, 4, 40, fault, number))
        write_logs(simulated, tmp_path / str(number))
        found = diagnose_log(read_job([tmp_path / str(number)], library))
        truth = simulated.truth
        stages += found.stage.value == truth.stage
        if truth.rank is None:
            assert found.suspects == (), fault.name
        else:
            blamed += 1
            named += bool(found.suspects) and found.suspects[0].rank == truth.rank
        if truth.iteration is not None:
            counted += 1
            iterations += found.iteration is not None and abs(found.iteration - truth.iteration) <= 1
    assert named >= 0.85 * blamed
    assert stages >= 0.95 * len(FAULTS)
    assert iterations >= 0.9 * counted


def test_the_same_seed_gives_the_same_logs() -> None:
    one, other = (simulate_logs(LogScenario(fault=FAULTS[0], seed=5)) for _ in range(2))
    assert one == other
    assert one.truth.fault_lines
    for name, line in one.truth.fault_lines:
        assert one.files[name][line - 1]
