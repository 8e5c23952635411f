#!/usr/bin/env python3
"""Are the figures in the documentation those of the program that it is shipped with? `make figures`

A page with figures says of which commit they are: "commit `9ebcfaf`". The check fails where a page does not, and where
the accuracy was measured before the last change to what it measures. The other pages may be older: they say of what.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

MUST_BE_FRESH = ("docs/accuracy.md", "docs/accuracy-dataset.md", "docs/accuracy-logs.md")
PAGES = (
    "README.md",
    *MUST_BE_FRESH,
    "docs/performance.md",
    "docs/robustness.md",
    *(
        f"docs/explanation/{name}.md"
        for name in ("diagnosis", "live-at-100000-gpus", "logs", "paper-baseline", "verdict")
    ),
    *(f"docs/decisions/{name}.md" for name in ("live-service", "verdict")),
)

STAGES = ("ingest", "recognize", "parallelism", "timeline", "diagnose", "stats", "model", "pipeline")
INFERENCE = tuple(f"src/llmprism/{part}" for part in (*STAGES, "sim", "score"))
"""What the figures of the accuracy depend on: the stages, and the simulator and the score that measure them."""

LOGS = ("src/llmprism/logs",)
"""What the figures of the log diagnosis depend on."""

_COMMIT = re.compile(r"commit `([0-9a-f]{7,40})`")


@dataclass(frozen=True, slots=True)
class Age:
    """`commit` is what a page says its figures are of (None: it does not say); `newer` are changes since."""

    page: str
    commit: str | None
    newer: tuple[str, ...]

    @property
    def trouble(self) -> str:
        """What is wrong, or nothing."""
        if self.commit is None:
            return f"{self.page} does not say of which commit its figures are"
        if self.newer and self.page in MUST_BE_FRESH:
            since = f"older than {len(self.newer)} changes of the inference: {self.newer[0]}"
            return f"{self.page} is of {self.commit}, {since}"
        return ""


def age_of(page: str, root: Path) -> Age:
    found = _COMMIT.search((root / page).read_text(encoding="utf-8"))
    if found is None:
        return Age(page, None, ())
    measured = LOGS if page == "docs/accuracy-logs.md" else INFERENCE
    listed = _git(root, "log", "--format=%h %s", f"{found[1]}..HEAD", "--", *measured)
    return Age(page, found[1], tuple(listed.splitlines()))


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout


def main() -> int:
    ages = [age_of(page, ROOT) for page in PAGES]
    for age in ages:
        print(age.trouble or f"{age.page}: commit {age.commit}, {len(age.newer)} changes of the inference since")
    return 1 if any(age.trouble for age in ages) else 0


if __name__ == "__main__":
    sys.exit(main())
