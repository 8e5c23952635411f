from __future__ import annotations

import json

import pytest

from llmprism.errors import FormatError, UsageError
from llmprism.logs.from_report import entry_from_report, pattern_of_line
from llmprism.logs.library import Library, parse_library

LINE = "[rank3]:[E1115 01:02:30.3 fabric.cpp:68] plane 7 of switch sw-12 lost credit on lane 0x3f (code 17)"


def report(**changes: object) -> str:
    event = {"role": "root", "first_line": {"file": "rank3.log", "line": 9, "text": LINE}}
    cause = {"class": "network", "summary": "a plane lost credit; only one rank", "advice": "look at the plane"}
    return json.dumps({"schema": "llmprism.logs/1", "events": [event], "cause": cause, **changes})


def entry(text: str, **changes: str | None) -> str:
    fields: dict[str, str | None] = {"cause": None, "summary": None, "advice": None, "source": None, **changes}
    return entry_from_report(text, entry_id="site.plane", **fields)  # type: ignore[arg-type]


def test_the_entry_matches_its_line_and_others_of_its_kind() -> None:
    library = Library(*parse_library(entry(report()), "test"))
    for line in (LINE, LINE.replace("7", "2").replace("0x3f", "0x1"), LINE.replace("sw-12", "sw-3")):
        assert [fault.id for fault in library.match(line.encode())[0]] == ["site.plane"]
    assert library.faults[0].cause.value == "network"
    assert library.faults[0].summary == "a plane lost credit"
    assert not library.match(b"plane 7 of switch sw-12 is fine")[0]


def test_what_the_user_says_wins() -> None:
    library = Library(*parse_library(entry(report(), cause="hardware.nic", summary="bad lane"), "test"))
    assert (library.faults[0].cause.value, library.faults[0].summary) == ("hardware.nic", "bad lane")


@pytest.mark.parametrize("text", ["{}", "nonsense", '{"schema": "llmprism.report/1"}'])
def test_other_documents_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        entry(text)


def test_an_unknown_cause_must_be_named() -> None:
    with pytest.raises(UsageError):
        entry(report(cause={"class": "unknown"}))


def test_a_line_of_numbers_makes_no_pattern() -> None:
    with pytest.raises(UsageError):
        pattern_of_line("[rank3]: 12 34 56")
