"""Pages with figures say of which commit they are; the accuracy must not be older than the inference."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.scripts import load_script

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def script():
    return load_script("figures")


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit to the inference; `commit(path)` adds another and returns its name."""

    def git(*arguments):
        identity = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
        command = ["git", *identity, *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    def commit(path):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(file.read_text() + "more\n" if file.exists() else "first\n")
        git("add", "-A")
        git("commit", "-q", "-m", f"changes {path}")
        return git("rev-parse", "--short", "HEAD")

    git("init", "-q")
    (tmp_path / "docs").mkdir()
    return tmp_path, commit


def test_figures_measured_after_the_last_change_are_fresh(script, repository):
    root, commit = repository
    measured = commit("src/llmprism/recognize/cluster_clock.py")
    (root / "docs" / "accuracy.md").write_text(f"Written at commit `{measured}`.")
    commit("src/llmprism/report/text.py")
    assert not script.age_of("docs/accuracy.md", root).trouble


def test_figures_older_than_the_inference_are_refused(script, repository):
    root, commit = repository
    measured = commit("src/llmprism/recognize/cluster_clock.py")
    (root / "docs" / "accuracy.md").write_text(f"Written at commit `{measured}`.")
    (root / "docs" / "performance.md").write_text(f"Figures of commit `{measured}`.")
    commit("src/llmprism/stats/stretches.py")
    assert "older than 1 changes" in script.age_of("docs/accuracy.md", root).trouble
    other = script.age_of("docs/performance.md", root)
    assert len(other.newer) == 1
    assert not other.trouble


def test_figures_of_the_log_diagnosis_age_with_the_logs_only(script, repository):
    root, commit = repository
    measured = commit("src/llmprism/logs/signs.py")
    (root / "docs" / "accuracy-logs.md").write_text(f"Written at commit `{measured}`.")
    commit("src/llmprism/stats/stretches.py")
    assert not script.age_of("docs/accuracy-logs.md", root).trouble
    commit("src/llmprism/logs/library/gpu.toml")
    assert "older than 1 changes" in script.age_of("docs/accuracy-logs.md", root).trouble


def test_a_page_that_does_not_say_of_which_commit_it_is_is_refused(script, repository):
    root, _ = repository
    (root / "docs" / "performance.md").write_text("It takes 5 s.")
    assert "does not say" in script.age_of("docs/performance.md", root).trouble


def test_our_pages_say_of_which_commit_their_figures_are(script):
    for page in script.PAGES:
        assert script._COMMIT.search((ROOT / page).read_text()), page
