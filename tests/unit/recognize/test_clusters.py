import numpy as np

from llmprism.recognize.bulk import pair_traffic
from llmprism.recognize.clusters import cluster_pairs
from llmprism.recognize.rules import RULES
from unit.builders import MS, SECOND, Flow, transfer_table


def clusters(flows, bulk=None):
    transfers = transfer_table(flows)
    wanted = np.ones(transfers.pair_count, dtype=np.bool_) if bulk is None else np.array(bulk)
    names = transfers.addresses
    found = cluster_pairs(transfers, pair_traffic(transfers), wanted)
    return [[names[transfers.pair_src[p]] + names[transfers.pair_dst[p]] for p in pairs] for pairs in found]


def flow(pair, at_ns=0, until_ns=MS):
    return Flow(pair[0], pair[1], at_ns, until_ns, 1_000_000)


def test_what_traffic_connects_is_a_cluster_in_the_order_of_the_pairs():
    flows = [flow(pair) for pair in ("xy", "ab", "bc", "yx", "de")]
    assert clusters(flows) == [["ab", "bc"], ["de"], ["xy", "yx"]]


def test_pairs_that_are_not_bulk_connect_nothing():
    assert clusters([flow("ab"), flow("bc"), flow("cd")], [True, False, True]) == [["ab"], ["cd"]]
    assert clusters([flow("ab")], [False]) == []
    assert clusters([]) == []


def test_an_address_that_serves_a_later_job_is_another_node():
    late = 60 * SECOND
    flows = [flow("ab"), flow("ba"), flow("bc", late, late + MS), flow("cb", late, late + MS)]
    assert clusters(flows) == [["ab", "ba"], ["bc", "cb"]]


def test_a_short_silence_is_no_new_epoch():
    soon = MS + RULES.job_gap_ns
    assert clusters([flow("ab"), flow("bc", soon, soon + MS)]) == [["ab", "bc"]]
    later = soon + 1
    assert clusters([flow("ab"), flow("bc", later, later + MS)]) == [["ab"], ["bc"]]


def test_a_pair_that_lasts_holds_the_epoch_open():
    late = 60 * SECOND
    flows = [flow("ab"), flow("bd", 0, MS), flow("bd", late, late + MS), flow("bc", late, late + MS)]
    assert clusters(flows) == [["ab", "bc", "bd"]]


def test_epochs_are_kept_apart_for_each_address_on_its_own():
    """Many addresses with different spans: the running horizon of one must not leak into the next."""
    late = 100 * SECOND
    flows = [flow("ab", 0, late), flow("cd", 0, MS), flow("de", 50 * SECOND, 51 * SECOND), flow("fg", late, late + MS)]
    assert clusters(flows) == [["ab"], ["cd"], ["de"], ["fg"]]
