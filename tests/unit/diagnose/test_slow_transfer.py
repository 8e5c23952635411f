from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.slow_cells import LinkUse, judge_transfers
from llmprism.diagnose.slow_transfer import find_slow_places
from llmprism.model import FindingKind, Where, WhereType
from support.stages import find_slow_transfers
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs

SLOW = STEP * 1.5


def found(*jobs):
    return find_slow_transfers(list(jobs))


def slow_pairs(pairs, first=8, last=14, rate=2.0):
    return {pair: during(first, last, rate, 10.0) for pair in pairs}


def spread(pairs, seed=0, sigma=0.1):
    """Healthy rates of all pairs, log-normal."""
    random = np.random.default_rng(seed)
    return {pair: 10.0 * np.exp(random.normal(0, sigma, STEPS)) for pair in pairs}


def test_a_slow_nic_is_named_once_with_its_time_and_cost():
    pairs = ring_pairs("abcdef")
    job = evidence_of(pairs, rate=slow_pairs(["bc", "cd"]), duration=during(8, 14, SLOW, STEP))
    (finding,) = found(job)
    assert finding.kind is FindingKind.SLOW_NIC
    assert finding.where == Where(WhereType.NIC, "c")
    assert finding.job == "job"
    steps = job.timeline.steps
    assert (finding.start_ns, finding.end_ns) == (steps.start_ns[8], steps.end_ns[13])
    assert finding.severity == pytest.approx(1 / 3, abs=0.001)
    assert finding.lost_gpu_seconds == pytest.approx(6 * 0.5 * 6)
    assert 0.5 < finding.confidence <= 0.99
    assert (finding.evidence[0].value, finding.evidence[0].expected) == (2.0, 10.0)
    assert "c" in finding.summary


def test_a_fault_that_still_lasts_has_no_end():
    rate = slow_pairs(["bc", "cd"], 8, STEPS)
    (finding,) = found(evidence_of(ring_pairs("abcdef"), rate=rate, duration=during(8, STEPS, SLOW, STEP)))
    assert finding.end_ns is None


def test_a_nic_that_is_slow_one_way_only_is_still_found():
    """Only what c sends is slow; c and d share the pair equally, but c sends to others too."""
    pairs = ["ab", "bc", "ca", "cd", "ce", "dc", "ec", "da", "eb"]
    rate = slow_pairs(["ca", "cd", "ce", "bc", "dc", "ec"])
    (finding,) = found(evidence_of(pairs, rate=rate, duration=during(8, 14, SLOW, STEP)))
    assert finding.where.id == "c"


def switch_paths(pairs, switch_of):
    return {pair: (switch_of(pair[0]), "spine", switch_of(pair[1])) for pair in pairs}


def test_all_pairs_through_a_switch_accuse_the_switch_not_the_nics():
    """Four rings on four leaves; the one on leaf1 crawls."""
    rings = {"leaf0": "abc", "leaf1": "def", "leaf2": "ghi", "leaf3": "jkl"}
    pairs = [pair for ring in rings.values() for pair in ring_pairs(ring)]
    leaf = {member: name for name, ring in rings.items() for member in ring}
    job = evidence_of(
        pairs,
        rate=slow_pairs(ring_pairs("def")),
        duration=during(8, 14, SLOW, STEP),
        paths={pair: (leaf[pair[0]],) for pair in pairs},
    )
    (finding,) = found(job)
    assert finding.kind is FindingKind.SLOW_SWITCH
    assert finding.where == Where(WhereType.SWITCH, "leaf1")


