from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from llmprism.report.protobuf import bytes_field, number_field, text_field, varint


@given(st.integers(0, 2**64 - 1))
def test_varints_are_read_back_by_a_protobuf_library(value):
    message = proto.TrackDescriptor()
    message.ParseFromString(number_field(1, value))
    assert message.uuid == value
    assert varint(value) == message.SerializeToString()[1:]


@given(st.text())
def test_texts_are_read_back(text):
    message = proto.Trace()
    message.ParseFromString(bytes_field(1, bytes_field(60, text_field(2, text))))
    assert message.packet[0].track_descriptor.name == text.encode("utf-8", "replace").decode()
