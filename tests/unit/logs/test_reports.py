from __future__ import annotations

import json

from llmprism.logs.report_html import render_html
from llmprism.logs.report_json import render_json
from llmprism.logs.report_terminal import harmless, render_terminal
from llmprism.model.log import (
    Cause,
    CauseClass,
    EventHeat,
    EventRole,
    LogDiagnosis,
    LogEvent,
    LogInput,
    LogLine,
    Outcome,
    Stage,
    Suspect,
    Symptom,
)

EVIL = "\x1b[2J<script>alert('x')</script>\x07 & \"quoted\""
DIAGNOSIS = LogDiagnosis(
    LogInput(1, 2, 2, 1, 99, (("binary file", 1),)),
    Outcome.FAILED,
    Symptom.CRASH,
    Stage.TRAIN,
    31,
    Cause(CauseClass.USER_RESOURCE, "gpu.oom", 0.9, EVIL, "use less"),
    (Suspect(2, EVIL, 0.95, EVIL),),
    (
        LogEvent(
            EVIL, 3, (2,), None, LogLine(EVIL, 7, EVIL), 1.0, EventRole.ROOT, "gpu.oom", (LogLine("a", 6, EVIL),), ()
        ),
    ),
    (EVIL,),
    EventHeat((EVIL, "rank 1"), 0, 10**9, ((0, 3), (1, 0))),
)


def test_json_has_the_shape_of_the_contract() -> None:
    document = json.loads(render_json(DIAGNOSIS))
    assert document["schema"] == "llmprism.logs/1"
    assert document["input"] == {
        "bytes": 99,
        "dropped": {"binary file": 1},
        "files": 1,
        "lines": 2,
        "nodes": 1,
        "ranks": 2,
    }
    assert document["cause"]["class"] == "user.resource"
    assert document["suspects"][0]["rank"] == 2
    assert document["events"][0]["first_line"] == {"file": EVIL, "line": 7, "text": EVIL}
    assert list(document) == sorted(document)
    assert "\x1b" not in render_json(DIAGNOSIS)


def test_terminal_text_cannot_act_on_the_terminal() -> None:
    text = render_terminal(DIAGNOSIS)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "rank 2" in text
    assert "iteration 31" in text
    assert len(harmless("x" * 1000)) == 180


def test_html_text_cannot_act_in_a_browser() -> None:
    page = render_html(DIAGNOSIS)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;" in page
    assert "default-src 'none'" in page
    assert page.count("<rect") == 4
