"""Verdicts on data of known quality: each test spoils one property and expects the matching words."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from llmprism.ingest.fitness import inspect_flows
from llmprism.ingest.suitability import answers
from llmprism.ingest.topology import parse_topology, read_topology
from llmprism.model.fitness import Fitness, PacketFitness, Question, Suitability

CAPTURES = Path(__file__).parents[3] / "../shared/data/captures"
MS = 1_000_000
T0 = 1_794_706_221_000_000_000


def traffic(seconds: float = 30.0, seed: int = 0) -> dict[str, object]:
    """Records of four pairs, a few milliseconds long, fifty per second and pair."""
    rng = np.random.default_rng(seed)
    count = int(200 * seconds)
    start = T0 + np.sort(rng.integers(0, int(seconds * 1e9), count))
    pair = rng.integers(0, 4, count)
    return {
        "start_ns": start,
        "end_ns": start + rng.integers(1 * MS, 5 * MS, count),
        "src": [f"10.0.0.{p}" for p in pair],
        "dst": [f"10.0.0.{(p + 1) % 4}" for p in pair],
        "bytes": rng.integers(1_000, 4_000_000, count),
        "sport": 40_000 + pair,
        "dport": np.full(count, 5_000),
        "switches": [["leaf0"]] * count,
    }


def inspect(path: Path, columns: dict[str, object], **options: object) -> Fitness:
    pq.write_table(pa.table(columns), path / "flows.parquet")
    return inspect_flows([path / "flows.parquet"], **options)  # type: ignore[arg-type]


def suitabilities(fitness: Fitness) -> dict[Question, Suitability]:
    return {answer.question: answer.verdict for answer in fitness.answers}


def test_good_data_supports_everything(tmp_path: Path) -> None:
    fitness = inspect(tmp_path, traffic())
    assert set(suitabilities(fitness).values()) == {Suitability.YES}
    assert fitness.timestamp_resolution_ns == 1
    assert 45 < fitness.records_per_pair_and_second < 55
    assert (fitness.sampling, fitness.packets, fitness.unknown_share) == (None, None, None)
    assert fitness.bytes_per_second * 30 == pytest.approx(np.sum(traffic()["bytes"]), rel=0.01)


def test_one_record_per_pair_and_minute(tmp_path: Path) -> None:
    """The usual default of exporters: `inspect` says that records are folded and that no step can be seen."""
    start = T0 + 60_000 * MS * np.repeat(np.arange(10), 4)
    pair = np.tile(np.arange(4), 10)
    columns = {
        "start_ns": start,
        "end_ns": start + 60_000 * MS,
        "src": [f"10.0.0.{p}" for p in pair],
        "dst": [f"10.0.0.{(p + 1) % 4}" for p in pair],
        "bytes": 10**9 + 7_919 * np.arange(40),
    }
    fitness = inspect(tmp_path, columns)
    assert fitness.folded_share == 1.0
    assert fitness.records_per_pair_and_second == pytest.approx(1 / 60)
    found = {answer.question: answer for answer in fitness.answers}
    assert [found[question].verdict for question in Question] == [
        Suitability.PARTLY,
        Suitability.NO,
        Suitability.NO,
        Suitability.NO,
    ]
    assert "folded" in found[Question.STEPS].why
    assert "60 s or longer" in found[Question.STEPS].why
    assert "no step can be seen" in found[Question.STEPS].why
    assert "active timeout below a step" in found[Question.STEPS].advice


def test_folded_and_sampled_is_no_better_than_folded(tmp_path: Path) -> None:
    columns = traffic() | {"sampling": np.full(6_000, 4096)}
    columns["end_ns"] = columns["start_ns"] + 20_000 * MS  # type: ignore[operator]
    assert suitabilities(inspect(tmp_path, columns))[Question.PARALLELISM] is Suitability.NO


def test_exporters_without_ports(tmp_path: Path) -> None:
    columns = traffic() | {"exporter": ["leaf0", "leaf1"] * 3_000}
    del columns["sport"]
    fitness = inspect(tmp_path, columns)
    assert (fitness.exporters, fitness.port_share) == (2, 0.0)
    assert suitabilities(fitness)[Question.PARALLELISM] is Suitability.PARTLY
    with_ports = inspect(tmp_path, columns | {"sport": traffic()["sport"]})
    assert suitabilities(with_ports)[Question.PARALLELISM] is Suitability.YES


@pytest.mark.parametrize(
    ("loss", "estimated", "suitability"),
    [(0.001, 1, Suitability.YES), (0.05, 1, Suitability.PARTLY), (0.001, 50, Suitability.PARTLY)],
    ids=["hardly any packet is missing", "one in twenty is", "sizes are guessed"],
)
def test_packets_that_a_capture_missed(tmp_path: Path, loss: float, estimated: int, suitability: Suitability) -> None:
    packets = PacketFitness(10_000, loss, 0, 1_000, estimated, 0, 0, 0, ())
    fitness = answers(replace(inspect(tmp_path, traffic()), packets=packets))
    assert suitabilities(fitness)[Question.PARALLELISM] is suitability


def test_folded_records(tmp_path: Path) -> None:
    columns = traffic()
    columns["end_ns"] = columns["start_ns"] + 20_000 * MS  # type: ignore[operator]
    fitness = inspect(tmp_path, columns)
    assert fitness.folded_share == 1.0
    found = suitabilities(fitness)
    assert (found[Question.PARALLELISM], found[Question.STEPS], found[Question.FAULTS]) == (Suitability.NO,) * 3
    assert all("active timeout" in answer.advice for answer in fitness.answers if answer.verdict is Suitability.NO)


@pytest.mark.parametrize("unit", [1_000, 1_000_000, 1_000_000_000])
def test_resolution(tmp_path: Path, unit: int) -> None:
    columns = traffic()
    for name in ("start_ns", "end_ns"):
        columns[name] = columns[name] // unit * unit  # type: ignore[operator]
    fitness = inspect(tmp_path, columns)
    assert fitness.timestamp_resolution_ns == unit
    assert (suitabilities(fitness)[Question.STEPS] is Suitability.NO) == (unit == 1_000_000_000)


def test_sampling(tmp_path: Path) -> None:
    columns = traffic()
    columns["bytes"] = columns["bytes"] * 1000  # type: ignore[operator]
    fitness = inspect(tmp_path, columns)
    assert fitness.sampling == 1000
    assert suitabilities(fitness)[Question.PARALLELISM] is Suitability.PARTLY


@pytest.mark.parametrize(("every", "suitability"), [(1, Suitability.YES), (10, Suitability.NO)])
def test_sampled_records_must_be_many_to_outline_a_step(tmp_path: Path, every: int, suitability: Suitability) -> None:
    columns = {name: column[::every] for name, column in traffic().items()}  # type: ignore[index]
    columns["bytes"] = columns["bytes"] * 1000
    assert suitabilities(inspect(tmp_path, columns))[Question.STEPS] is suitability


def test_stated_sampling_may_be_a_power_of_two(tmp_path: Path) -> None:
    columns = traffic() | {"sampling": np.full(6_000, 4096)}
    assert inspect(tmp_path, columns).sampling == 4096


def test_messages_of_whole_pages_are_not_sampling(tmp_path: Path) -> None:
    columns = traffic()
    columns["bytes"] = columns["bytes"] // 4096 * 4096 + 4096  # type: ignore[operator]
    columns["bytes"][0] = 512  # type: ignore[index]
    assert inspect(tmp_path, columns).sampling is None


def test_short_window(tmp_path: Path) -> None:
    fitness = inspect(tmp_path, traffic(2.0))
    assert suitabilities(fitness)[Question.JOBS] is Suitability.PARTLY
    advised = re.fullmatch(r"give at least (\d+) s", fitness.answers[0].advice)
    assert advised is not None
    assert suitabilities(inspect(tmp_path, traffic(float(advised[1]))))[Question.JOBS] is Suitability.YES


def test_paths_are_needed_for_switches(tmp_path: Path) -> None:
    columns = traffic()
    del columns["switches"]
    fitness = inspect(tmp_path, columns)
    assert suitabilities(fitness)[Question.FAULTS] is Suitability.PARTLY
    assert fitness.path_share == 0.0


@pytest.mark.parametrize("offset_ms", [2, 40])
def test_clock_offset_between_exporters(tmp_path: Path, offset_ms: int) -> None:
    once = traffic()
    count = len(once["src"])  # type: ignore[arg-type]
    twice = {name: np.concatenate([column, column]) for name, column in once.items() if name != "switches"}
    for name in ("start_ns", "end_ns"):
        twice[name][count:] += offset_ms * MS
    twice["exporter"] = np.array(["leaf"] * count + ["spine"] * count)
    fitness = inspect(tmp_path, twice)
    (offset,) = fitness.clock_offsets
    assert (offset.reference, offset.exporter) == ("leaf", "spine")
    assert abs(offset.offset_ns - offset_ms * MS) < MS
    assert (fitness.duplicate_share > 0.49) == (offset_ms == 2)
    if offset_ms == 40:
        assert "clocks" in fitness.answers[-1].why


def test_addresses_that_the_topology_lacks(tmp_path: Path) -> None:
    nics = [{"address": f"10.0.0.{number}"} for number in range(3)]
    topology = parse_topology({"servers": [{"name": "s", "nics": nics}]}, "t")
    fitness = inspect(tmp_path, traffic(), topology=topology)
    assert fitness.unknown_addresses == ("10.0.0.3",)
    assert fitness.unknown_share is not None
    assert 0.4 < fitness.unknown_share < 0.6
    assert suitabilities(fitness)[Question.JOBS] is Suitability.PARTLY


@pytest.mark.skipif(not CAPTURES.exists(), reason="the real captures are not here")
def test_real_captures_are_good_enough() -> None:
    for folder in sorted(CAPTURES.glob("*/flows.parquet")):
        fitness = inspect_flows([folder], topology=read_topology(folder.with_name("topology.json")))
        assert set(suitabilities(fitness).values()) == {Suitability.YES}, folder
        assert fitness.unknown_share == 0.0
