"""convert, inspect and topology, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from typer.testing import CliRunner

import packet_frames as build
from llmprism.cli.convert import convert
from llmprism.cli.inspect import inspect
from llmprism.cli.topology import app as topology_app
from llmprism.ingest import read_flows

RUNNER = CliRunner()
T0 = 1_794_706_221_000_000_000


def command(function: object) -> typer.Typer:
    app = typer.Typer()
    app.command()(function)  # type: ignore[type-var]
    return app


def capture(path: Path) -> Path:
    frames = [(T0 + 20_000_000 * n, build.erspan2(build.tcp_frame(5_000 * n, 5_000))) for n in range(500)]
    file = path / "mirror.pcapng"
    file.write_bytes(build.pcapng(frames))
    return file


def test_convert(tmp_path: Path) -> None:
    out = tmp_path / "flows.parquet"
    result = RUNNER.invoke(command(convert), [str(capture(tmp_path)), "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "500 records" in result.output
    assert "500 packets: 500 used" in result.output
    assert read_flows([out]).bytes.sum() == 500 * 5_000
    assert not list(tmp_path.glob("*.partial"))
    assert RUNNER.invoke(command(convert), [str(tmp_path / "mirror.pcapng"), "-o", str(out), "-q"]).output == ""


def test_convert_refuses_in_one_line(tmp_path: Path) -> None:
    for arguments in (["none.pcap", "-o", "x.parquet"], [str(capture(tmp_path)), "-o", "x.csv"]):
        result = RUNNER.invoke(command(convert), arguments)
        assert result.exit_code != 0
        assert "\n" not in str(result.exception)


def test_inspect(tmp_path: Path) -> None:
    file = str(capture(tmp_path))
    text = RUNNER.invoke(command(inspect), [file])
    assert text.exit_code == 0, text.output
    for words in ("500 of 500 used", "jobs", "parallelism", "steps", "faults", "capture loss"):
        assert words in text.output
    document = json.loads(RUNNER.invoke(command(inspect), [file, "--json", "-"]).stdout)
    assert document["schema"] == "llmprism.fitness/1"
    assert document["pairs"] == 1
    assert {answer["question"] for answer in document["answers"]} == {"jobs", "parallelism", "steps", "faults"}


def test_topology_build_and_check(tmp_path: Path) -> None:
    nics, out = tmp_path / "nics.csv", tmp_path / "topology.json"
    nics.write_text("server,address,gpu,switch\ns0,10.0.0.1,0,leaf0\ns1,10.0.0.2,0,leaf0\n", encoding="utf-8")
    built = RUNNER.invoke(topology_app, ["build", "csv", str(nics), "-o", str(out)])
    assert built.exit_code == 0, built.output
    assert "2 servers, 2 NICs, 1 switches" in built.output
    fine = RUNNER.invoke(topology_app, ["check", str(out), str(capture(tmp_path))])
    assert (fine.exit_code, fine.output) == (0, "nothing wrong found\n")
    nics.write_text("server,address\ns0,10.0.0.1\n", encoding="utf-8")
    RUNNER.invoke(topology_app, ["build", "csv", str(nics), "-o", str(out)])
    wrong = RUNNER.invoke(topology_app, ["check", str(out), str(tmp_path / "mirror.pcapng")])
    assert wrong.exit_code == 1
    assert "not in the topology: 10.0.0.2" in wrong.output