def test_pairs_over_one_cable_accuse_the_link():
    """Six members on each of two leaves, over two spines: what crosses leaf0 - spine1 is slow."""
    pairs, paths, sick = [], {}, []
    for i, (a, b) in enumerate(zip("abcdef", "ghijkl", strict=True)):
        spine = f"spine{i % 2}"
        for pair, way in ((a + b, ("leaf0", spine, "leaf1")), (b + a, ("leaf1", spine, "leaf0"))):
            pairs.append(pair)
            paths[pair] = way
    for a, b in ("ab", "cd", "ef", "gh", "ij", "kl"):
        for pair in (a + b, b + a):
            pairs.append(pair)
            paths[pair] = ("leaf0" if a < "g" else "leaf1",)
    for a, b in zip("ace", "bdf", strict=True):  # other traffic over spine1 and leaf1, beside the sick cable
        pairs.append(f"{a}{b.upper()}")
        paths[f"{a}{b.upper()}"] = ("leaf0", "spine0", "leaf2")
        pairs.append(f"{b.upper()}{a.upper()}")
        paths[f"{b.upper()}{a.upper()}"] = ("leaf2", "spine1", "leaf1")
    sick = [pair for pair in pairs if "spine1" in paths[pair] and "leaf0" in paths[pair]]
    assert len(sick) == 6
    job = evidence_of(pairs, rate=slow_pairs(sick), duration=during(8, 14, SLOW, STEP), paths=paths)
    (finding,) = found(job)
    assert finding.kind is FindingKind.SLOW_LINK
    assert finding.where == Where(WhereType.LINK, ("leaf0", "spine1"))


def uplink(inside):
    """Three leaves with one cable each to a spine; what leaves leaf1 is slow. `inside`: with healthy pairs in leaf1."""
    leaf = dict.fromkeys("abc", "leaf0") | dict.fromkeys("def", "leaf1") | dict.fromkeys("ghi", "leaf2")
    crossing = ["ad", "be", "cf", "dg", "eh", "fi", "ga", "hb", "ic"]
    pairs = crossing + (["de", "ef", "fd"] if inside else [])
    paths = {p: (leaf[p[0]],) if leaf[p[0]] == leaf[p[1]] else (leaf[p[0]], "spine0", leaf[p[1]]) for p in pairs}
    sick = [pair for pair in crossing if "leaf1" in paths[pair]]
    job = evidence_of(pairs, rate=slow_pairs(sick), duration=during(8, 14, SLOW, STEP), paths=paths)
    (finding,) = found(job)
    return finding


def test_the_only_cable_of_a_switch_whose_inside_is_healthy_is_the_link():
    finding = uplink(inside=True)
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_LINK, ("leaf1", "spine0"))
    same = [one for one in finding.alternatives if one.same_place]
    assert [(one.kind, one.where) for one in same] == [(FindingKind.SLOW_SWITCH, Where(WhereType.SWITCH, "leaf1"))]


def test_a_switch_of_which_nothing_shows_the_inside_is_the_switch():
    finding = uplink(inside=False)
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_SWITCH, "leaf1")
    same = [one for one in finding.alternatives if one.same_place]
    assert [(one.kind, one.where.id) for one in same] == [(FindingKind.SLOW_LINK, ("leaf1", "spine0"))]


def test_the_rival_of_a_tie_is_an_alternative_with_the_doubt_that_is_left():
    """One hop of a ring of two: the sender's fault or the receiver's."""
    rate = slow_pairs(["bc"])
    (finding,) = found(evidence_of(ring_pairs("abcdef"), rate=rate, duration=during(8, 14, SLOW, STEP)))
    (other,) = finding.alternatives
    assert {finding.where.id, other.where.id} == {"b", "c"}
    assert not other.same_place
    assert other.confidence == pytest.approx(finding.confidence, abs=0.06), "either of the two"


def test_a_slow_group_without_known_paths_is_named_as_a_group():
    rings = ("abc", "def", "ghi", "jkl")
    pairs = [pair for ring in rings for pair in ring_pairs(ring)]
    job = evidence_of(pairs, rate=slow_pairs(ring_pairs("def")), duration=during(8, 14, SLOW, STEP), groups=rings)
    (finding,) = found(job)
    assert finding.kind is FindingKind.SLOW_GROUP
    assert finding.where == Where(WhereType.GROUP, ("d", "e", "f"))


def test_two_slow_nics_are_two_findings():
    pairs = ring_pairs("abcdefghijkl")
    rate = slow_pairs(["bc", "cd"]) | slow_pairs(["hi", "ij"], 5, 10)
    findings = found(evidence_of(pairs, rate=rate, duration=during(5, 14, SLOW, STEP)))
    assert {finding.where.id for finding in findings} == {"c", "i"}


