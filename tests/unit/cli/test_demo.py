import pytest

from llmprism.cli import demo, main
from support.reports import EXAMPLES, report_from_capture


@pytest.fixture
def diagnosed(monkeypatch):
    def fake(flows, topology, **_):
        del topology
        return report_from_capture(EXAMPLES / flows[0].split("/")[-2])

    monkeypatch.setattr(demo, "diagnose_files", fake)


def test_every_bundled_capture_is_diagnosed_and_gets_a_page(diagnosed, capsys, tmp_path):
    assert main(["demo", "--out", str(tmp_path / "pages")]) == 0
    shown = capsys.readouterr().out
    for name in ("crash", "pp4dp2tp2", "slow_nic"):
        page = tmp_path / "pages" / f"{name}.html"
        assert page.read_bytes().startswith(b"<!doctype html>")
        assert str(page) in shown.replace("\n", "")
    assert "What was done to it: slow_nic at 10.13.0.1" in shown
    assert "What was done to it: nothing, a healthy job" in shown


def test_one_capture_can_be_chosen(diagnosed, capsys, tmp_path):
    assert main(["demo", "crash", "--quiet", "--out", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["crash.html"]
    assert capsys.readouterr().out.startswith("Page ")


def test_an_unknown_capture_is_refused(capsys, tmp_path):
    assert main(["demo", "nonsense", "--out", str(tmp_path)]) == 1
    assert "there are crash, pp4dp2tp2, slow_nic" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_one_clear_error(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main(["demo", "--out", str(tmp_path / "file" / "pages")]) == 1
    assert capsys.readouterr().err.startswith("error[output]: ")
