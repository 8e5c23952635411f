import numpy as np

from llmprism.parallelism.byte_time import bytes_at, time_at
from llmprism.stats.silences import Silences

SILENCES = Silences(np.array([1_000, 1_300, 2_000]), np.array([100, 200, 200]), np.array([10, 30, 80]))


def test_nothing_is_sent_in_a_silence_and_bytes_flow_evenly_between_two():
    when = np.array([1_000, 1_050, 1_100, 1_200, 1_300, 1_500, 1_750, 2_000])
    assert bytes_at(SILENCES, when).tolist() == [10, 10, 10, 20, 30, 30, 55, 80]


def test_the_time_of_bytes_is_that_at_which_the_silence_after_them_begins():
    assert time_at(SILENCES, np.array([10.0, 20.0, 30.0, 55.0, 80.0])).tolist() == [1_000, 1_200, 1_300, 1_750, 2_000]