def test_a_third_of_the_pairs_may_be_sick():
    pairs = [pair for ring in ("abc", "def", "ghi") for pair in ring_pairs(ring)]
    leaf = {member: f"leaf{i // 3}" for i, member in enumerate("abcdefghi")}
    job = evidence_of(
        pairs, rate=slow_pairs(ring_pairs("def"), 0, STEPS), duration=np.full(STEPS, SLOW),
        paths={pair: (leaf[pair[0]],) for pair in pairs},
    )  # fmt: skip
    job = replace(job, normal_ns=float(STEP))
    (finding,) = found(job)
    assert finding.where.id == "leaf1"


@pytest.mark.parametrize("sigma", [0.05, 0.3, 0.6])
def test_the_ordinary_spread_of_rates_is_no_finding(sigma):
    pairs = ring_pairs("abcdefgh")
    for seed in range(5):
        duration = STEP * np.random.default_rng(seed).uniform(0.8, 1.6, STEPS)
        assert found(evidence_of(pairs, rate=spread(pairs, seed, sigma), duration=duration)) == []


@pytest.mark.parametrize(("worse", "times"), [(0.8, (8, 14)), (4.0, None)])
def test_a_card_that_was_always_slower_than_its_peers_is_found_while_it_is_worse(worse, times):
    """Of six cards c is slower from the first step on; in six longer steps it may be much slower than that."""
    rate = {pair: during(8, 14, worse, 4.2) for pair in ("bc", "cd")}
    job = evidence_of(ring_pairs("abcdef"), rate=rate, duration=during(8, 14, SLOW, STEP))
    spans = [(finding.where.id, finding.start_ns, finding.end_ns) for finding in found(job)]
    steps = job.timeline.steps
    assert spans == ([("c", steps.start_ns[times[0]], steps.end_ns[times[1] - 1])] if times else [])


def test_what_slows_nobody_is_no_finding():
    assert found(evidence_of(ring_pairs("abcdef"), rate=slow_pairs(["bc", "cd"]))) == []


def test_what_is_plainly_broken_for_long_is_found_though_it_slows_nobody():
    (finding,) = found(evidence_of(ring_pairs("abcdef"), rate=slow_pairs(["bc", "cd"], 5, 15)))
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_NIC, "c")
    assert finding.severity == 0.0
    assert found(evidence_of(ring_pairs("abcdef"), rate=slow_pairs(["bc", "cd"], 5, 15, rate=5.5))) == []


def test_what_is_plainly_broken_for_a_quarter_of_a_minute_is_found_in_fewer_steps():
    pairs = ring_pairs("abcdef")
    for step_s, expected in ((4, ["c"]), (2, [])):
        job = evidence_of(pairs, rate=slow_pairs(["bc", "cd"]), duration=np.full(STEPS, step_s * STEP))
        assert [finding.where.id for finding in found(job)] == expected


def test_a_noisy_job_does_not_hide_what_is_wrong_in_another():
    random = np.random.default_rng(3)
    pairs = ring_pairs("ghijklmnop")
    noisy = {pair: np.where(random.random(STEPS) < 0.3, 1.0, 10.0) for pair in pairs}
    job = evidence_of(ring_pairs("abcdef"), rate=slow_pairs(["bc", "cd"]), duration=during(8, 14, SLOW, STEP))
    assert "c" in [finding.where.id for finding in found(job, evidence_of(pairs, rate=noisy, name="noisy"))]


def test_lanes_of_one_slow_group_are_one_finding_with_all_members():
    rings = ("abc", "def", "ghi", "jkl", "mno", "pqr")
    pairs = [pair for ring in rings for pair in ring_pairs(ring)]
    rate = slow_pairs(ring_pairs("def") + ring_pairs("ghi"))
    (finding,) = found(evidence_of(pairs, rate=rate, duration=during(8, 14, SLOW, STEP), groups=rings))
    assert finding.kind is FindingKind.SLOW_GROUP
    assert frozenset(finding.where.id) == frozenset("defghi")


