from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llmprism.cli.logs import app
from llmprism.errors import LLMPrismError

RUN = CliRunner()


def write_job(folder: Path, *, fails: bool) -> Path:
    folder.mkdir(parents=True)
    for rank in range(4):
        lines = [f"iteration {n:4d}/  30 | lm loss: 2.0" for n in range(1, 21 if fails else 31)]
        if fails:
            broken = "NCCL WARN socketProgress: Connection closed by remote peer"
            lines.append("[rank2]: torch.OutOfMemoryError: CUDA out of memory." if rank == 2 else broken)
        (folder / f"rank{rank}.log").write_text("\n".join(lines) + "\n")
    return folder


def test_diagnose_writes_all_reports_and_the_exit_code(tmp_path: Path) -> None:
    job, good = write_job(tmp_path / "job", fails=True), write_job(tmp_path / "good" / "a", fails=False)
    out, page, store = tmp_path / "o.json", tmp_path / "o.html", tmp_path / "store.json"
    learnt = RUN.invoke(app, ["learn", str(good.parent), "-o", str(store)])
    assert learnt.exit_code == 0, learnt.output
    found = RUN.invoke(
        app,
        [
            "diagnose",
            str(job),
            "--reference",
            str(store),
            "--json",
            str(out),
            "--html",
            str(page),
            "--fail-on",
            "failed",
        ],
    )
    assert found.exit_code == 2, found.output
    document = json.loads(out.read_text())
    assert (document["outcome"], document["suspects"][0]["rank"], document["iteration"]) == ("failed", 2, 21)
    assert "<!doctype html>" in page.read_text()
    assert "ROOT [gpu.oom]  rank2.log:21" in found.output


def test_a_healthy_run_is_quiet(tmp_path: Path) -> None:
    found = RUN.invoke(app, ["diagnose", str(write_job(tmp_path / "job", fails=False)), "--fail-on", "any"])
    assert found.exit_code == 0
    assert found.output.startswith("success")


def test_library_commands(tmp_path: Path) -> None:
    assert "entries" in RUN.invoke(app, ["library", "list", "xid"]).output
    assert "examples match" in RUN.invoke(app, ["library", "test"]).output
    assert (
        "gpu.xid79"
        in RUN.invoke(app, ["library", "test", "NVRM: Xid (PCI:0000:2b:00): 79, GPU has fallen off the bus."]).output
    )
    own = tmp_path / "site.toml"
    added = RUN.invoke(
        app, ["library", "add", str(own), "--id", "site.flap", "--pattern", "port .* flapped", "--class", "network"]
    )
    assert added.exit_code == 0, added.output
    assert "site.flap" in RUN.invoke(app, ["library", "test", "port 3 has flapped", "--library", str(own)]).output


def test_the_baseline_ranks_the_guilty_rank(tmp_path: Path) -> None:
    job, good = write_job(tmp_path / "job", fails=True), write_job(tmp_path / "good", fails=False)
    out = tmp_path / "o.json"
    found = RUN.invoke(app, ["diagnose", str(job), "--reference", str(good), "--method", "l4", "--json", str(out)])
    assert found.exit_code == 0, found.output
    assert json.loads(out.read_text())["suspects"][0]["rank"] == 2


def test_a_confirmed_diagnosis_becomes_an_entry(tmp_path: Path) -> None:
    job, out, own = write_job(tmp_path / "job", fails=True), tmp_path / "o.json", tmp_path / "site.toml"
    RUN.invoke(app, ["diagnose", str(job), "--json", str(out)])
    command = ["library", "add", str(own), "--id", "site.oom", "--from", str(out)]
    shown = RUN.invoke(app, command, input="n\n")
    assert "torch" in shown.output
    assert not own.exists()
    assert RUN.invoke(app, command, input="y\n").exit_code == 0
    checked = RUN.invoke(app, ["library", "test", "--library", str(own)])
    assert checked.exit_code == 0
    line = "torch.OutOfMemoryError: CUDA out of memory."
    assert "site.oom" in RUN.invoke(app, ["library", "test", line, "--library", str(own)]).output


def test_watch_ends_with_the_job(tmp_path: Path) -> None:
    found = RUN.invoke(app, ["watch", str(write_job(tmp_path / "job", fails=True)), "--every", "0.1"])
    assert found.exit_code == 2
    assert found.output.startswith("failed")
    running = tmp_path / "running"
    running.mkdir()
    (running / "rank0.log").write_text("".join(f"step {n} loss 2.0\n" for n in range(1, 40)))
    assert RUN.invoke(app, ["watch", str(running), "--every", "0.1", "--looks", "2"]).exit_code == 0


def test_what_the_user_expects(tmp_path: Path) -> None:
    job = tmp_path / "rank0.log"
    job.write_text("".join(f"step {n} loss 2.0\n" for n in range(1, 40)))
    assert RUN.invoke(app, ["diagnose", str(job)]).output.startswith("running in")
    assert RUN.invoke(app, ["diagnose", str(job), "--expect", "hung"]).output.startswith("running (hang)")


@pytest.mark.parametrize(
    "arguments",
    [
        ["diagnose", "absent"],
        ["diagnose", ".", "--expect", "nothing"],
        ["diagnose", ".", "--method", "magic"],
        ["library", "add", "x.toml", "--id", "x"],
        ["library", "add", "x.toml", "--id", "x", "--from", "absent.json"],
        ["diagnose", ".", "--fail-on", "sometimes"],
        ["learn", "absent", "-o", "x.json"],
        ["library", "test", "x", "--library", "absent.toml"],
    ],
)
def test_mistakes_are_our_errors(arguments: list[str]) -> None:
    assert isinstance(RUN.invoke(app, arguments).exception, LLMPrismError)
