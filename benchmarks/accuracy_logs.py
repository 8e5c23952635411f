"""Accuracy of the log diagnosis: this tool's method and the published L4 rules. `make bench-accuracy`.

    python benchmarks/accuracy_logs.py [--seeds N] [--out FILE]

Planted faults (`logs_planted.py`), real runs with a guilty rank (`logs_real.py`) and signatures of public failure
reports (`logs_signatures.py`), as one page.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from llmprism.logs.library import load_library
from logs_planted import Score, cases, run
from logs_real import DATA, compared_runs, table_of_runs
from logs_signatures import judge, signatures, table_of_classes

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("outcome", "class", "top-1", "top-3", "stage", "iteration", "nobody blamed")


HEAD = """# Accuracy of the log diagnosis

Written by `make bench-accuracy` at commit `{commit}`. `prism` is this tool's method, `l4` the published rules of L4
(`llmprism logs diagnose --method l4`).

## Planted faults

{jobs} simulated jobs of four frameworks and three layouts of files, one fault each, with one healthy run as reference.
Precision, recall and F1 are of the lines that show the failure; the rest is the guilty rank on the first place or among
three, the stage, the iteration within 1, and nobody blamed where nobody is to blame. `l4` says neither outcome nor
class.
"""

SIGNATURES_HEAD = """
## Signatures of public failure reports

A few lines each, with the cause that maintainers or operators established. Right: a diagnosis of these lines alone
names the class, blames nobody for a consequence and calls no harmless line a failure. Open: it says `unknown`. The
library was written with these signatures in view.
"""


def row(name: str, score: Score) -> str:
    precision = score.right_lines / max(score.found_lines, 1)
    recall = score.right_lines / max(score.true_lines, 1)
    cells = ["{}/{}".format(*score.counts[what]) if what in score.counts else "-" for what in COLUMNS]
    return f"| {name} | {precision:.3f} | {recall:.3f} | {score.f1:.3f} | " + " | ".join(cells) + " |"


def page(seeds: int) -> list[str]:
    library = load_library()
    scenarios = cases(seeds)
    ours, l4 = run(scenarios, library, verbose=False)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = [
        HEAD.format(commit=commit, jobs=len(scenarios)),
        "| method | precision | recall | F1 | " + " | ".join(COLUMNS) + " |",
        "| --- | --- | --- | --- | " + " | ".join("---" for _ in COLUMNS) + " |",
        row("l4", l4),
        row("prism", ours),
    ]
    if DATA.is_dir():
        lines += ["", "## Real runs with a guilty rank", "", *table_of_runs(compared_runs(library))]
        judged = [judge(signature, library) for signature in signatures()]
        lines += [SIGNATURES_HEAD, *table_of_classes(judged)]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6, help="cases per planted fault")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = "\n".join(page(options.seeds)) + "\n"
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