def crowded(use, names=("one", "two")):
    """Jobs whose pairs from leaf0 up to spine0 are slow, those down not; `use` says how the link serves them."""
    cells = []
    for name in names:
        up, down = ["ab", "bc", "ca"], ["de", "ef", "fd"]
        other = ["gh", "hi", "ig", "jk", "kl", "lj"]
        paths = {pair: ("leaf0", "spine0", f"leaf{i + 1}") for i, pair in enumerate(up)}
        paths |= {pair: (f"leaf{i + 1}", "spine0", "leaf0") for i, pair in enumerate(down)}
        paths |= dict.fromkeys(other[:3], ("leaf0", "spine1", "leaf1")) | dict.fromkeys(other[3:], ("leaf2", "spine0"))
        job = evidence_of(
            up + down + other, rate=slow_pairs(up), duration=during(8, 14, SLOW, STEP), paths=paths, name=name
        )
        result = judge_transfers(job)
        cells.append(replace(result, links={(WhereType.LINK, ("leaf0", "spine0")): use}))
    return find_slow_places(cells)


def test_two_jobs_that_crowd_a_link_are_congestion_and_both_are_named():
    (finding,) = crowded(LinkUse((0.9, 0.0), 0.8, 0.1, 9.0, 1_000))
    assert finding.kind is FindingKind.CONGESTION
    assert finding.where == Where(WhereType.LINK, ("leaf0", "spine0"))
    assert finding.job is None
    assert "one" in finding.summary
    assert "two" in finding.summary
    assert [item.value for item in finding.evidence[3:]] == [0.5, 0.5]


def test_a_link_that_is_crowded_both_ways_serves_now_one_and_now_another():
    (finding,) = crowded(LinkUse((0.9, 0.9), 0.8, 0.1, 9.0, 1_000))
    assert finding.kind is FindingKind.CONGESTION


@pytest.mark.parametrize(
    ("use", "names"),
    [
        (LinkUse((0.9, 0.9), 0.1, 0.01, 9.0, 1_000), ("one", "two")),
        (LinkUse((0.9, 0.9), 0.8, 0.6, 9.0, 1_000), ("one", "two")),
        (LinkUse((0.9, 0.0), 0.8, 0.1, 1.0, 1_000), ("one", "two")),
        (LinkUse((0.9, 0.0), 0.8, 0.1, 9.0, 1_000), ("one",)),
    ],
    ids=[
        "the same low rate for all, both ways",
        "rates that spread as much before",
        "all together move less than one should",
        "one job alone",
    ],
)
def test_a_broken_link_is_no_congestion(use, names):
    (finding,) = crowded(use, names)
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_LINK, ("leaf0", "spine0"))


def test_a_dip_of_one_step_and_the_set_up_step_are_no_findings():
    pairs = ring_pairs("abcdef")
    assert found(evidence_of(pairs, rate=slow_pairs(["bc", "cd"], 8, 9), duration=during(8, 9, 9 * STEP, STEP))) == []
    setup = evidence_of(pairs, rate=slow_pairs(["bc", "cd"], 0, 1), duration=during(0, 1, 9 * STEP, STEP), setup=True)
    assert found(setup) == []


def test_nothing_measured_nothing_found():
    nan = {pair: np.full(STEPS, np.nan) for pair in ring_pairs("abc")}
    assert found(evidence_of(ring_pairs("abc"), rate=nan)) == []
    assert found(evidence_of(["ab"])) == []
    assert find_slow_transfers([]) == []


def test_a_switch_that_slows_two_jobs_is_one_finding_of_no_single_job():
    jobs = []
    for name, rings in (("one", ("abc", "def", "ghi")), ("two", ("jkl", "mno", "pqr"))):
        pairs = [pair for ring in rings for pair in ring_pairs(ring)]
        leaf = {member: f"leaf{i}" for i, ring in enumerate(rings) for member in ring}
        jobs.append(
            evidence_of(
                pairs, rate=slow_pairs(ring_pairs(rings[1])), duration=during(8, 14, SLOW, STEP), name=name,
                paths={pair: (leaf[pair[0]],) for pair in pairs},
            )
        )  # fmt: skip
    (finding,) = found(*jobs)
    assert (finding.where.id, finding.job) == ("leaf1", None)
    assert finding.lost_gpu_seconds == pytest.approx(2 * 6 * 0.5 * 9)


