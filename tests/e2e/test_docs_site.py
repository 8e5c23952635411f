"""The documentation: the site is built without a warning, and the tutorial's commands still say what it shows."""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from pathlib import Path

from support.scripts import load_script

ROOT = Path(__file__).parents[2]

ALIKE = 0.9
"""Share of the lines that must be the same but for numbers: a detector may word its evidence anew, no more."""


def words(text: str) -> list[str]:
    """Lines without their numbers, bars and frames, which may move when the analysis gets better."""
    bare = re.sub(r"[\d.,]*\d|[▁-█]+|job-[0-9a-f]+", "#", re.sub(r"[─-╿]+", " ", text))
    return [" ".join(line.split()) for line in bare.splitlines()]


def test_the_commands_of_the_tutorial_say_what_it_shows(tmp_path):
    script = load_script("tutorial")
    page = script.PAGE.read_text()
    made = script.rendered(page, script.run_in(tmp_path))
    for found in ("Slow NIC: 10.13.0.1 (server00 GPU 3, leaf03)", "Crash: GPU 10.10.3.1", "faults exact", "yes"):
        assert found in made
        assert found in page
    alike = difflib.SequenceMatcher(None, words(made), words(page), autojunk=False).ratio()
    assert alike > ALIKE, "the page no longer shows what the commands print: run python scripts/tutorial.py"


def test_the_site_is_built_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in ("index.html", "tutorial.html", "reference/cli.html", "decisions/engines.html"):
        assert (tmp_path / "site" / page).stat().st_size > 2_000
