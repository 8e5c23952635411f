from dataclasses import replace

from llmprism.model import FindingKind, Where, WhereType
from llmprism.report.kinds import CHECKS, TITLES
from llmprism.report.places import Places
from support.reports import EXAMPLES, report_from_capture, tiny_report

PLACES = Places(report_from_capture(EXAMPLES / "slow_nic").topology)


def test_an_address_is_named_with_its_seat():
    assert PLACES.address("10.13.0.1") == "10.13.0.1 (server00 GPU 3, leaf03)"
    assert PLACES.address("192.0.2.1") == "192.0.2.1"
    assert Places(None).address("10.13.0.1") == "10.13.0.1"


def test_every_kind_of_place_has_words():
    assert PLACES.where(Where(WhereType.LINK, ("a", "b"))) == "link a → b"
    assert PLACES.where(Where(WhereType.SWITCH, "spine0")) == "switch spine0 (spine)"
    assert PLACES.where(Where(WhereType.GROUP, tuple("abcdef"))) == "group of 6: a, b, c, d and 2 more"
    for kind in WhereType:
        assert PLACES.where(Where(kind, "x")).endswith(" x")


def test_the_noun_is_not_said_twice():
    finding = tiny_report().findings[0]
    assert PLACES.finding(finding) == "10.0.0.1"
    crash = replace(finding, kind=FindingKind.CRASH)
    assert PLACES.finding(crash) == "GPU 10.0.0.1"


def test_every_kind_of_finding_has_a_title_and_checks():
    for kind in FindingKind:
        assert TITLES[kind]
        assert CHECKS[kind]