def test_pairs_that_always_differ_widely_widen_the_cut():
    """Two slow neighbours among pairs that are spread over an order of magnitude accuse nobody."""
    usual = {"ab": 4.0, "bc": 5.5, "cd": 5.5, "de": 18.0, "ef": 25.0, "fa": 30.0}
    rate = {pair: np.full(STEPS, value) for pair, value in usual.items()}
    assert found(evidence_of(list(usual), rate=rate, duration=during(8, 14, SLOW, STEP))) == []


def test_one_sick_hop_of_two_is_not_the_group():
    """Two replicas between two other stages: what d gets from c is slow, what c gets from d is not. The group has fewer
    healthy pairs than either end, and yet it is no group that is sick."""
    pairs = ["cd", "dc", "ca", "ac", "ce", "ec", "db", "bd", "df", "fd"]
    rate = slow_pairs(["cd"], 4, 18)
    job = evidence_of(pairs, rate=rate, duration=during(4, 18, SLOW, STEP), groups=("cd",))
    names, ends = job.job.transfers.addresses, (job.job.transfers.pair_src, job.job.transfers.pair_dst)
    inside = [{names[a], names[b]} == {"c", "d"} for a, b in zip(*ends, strict=True)]
    (finding,) = found(replace(job, group_of_pair=np.where(inside, 0, -1)))
    assert finding.kind is FindingKind.SLOW_NIC
    assert {finding.where.id} | {one.where.id for one in finding.alternatives} == {"c", "d"}
    assert finding.confidence < 0.6


def two_rings(name, members, slow=(), nic=()):
    """A job with a ring on each of two leaves; the first one's leaf, or one NIC, may be slow at some time."""
    first, second = members[:3], members[3:]
    pairs = ring_pairs(first) + ring_pairs(second)
    rate = slow_pairs(ring_pairs(first), *slow) if slow else {}
    if nic:
        rate |= slow_pairs([f"{second[0]}{second[1]}", f"{second[2]}{second[0]}"], *nic)
    spans = [span for span in (slow, nic) if span]
    duration = np.full(STEPS, float(STEP))
    for span in spans:
        duration[slice(*span)] = SLOW
    paths = {pair: ("leaf0" if pair[0] in first else f"leaf-{name}",) for pair in pairs}
    return evidence_of(pairs, rate=rate, duration=duration, paths=paths, name=name)


def test_two_jobs_that_suffer_from_one_switch_are_one_finding_with_both():
    one, other = two_rings("one", "abcdef", slow=(8, 14)), two_rings("two", "ghijkl", slow=(8, 14))
    (finding,) = found(one, other)
    assert (finding.kind, finding.where.id, finding.job) == (FindingKind.SLOW_SWITCH, "leaf0", None)
    assert "one, two" in finding.summary
    assert finding.lost_gpu_seconds == pytest.approx(2 * found(one)[0].lost_gpu_seconds)


def test_two_faults_that_overlap_in_time_keep_their_places_and_times():
    """Leaf0 is slow in steps 5 to 12 of both jobs, a NIC of the second in 9 to 16."""
    one = two_rings("one", "abcdef", slow=(5, 12))
    other = two_rings("two", "ghijkl", slow=(5, 12), nic=(9, 16))
    findings = found(one, other)
    steps = other.timeline.steps
    named = {(f.kind, f.where.id): (f.job, f.start_ns, f.end_ns) for f in findings}
    assert set(named) == {(FindingKind.SLOW_SWITCH, "leaf0"), (FindingKind.SLOW_NIC, "j")}
    assert named[FindingKind.SLOW_NIC, "j"] == ("two", steps.start_ns[9], steps.end_ns[15])
    assert named[FindingKind.SLOW_SWITCH, "leaf0"][:2] == (None, one.timeline.steps.start_ns[5])
