import json

import pytest

from llmprism.cli import diagnose as command
from llmprism.cli import main
from llmprism.errors import UsageError
from llmprism.model import FindingKind
from support.reports import EXAMPLES, report_from_capture, tiny_report


@pytest.fixture
def diagnosed(monkeypatch):
    """The command with the pipeline replaced by a report; returns what the pipeline was asked for."""
    requested = []

    def use(report):
        def fake(flows, topology, **settings):
            requested.append((flows, topology, settings))
            return report

        monkeypatch.setattr(command, "diagnose_files", fake)
        return requested

    return use


def test_the_report_goes_to_stdout(diagnosed, capsys):
    diagnosed(report_from_capture(EXAMPLES / "slow_nic"))
    assert main(["diagnose", "flows.parquet"]) == 0
    assert capsys.readouterr().out.startswith("1 finding in 1 job\n")


def test_json_on_stdout_stands_alone(diagnosed, capfd):
    diagnosed(tiny_report())
    assert main(["diagnose", "flows.parquet", "--json", "-"]) == 0
    assert json.loads(capfd.readouterr().out)["schema"] == "llmprism.report/1"


def test_quiet_prints_nothing(diagnosed, capfd, tmp_path):
    diagnosed(tiny_report())
    assert main(["diagnose", "flows.parquet", "--quiet", "--json", str(tmp_path / "r.json")]) == 0
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", "")
    assert (tmp_path / "r.json").exists()


def test_arguments_reach_the_pipeline(diagnosed):
    requested = diagnosed(tiny_report())
    arguments = ["a.csv", "b.csv", "-t", "t.json", "--map", "start_ns=ts", "--format", "csv", "--method", "paper"]
    arguments += ["--jobs", "3"]
    assert main(["diagnose", *arguments, "--quiet"]) == 0
    flows, topology, settings = requested[0]
    assert (flows, topology) == (["a.csv", "b.csv"], "t.json")
    assert settings["method"] == "paper"
    assert settings["column_map"] == "start_ns=ts"
    assert settings["file_format"] == "csv"
    assert settings["with_events"] is False
    assert settings["jobs"] == 3


def test_events_are_made_where_a_form_shows_them(diagnosed, tmp_path):
    requested = diagnosed(tiny_report())
    assert main(["diagnose", "flows.parquet", "--quiet", "--html", str(tmp_path / "r.html")]) == 0
    assert requested[0][2]["with_events"] is True


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [([], 0), (["any"], 2), (["slow_gpu"], 2), (["crash"], 0), (["crash,slow_gpu"], 2), (["crash", "slow_gpu"], 2)],
)
def test_fail_on_decides_the_exit_code(diagnosed, fail_on, code):
    diagnosed(tiny_report())
    options = [part for kind in fail_on for part in ("--fail-on", kind)]
    assert main(["diagnose", "flows.parquet", "--quiet", *options]) == code


def test_nothing_wrong_never_fails(diagnosed):
    diagnosed(tiny_report(findings=False))
    assert main(["diagnose", "flows.parquet", "--quiet", "--fail-on", "any"]) == 0


def test_fail_on_refuses_a_kind_it_does_not_know(diagnosed, capsys):
    requested = diagnosed(tiny_report())
    assert main(["diagnose", "flows.parquet", "--fail-on", "slow_cpu"]) == 1
    error = capsys.readouterr().err
    assert "slow_cpu" in error
    assert all(kind.value in error for kind in FindingKind)
    assert not requested, "refused before any work"


def test_a_bad_output_is_refused_before_any_work(diagnosed, capsys):
    requested = diagnosed(tiny_report())
    assert main(["diagnose", "flows.parquet", "--json", "no/such/folder/r.json"]) == 1
    assert capsys.readouterr().err.startswith("error[output]: cannot write no/such/folder/r.json")
    assert not requested


def test_kinds_must_be_known():
    with pytest.raises(UsageError):
        command._kinds([""])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1794751216751787256", 1794751216751787256),
        ("1970-01-01T00:00:01.000002Z", 1_000_002_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02", 86_400_000_000_000),
    ],
)
def test_the_time_watched_until_is_a_number_or_a_date(diagnosed, text, expected):
    requested = diagnosed(tiny_report())
    assert main(["diagnose", "a.csv", "--quiet", "--until", text]) == 0
    assert requested[0][2]["watched_until_ns"] == expected


def test_a_time_that_is_none_is_refused(diagnosed, capsys):
    diagnosed(tiny_report())
    assert main(["diagnose", "a.csv", "--until", "yesterday"]) == 1
    assert "does not know the time 'yesterday'" in capsys.readouterr().err


def test_logs_are_read_with_the_flows(tmp_path):
    crash = EXAMPLES / "crash"
    out = tmp_path / "r.json"
    arguments = [str(crash / "flows.parquet"), "-t", str(crash / "topology.json"), "--until", "1794707819236619749"]
    assert main(["diagnose", *arguments, "--logs", str(crash / "logs.tar.gz"), "--quiet", "--json", str(out)]) == 0
    (finding,) = json.loads(out.read_text())["findings"]
    assert (finding["kind"], finding["where"]["id"], finding["rank"]) == ("crash", "10.10.3.1", 6)
    assert finding["cause"]["class"] == "hardware.node"
    assert finding["source"] == "both"
    (logs,) = json.loads(out.read_text())["logs"]
    assert all(rank["confidence"] > 0.9 for rank in logs["ranks"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--logs", "no/such/folder"], "no such log file"),
        (["--ranks", "x"], "--logs"),
        (["--logs", "examples", "--ranks", "no/such/file"], "no/such/file"),
    ],
)
def test_bad_logs_are_refused_before_any_work(diagnosed, capsys, options, says):
    requested = diagnosed(tiny_report())
    assert main(["diagnose", "flows.parquet", *options]) == 1
    assert says in capsys.readouterr().err
    assert not requested
