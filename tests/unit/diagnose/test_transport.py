"""Which jobs agree on every message, and whose pauses say who computed."""

from dataclasses import replace

import pytest

from llmprism.diagnose.late_member import PAUSE, find_late_members
from llmprism.diagnose.transport import agrees_on_messages, pauses_tell
from llmprism.model import FindingKind, Job
from llmprism.model.layout import Group, PairKind
from unit.builders import MS, Flow, transfer_table
from unit.diagnose.ring_builder import NAMES, ring, ring_evidence


def with_small_messages(job: Job, before_ns: int) -> Job:
    """The same job, with a small message from the receiver so long before every message."""
    table = job.transfers
    ends = [(table.addresses[table.pair_src[p]], table.addresses[table.pair_dst[p]]) for p in table.pair_of_row]
    flows = []
    for (src, dst), start, end, size in zip(ends, table.start_ns, table.end_ns, table.bytes, strict=True):
        flows.append(Flow(src, dst, int(start), int(end), int(size)))
        flows.append(Flow(dst, src, int(start) - before_ns, int(start) - before_ns + 1_000, 48))
    made = transfer_table(flows)
    return replace(job, transfers=made, bulk=made.pair_bytes > 1_000_000)


@pytest.mark.parametrize(("before_ns", "agrees"), [(MS // 10, True), (10 * MS, False)])
def test_a_transport_agrees_on_messages_where_small_ones_release_them(before_ns, agrees):
    job, steps = ring()
    assert agrees_on_messages(with_small_messages(job, before_ns), steps) is agrees
    assert not agrees_on_messages(job, steps), "there are no small ones"


def test_where_messages_are_pushed_pauses_tell_only_in_pipelines_and_among_two():
    evidence = ring_evidence(*ring(slow="c"))
    assert not pauses_tell(evidence)
    agreed = replace(evidence, job=with_small_messages(evidence.job, MS // 10))
    assert pauses_tell(agreed)
    stages = replace(evidence, layout=replace(evidence.layout, pipelines=(tuple(range(len(NAMES))),)))
    assert pauses_tell(stages)
    couples = tuple(Group(PairKind.DP, (one, one + 1)) for one in (0, 2, 4))
    assert pauses_tell(replace(evidence, layout=replace(evidence.layout, groups=couples)))


def test_one_that_pauses_longer_is_a_slow_gpu_by_its_pauses_only_where_they_tell():
    evidence = ring_evidence(*ring(slow="c"))
    couples = tuple(Group(PairKind.DP, (one, one + 1)) for one in (0, 2, 4))
    two = replace(evidence, layout=replace(evidence.layout, groups=couples))
    pausing, holding = (find_late_members(one, {})[0] for one in (two, evidence))
    assert {(one.kind, one.where.id) for one in (pausing, holding)} == {(FindingKind.SLOW_GPU, "c")}
    words = PAUSE.split("{late}")[1]
    assert (words in pausing.summary, words in holding.summary) == (True, False)
