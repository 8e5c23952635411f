"""Pieces: what the leader puts together is what one diagnosis of everything says."""

import copy
import json
from dataclasses import replace

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")

from llmprism.errors import StoreError
from llmprism.ingest import read_topology
from llmprism.model import Evidence, Finding, FindingKind, InputCounts, Report, Where, WhereType, Window
from llmprism.pipeline import diagnose
from llmprism.report.json_report import document
from llmprism.service.looks import Look
from llmprism.service.rules import RULES
from llmprism.service.tracker import TrackerState, track
from llmprism.service.workers.places import address_places, mark_places
from llmprism.service.workers.share_reports import decode_share_report, encode_share_report, merge_reports
from llmprism.service.workers.shares import plan_shares, read_share
from support.workers import BEGIN_NS, busy_cluster

WINDOW = Window(BEGIN_NS - 30 * 10**9, BEGIN_NS + 28 * 10**9)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The window diagnosed whole, and in shares."""
    folder = tmp_path_factory.mktemp("pieces")
    _, places, records = busy_cluster(folder)
    topology = read_topology(places)
    mark_places(folder / "flows.parquet", address_places(topology))
    (everything,) = plan_shares(folder, ["flows.parquet"], WINDOW, records=10 * records, most=1)
    whole = diagnose(read_share(folder, everything), topology, with_events=False, window=WINDOW)
    shares = plan_shares(folder, ["flows.parquet"], WINDOW, records=1000, most=8)
    assert len(shares) == 3
    pieces = [
        encode_share_report(diagnose(read_share(folder, share), topology, with_events=False, window=WINDOW))
        for share in shares
    ]
    return whole, merge_reports([decode_share_report(piece, topology) for piece in pieces], WINDOW, topology)


def test_the_documents_are_equal(reports):
    whole, merged = reports
    assert len(whole.jobs) == 3
    assert {finding.kind.value for finding in whole.findings} == {"slow_nic", "crash"}
    assert document(merged) == document(whole)


def test_the_tracker_makes_the_same_of_both(reports):
    length, states = RULES.windows.length, []
    for report in reports:
        state, first = track(TrackerState(), [Look(report, length)], RULES)
        later = replace(report, window=Window(WINDOW.start_ns, WINDOW.end_ns + 4 * 10**9))
        state, second = track(state, [Look(later, length)], RULES)
        states.append((state, first, second))
    assert states[0] == states[1]
    assert states[0][0].runs


def test_a_fault_that_several_shares_see_is_one_finding():
    def share(start, end, severity, lost, job=None):
        finding = Finding(
            FindingKind.SLOW_SWITCH, job, Where(WhereType.SWITCH, "spine0"), start, end, severity, 0.9, lost,
            f"severity {severity}", (Evidence("rate", 1.0),),
        )  # fmt: skip
        return Report(WINDOW, InputCounts(5, 4, (("no_bytes", 1),)), ("a",), (), (finding,))

    merged = merge_reports(
        [share(5, 9, 0.2, 1.5), share(3, None, 0.6, 2.0), share(4, 8, 0.3, 1.0, "job-a")], WINDOW, None
    )
    common = next(finding for finding in merged.findings if finding.job is None)
    assert len(merged.findings) == 2
    assert (common.start_ns, common.end_ns, common.lost_gpu_seconds) == (3, None, 3.5)
    assert common.summary == "severity 0.6"
    assert merged.input == InputCounts(15, 12, (("no_bytes", 3),))


def test_no_share_is_an_empty_report():
    merged = merge_reports([], WINDOW, None)
    assert merged.window == WINDOW
    assert not merged.jobs
    assert merged.input == InputCounts(0, 0)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"window":[1]}', '{"addresses":3}'])
def test_a_broken_piece_is_a_clear_error(text):
    with pytest.raises(StoreError):
        decode_share_report(text, None)


def test_numbers_that_cannot_be_are_a_clear_error(reports):
    whole, _ = reports
    good = json.loads(encode_share_report(whole))
    assert decode_share_report(json.dumps(good), None).addresses == whole.addresses
    wrong_member, wrong_shape = copy.deepcopy(good), copy.deepcopy(good)
    wrong_member["report"]["jobs"][0]["job"]["members"][0] = len(whole.addresses)
    wrong_shape["report"]["jobs"][0]["job"]["transfers"]["bytes"]["shape"] = [1 << 60]
    for item in (wrong_member, wrong_shape):
        with pytest.raises(StoreError):
            decode_share_report(json.dumps(item), None)
