"""Constants are found where rules keep them, and a process can load a stage with one of them changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from robust_constants import constants, moved

ROOT = Path(__file__).parents[3]
STAGE = '''
from typing import Final
from dataclasses import dataclass
from llmprism.kernel import kernel

SHARE: Final = 0.25
"""A share."""
_COUNT = 4
NAMES: Final = ("a", "b")
lower = 3.0
IN_KERNEL: Final = 7.0

@dataclass(frozen=True)
class PhaseRules:
    tolerance: float = 0.5
    sure: bool = True

RULES: Final = PhaseRules(tolerance=0.75)

@kernel
def f(x):
    return x * IN_KERNEL
'''


def test_numbers_of_modules_and_rules_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "llmprism" / "stats"
    folder.mkdir(parents=True)
    (folder / "one.py").write_text(STAGE)
    found = {item.name: item for item in constants(tmp_path / "llmprism", ("stats",))}
    assert {name: item.value for name, item in found.items()} == {
        "SHARE": 0.25,
        "_COUNT": 4,
        "IN_KERNEL": 7.0,
        "PhaseRules.tolerance": 0.5,
        "RULES.tolerance": 0.75,
    }
    assert [name for name, item in found.items() if item.compiled] == ["IN_KERNEL"]
    assert found["SHARE"].place == "stats/one.SHARE"
    assert moved(found["SHARE"], 1.2) == 0.3
    assert (moved(found["_COUNT"], 0.8), moved(found["_COUNT"], 1.2)) == (3, 5)


def test_a_process_imports_the_changed_constant(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from robust_constants import constants, install
item = next(c for c in constants(Path(sys.argv[1])) if not c.compiled and c.place.startswith("recognize"))
install(item, 123.5)
module = __import__("llmprism." + item.place.rsplit(".", 1)[0].replace("/", "."), fromlist=["x"])
first, *rest = item.name.split(".")
value = getattr(module, first)
for name in rest:
    value = getattr(value, name)
print(value)
"""
    source = ROOT / "src"
    done = subprocess.run(
        [sys.executable, "-c", script, str(source / "llmprism")],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{source}:{ROOT / 'benchmarks'}", "PATH": "/usr/bin"},
        check=True,
    )
    assert done.stdout.strip() == "123.5"


def test_the_table_of_sources_says_what_a_change_did_to_those_it_did_not_look_at() -> None:
    from robust_sources import Change, table

    before = Change("start", "a", (), {"gloo": {"pairs": 0.5}, "captures": {"pairs": 1.0}})
    after = Change("rings run both ways", "b", ("gloo",), {"gloo": {"pairs": 0.9}, "captures": {"pairs": 0.9}})
    row = table([before, after])[-1]
    assert "0.900* (+0.400)" in row
    assert row.endswith("| +0.400 | -0.100 |")
