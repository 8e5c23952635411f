"""The commands of the service without its extras, and without a service."""

import sys

import pytest

from llmprism.cli import main


@pytest.mark.parametrize("missing", ["fastapi", "sqlalchemy", "uvicorn"])
def test_a_missing_extra_is_one_clear_line(missing, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("llmprism.service")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["serve"]) == 1
    assert "pip install 'llmprism[serve]'" in capsys.readouterr().err


def test_settings_are_checked_and_shown(tmp_path, capsys, monkeypatch):
    file = tmp_path / "llmprism.toml"
    file.write_text("[server]\nport = 9000\n")
    assert main(["config", "check", str(file)]) == 0
    monkeypatch.setenv("LLMPRISM_SERVER__PORT", "9001")
    assert main(["config", "show", str(file)]) == 0
    assert "port = 9001" in capsys.readouterr().out
    file.write_text("[server]\nprot = 9000\n")
    assert main(["config", "check", str(file)]) == 1
    assert "error[config]" in capsys.readouterr().err


def test_the_example_settings_are_valid(capsys):
    from pathlib import Path

    from llmprism.service.config import load_config

    assert load_config(Path(__file__).parents[3] / "deploy" / "llmprism.toml", {}).server.port == 8642


def test_a_token_is_made_and_only_its_hash_is_kept(capsys):
    import hashlib
    import tomllib

    assert main(["config", "token", "tap", "--scope", "ingest"]) == 0
    first, _, rest = capsys.readouterr().out.partition("\n")
    (token,) = tomllib.loads(rest)["token"]
    assert token["sha256"] == hashlib.sha256(first.removeprefix("token: ").encode()).hexdigest()
    assert token["scopes"] == ["ingest"]
    assert main(["config", "token", "tap", "--scope", "all"]) == 1


def test_a_public_address_is_refused_without_protection(tmp_path, capsys):
    assert main(["serve", "--host", "0.0.0.0", "--data", str(tmp_path)]) == 1
    assert "reachable from elsewhere" in capsys.readouterr().err


def test_replay_drops_files_that_are_complete(tmp_path, capsys):
    from support.reports import EXAMPLES

    assert main(["replay", str(EXAMPLES / "crash/flows.parquet"), "--to", str(tmp_path), "--speed", "0"]) == 0
    files = sorted(tmp_path.iterdir())
    assert len(files) > 10
    assert all(file.suffix == ".parquet" for file in files)
    from llmprism.ingest import read_flows

    assert read_flows(files).counts.records == 25_090
    assert main(["replay", "none.parquet", "--to", str(tmp_path)]) == 1
    assert main(["replay", str(EXAMPLES / "crash/flows.parquet"), "--to", str(tmp_path / "none")]) == 1


def test_the_demo_cluster_is_simulated_with_faults(tmp_path):
    import gzip
    import json

    from llmprism.cli.demo_cluster import LEAD_S, make_cluster
    from llmprism.ingest import read_flows, read_topology

    make_cluster(tmp_path)
    flows = read_flows([tmp_path / "flows.parquet"])
    known = read_topology(tmp_path / "topology.json").server_of()
    assert sum(address in known for address in flows.addresses) == 72
    truth = json.loads(gzip.decompress((tmp_path / "truth.json.gz").read_bytes()))
    assert len(truth["jobs"]) == 4
    assert {fault["kind"] for fault in truth["faults"]} == {"slow_nic", "slow_storage", "hang", "crash"}
    begins = [(fault["start_ns"] - flows.window.start_ns) / 1e9 for fault in truth["faults"]]
    assert all(LEAD_S < begin < LEAD_S + 30 for begin in begins), "within half a minute of its start"
