import io
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from llmprism.model import SwitchLoad, Where, WhereType
from llmprism.report.terminal import NOTHING_WRONG, print_report
from support.gold import assert_gold
from support.reports import EXAMPLES, HOSTILE, empty_report, report_from_capture, tiny_report


def rendered(report, width=100, **settings_of_console):
    out = io.StringIO()
    print_report(report, Console(file=out, width=width, **settings_of_console))
    return out.getvalue()


def test_gold():
    assert_gold("slow_nic.txt", rendered(report_from_capture(EXAMPLES / "slow_nic")))


def test_findings_come_before_jobs():
    text = rendered(report_from_capture(EXAMPLES / "slow_nic"))
    assert text.index("Slow NIC") < text.index("Job slow_nic-0") < text.index("Input")


def test_a_quiet_report_says_so():
    text = rendered(report_from_capture(EXAMPLES / "pp4dp2tp2"))
    assert text.startswith(NOTHING_WRONG)
    assert "tp 2 x pp 4 x dp 2" in text


def test_no_job_is_not_called_healthy():
    text = rendered(empty_report())
    assert NOTHING_WRONG not in text
    assert "No training job recognised" in text
    assert "3 end before start" in text


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(width):
    for report in (report_from_capture(EXAMPLES / "slow_nic"), tiny_report(HOSTILE)):
        assert max(len(line) for line in rendered(report, width).splitlines()) <= width


def test_names_are_text_and_not_markup_or_control():
    text = rendered(tiny_report(HOSTILE), width=400)
    assert "[bold red]" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    coloured = rendered(tiny_report(HOSTILE), width=400, force_terminal=True, color_system="standard")
    assert "\x1b[2J" not in coloured


@settings(max_examples=30)
@given(st.text())
def test_any_name_can_be_shown(name):
    rendered(tiny_report(name))


def test_an_ascii_terminal_gets_ascii_only():
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_report(tiny_report(), Console(file=out, width=80))
    out.flush()


def test_notes_and_dropped_reasons_are_shown():
    text = rendered(tiny_report("odd_reason"))
    assert "2 odd reason" in text
    assert "Note note on odd_reason" in text
    assert "note      tp: odd_reason" in text


def test_many_jobs_are_listed_and_those_with_findings_described_in_full():
    report = report_from_capture(EXAMPLES / "slow_nic")
    first = report.jobs[0]
    others = tuple(replace(first, job=replace(first.job, id=f"other-{number}")) for number in range(20))
    text = rendered(replace(report, jobs=(first, *others)))
    assert text.count("\nJob ") == 1
    assert "Job slow_nic-0  running" in text
    lines = [line for line in text.splitlines() if line.startswith("   other-")]
    assert len(lines) == 20
    assert "tp 1 x pp 2 x dp 4" in lines[0]


def test_of_many_switches_the_named_and_the_slowest_are_shown():
    report = report_from_capture(EXAMPLES / "slow_nic")
    loads = tuple(SwitchLoad(f"sw{n:02d}", "leaf", 1, 1, 50.0 + n, ()) for n in range(40))
    finding = replace(report.findings[0], where=Where(WhereType.SWITCH, "sw39"))
    text = rendered(replace(report, switches=loads, findings=(finding,)))
    assert "the 12 slowest of 40" in text
    shown = [line.split()[0] for line in text.splitlines() if line.startswith("   sw")]
    assert shown == ["switch", "sw39", *(f"sw{n:02d}" for n in range(11))]
