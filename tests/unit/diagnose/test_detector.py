"""When a detector is run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.rules import RULES
from llmprism.model.finding import FindingKind
from llmprism.model.flows import Window

FOUND = object()


@pytest.mark.parametrize(("needs_steps", "missing", "runs"), [(True, 0, True), (True, 1, False), (False, 1, True)])
def test_a_detector_that_needs_steps_waits_until_what_is_usual_is_known(needs_steps, missing, runs):
    detector = Detector("a", (FindingKind.STALL,), lambda _given: [FOUND], needs_steps)
    evidence = SimpleNamespace(steps=RULES.endings.settled_steps - missing)
    assert detector.find(DetectorInput(evidence, Window(0, 1))) == ([FOUND] if runs else [])
