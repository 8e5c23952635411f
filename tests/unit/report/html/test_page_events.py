import base64

import numpy as np

from llmprism.report.html.page_events import choose_rows, pack_events, tick_ns
from support.reports import EXAMPLES, report_from_capture


def unpacked(packed, name, dtype):
    return np.frombuffer(base64.b64decode(packed[name]), dtype)


def test_ticks_are_microseconds_until_the_window_outgrows_them():
    assert tick_ns(60 * 10**9) == 1000
    day = 86_400 * 10**9
    assert day / tick_ns(day) < 2**32


def test_columns_hold_what_the_timeline_holds():
    report = report_from_capture(EXAMPLES / "slow_nic")
    events = report.jobs[0].timeline.events
    rows = choose_rows(report)[0]
    packed = pack_events(events, rows, sorted(rows), report.window.start_ns, 1000)
    assert packed["offsets"][-1] == events.count
    start = unpacked(packed, "start", "<u4").astype(np.int64) * 1000 + report.window.start_ns
    assert (np.abs(start - events.start_ns) < 1000).all()
    length = unpacked(packed, "length", "<u4").astype(np.int64) * 1000
    assert (np.abs(length - (events.end_ns - events.start_ns)) <= 1000).all()
    assert (unpacked(packed, "kind", "u1") == events.kind).all()
    assert (unpacked(packed, "peer", "<i4") == events.peer).all()


def test_over_the_cap_whole_gpus_go_and_the_sick_and_their_peers_stay():
    report = report_from_capture(EXAMPLES / "slow_nic")
    events = report.jobs[0].timeline.events
    per_gpu = int(np.bincount(events.address).max())
    rows = choose_rows(report, cap=6 * per_gpu)[0]
    assert sum(high - low for low, high in rows.values()) <= 6 * per_gpu
    shown = {report.addresses[address] for address in rows}
    assert {"10.13.0.1", "10.13.1.1", "10.10.0.1", "10.11.0.1", "10.12.0.1"} <= shown
    for address, (low, high) in rows.items():
        assert high - low == int((events.address == address).sum())


def test_a_cap_below_one_row_leaves_nothing_but_does_not_fail():
    report = report_from_capture(EXAMPLES / "slow_nic")
    assert choose_rows(report, cap=1) == [{}]
    packed = pack_events(report.jobs[0].timeline.events, {}, [], 0, 1000)
    assert packed["offsets"] == [0]
