"""Who is late in all slower steps together, where single steps lie in the job's jitter."""

from dataclasses import replace

import numpy as np

from llmprism.diagnose.blamed_member import find_blamed_members
from llmprism.diagnose.late_throughout import late_throughout
from llmprism.model import FindingKind
from unit.builders import MS
from unit.diagnose.ring_builder import NAMES, SLOW_STEPS, STEPS, USUAL, ring, ring_evidence

JITTER_MS = 60


def _late(*late: str, by_ms=140, places=()):
    """A job whose members are ready at times that vary by a good part of a step, and some later in the slower ones."""
    made = ring_evidence(*ring(hops=("bc",)))
    lateness = np.random.default_rng(5).normal(0.0, JITTER_MS * MS, (len(NAMES), STEPS))
    longer = np.median(made.duration_ns[~USUAL]) - np.median(made.duration_ns[USUAL])
    for name in late:
        lateness[NAMES.index(name), list(SLOW_STEPS)] += by_ms / 140 * longer
    return replace(made, lateness_ns=lateness, job=replace(made.job, places=places))


def test_one_that_is_later_in_slower_steps_by_what_they_take_longer_is_named():
    (finding,) = late_throughout(_late("d"), ~USUAL, USUAL)
    assert (finding.kind, finding.where.id, finding.end_ns) == (
        FindingKind.SLOW_GPU, "d", int(_late().timeline.steps.end_ns[SLOW_STEPS[-1]]),
    )  # fmt: skip
    assert [found.where.id for found in find_blamed_members(_late("d"), (), {})] == ["d"]


def test_jitter_alone_names_nobody_nor_does_what_explains_little_of_the_time():
    assert late_throughout(_late(), ~USUAL, USUAL) == []
    assert late_throughout(_late("d", by_ms=50), ~USUAL, USUAL) == []


def test_two_that_are_late_alike_are_nobody_unless_they_share_a_server():
    assert late_throughout(_late("c", "d"), ~USUAL, USUAL) == []
    places = ("s0", "s0", "s1", "s1", "s2", "s2")
    (finding,) = late_throughout(_late("c", "d", places=places), ~USUAL, USUAL)
    assert finding.where.id in ("c", "d")


def test_one_that_sends_slowly_is_not_named():
    made = _late("d")
    own = made.job.transfers.pair_src == NAMES.index("d")
    slow = np.where(own[:, None] & ~USUAL[None, :], 0.05 * made.rate, made.rate)
    assert late_throughout(replace(made, rate=slow), ~USUAL, USUAL) == []
