"""The fit of the confidence of findings."""

import numpy as np
import pytest

from finding_fit import Said, fit, fitted, lines_of, own_of
from llmprism.diagnose.trust import calibrated


@pytest.mark.parametrize(("own", "peers"), [(0.5, 0.9), (0.8, 0.3), (0.65, 0.95)])
def test_what_the_detector_said_is_computed_back_from_the_report(own: float, peers: float) -> None:
    assert own_of(calibrated(own, peers), peers) == pytest.approx(own, abs=0.01)


def test_the_weights_are_found_again_and_findings_are_right_as_often_as_stated() -> None:
    random = np.random.default_rng(1)
    weights = (-1.0, 1.5, 0.5)
    said = []
    for own, peers in random.uniform(0.05, 0.95, (4000, 2)).tolist():
        sure = fitted(weights, Said("a", own, peers, 0.0, True))
        said.append(Said("ab"[len(said) % 2], own, peers, 0.5, bool(random.uniform() < sure)))
    assert fit(said) == pytest.approx(weights, abs=0.2)
    assert "4000 findings" in lines_of(said)[0]
