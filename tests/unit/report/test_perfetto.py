from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from llmprism.model import EventKind
from llmprism.report import perfetto
from llmprism.report.perfetto_kernels import PACKET_BYTES, assign_lanes, encode_slices
from support.reports import EXAMPLES, HOSTILE, empty_report, report_from_capture, tiny_report

BEGIN = proto.TrackEvent.TYPE_SLICE_BEGIN


def parsed(report):
    trace = proto.Trace()
    trace.ParseFromString(perfetto.render(report))
    return trace


def slices(trace):
    """(track name, slice name, start, end, annotations), read the way a trace processor reads it."""
    interned = next(packet.interned_data for packet in trace.packet if packet.HasField("interned_data"))
    names = {item.iid: item.name for item in interned.event_names}
    annotation = {item.iid: item.name for item in interned.debug_annotation_names}
    strings = {item.iid: item.str.decode() for item in interned.debug_annotation_string_values}
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
    stacks = defaultdict(list)
    found = []
    for packet in (packet for packet in trace.packet if packet.HasField("track_event")):
        event = packet.track_event
        stack = stacks[event.track_uuid]
        if event.type == BEGIN:
            assert not stack, "slices of one track overlap"
            values = {
                annotation[item.name_iid]: strings[item.string_value_iid] if item.string_value_iid else item.uint_value
                for item in event.debug_annotations
            }
            stack.append((tracks[event.track_uuid].name, names[event.name_iid], packet.timestamp, values))
        else:
            name, label, start, values = stack.pop()
            found.append((name, label, start, packet.timestamp, values))
    assert not any(stacks.values())
    return found


def test_a_slice_per_event_with_its_step_peer_and_bytes():
    report = report_from_capture(EXAMPLES / "slow_nic")
    events = report.jobs[0].timeline.events
    found = [entry for entry in slices(parsed(report)) if entry[0].startswith("10.")]
    assert len(found) == events.count
    sends = [entry for entry in found if entry[1] == "pipeline send"]
    assert len(sends) == int((events.kind == EventKind.PP_SEND).sum())
    assert sends[0][4].keys() == {"step", "peer", "bytes"}
    assert {(entry[2], entry[3]) for entry in found} == set(
        zip(events.start_ns.tolist(), events.end_ns.tolist(), strict=True)
    )


def test_tracks_hang_below_their_job():
    trace = parsed(report_from_capture(EXAMPLES / "slow_nic"))
    tracks = [packet.track_descriptor for packet in trace.packet if packet.HasField("track_descriptor")]
    job = next(track for track in tracks if not track.HasField("parent_uuid"))
    assert job.name == "Job slow_nic-0 (running)"
    assert all(track.parent_uuid == job.uuid for track in tracks if track is not job)
    assert {"steps", "findings", "10.13.0.1 (server00 GPU 3, leaf03)"} <= {track.name for track in tracks}


def test_steps_and_findings_have_their_own_tracks():
    found = slices(parsed(report_from_capture(EXAMPLES / "slow_nic")))
    assert [entry[1] for entry in found if entry[0] == "steps"][:2] == ["set-up step", "step 1"]
    assert [entry[1] for entry in found if entry[0] == "findings"] == ["Slow NIC: 10.13.0.1 (server00 GPU 3, leaf03)"]


def test_every_event_packet_depends_on_the_interned_names():
    trace = parsed(tiny_report())
    assert trace.packet[1].sequence_flags == 1
    assert {p.sequence_flags for p in trace.packet if p.HasField("track_event")} == {2}


@pytest.mark.parametrize("name", [HOSTILE, "\ud800"])
def test_odd_names_and_empty_reports_parse(name):
    assert len(slices(parsed(tiny_report(name)))) == 7
    assert slices(parsed(empty_report())) == []


INTERVALS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 15)), max_size=40)


@settings(max_examples=50)
@given(INTERVALS)
def test_lanes_never_overlap(rows):
    rows = sorted(rows)
    address = np.array([row[0] for row in rows], np.int32)
    start = np.array([row[1] for row in rows], np.int64)
    end = start + np.array([row[2] for row in rows], np.int64)
    lanes = assign_lanes(address, start, end)
    last = {}
    for key, low, high in zip(
        zip(address.tolist(), lanes.tolist(), strict=True), start.tolist(), end.tolist(), strict=True
    ):
        assert low >= last.get(key, 0)
        last[key] = high


def test_the_longest_packet_stays_within_its_bound():
    big64, big32 = np.array([2**63 - 1]), np.array([2**31 - 1], np.int32)
    encoded = encode_slices(big64, big64, big64, big32, big32, big32, big64).tobytes()
    trace = proto.Trace()
    trace.ParseFromString(encoded)
    assert len(encoded) <= 2 * PACKET_BYTES
    assert max(packet.ByteSize() for packet in trace.packet) < 128
    assert [item.uint_value for item in trace.packet[0].track_event.debug_annotations] == [2**31 - 1, 0, 2**63 - 1]
