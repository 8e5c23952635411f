"""What fits no layout is taken back, and nothing else."""

import numpy as np
import pytest

from llmprism.model import Group, JobLayout, Layout, PairKind, PairRoles, Schedule, Sharding
from llmprism.parallelism.features import Links
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.unknown_collectives import with_unknown_collectives

LOW, HIGH = np.array([0, 2, 1], dtype=np.int32), np.array([1, 3, 2], dtype=np.int32)


def layout(fits):
    """Two gradient groups of two, joined by a link of a pipeline."""
    pair = np.arange(3, dtype=np.int32)
    kind = np.array([PairKind.DP, PairKind.DP, PairKind.PP], dtype=np.int8)
    links = Links(LOW, HIGH, pair, np.full(3, -1, dtype=np.int32))
    kinds = LinkKinds(kind, np.ones(3), np.ones(3, dtype=np.bool_), np.array(fits))
    made = JobLayout(
        Layout(1, 2, 2, None, None, Sharding.NONE, 4, Schedule.ONE_F_ONE_B),
        (Group(PairKind.DP, (0, 1)), Group(PairKind.DP, (2, 3))),
        ((1, 2),),
        PairRoles(LOW, HIGH, kind, np.ones(3)),
        np.zeros(0, dtype=np.int8),
    )
    return made, with_unknown_collectives(made, links, kinds)


def test_a_layout_that_is_explained_stays():
    before, after = layout([True, True, True])
    assert after is before


@pytest.mark.parametrize(("lost", "pipelines"), [(0, ((1, 2),)), (2, ())])
def test_the_members_of_what_fits_nothing_are_a_group_of_unknown_kind(lost, pipelines):
    _, after = layout([index != lost for index in range(3)])
    members = (int(LOW[lost]), int(HIGH[lost]))
    unknown = [group.members for group in after.groups if group.kind is PairKind.UNKNOWN]
    assert unknown == [members]
    assert not any(set(members) <= set(group.members) for group in after.groups if group.kind is PairKind.DP)
    assert after.pipelines == pipelines
    assert [kind == PairKind.UNKNOWN for kind in after.pairs.kind] == [index == lost for index in range(3)]
    assert (after.layout.tp, after.layout.pp, after.layout.dp) == (None, None, None)
    assert after.layout.sharding is Sharding.UNKNOWN
