"""Facts of a job as JSON values and as text."""

from __future__ import annotations

from llmprism.model import JobFacts, ModelSize, Synchronisation
from llmprism.report.job_facts import facts_document, model_text, network_text


def size(element_bytes, confidence, way=Synchronisation.ALL_REDUCE):
    parameters = 100_000_000 // element_bytes
    return ModelSize(
        way, element_bytes, element_bytes, (parameters, 2 * parameters), (100_000_000, 200_000_000), 6 * parameters,
        600_000_000, confidence,
    )  # fmt: skip


def test_the_document_names_the_most_plausible_size_and_its_rivals():
    facts = JobFacts((75_000_000, 150_000_000), (size(2, 0.5), size(4, 0.4)), 0.123456, 0.25, 13.37777)
    document = facts_document(facts)
    assert document["parameters_per_gpu"] == [50_000_000, 100_000_000]
    assert document["parameters"] == 300_000_000
    assert [one["gradient_element_bytes"] for one in document["alternatives"]] == [4]
    assert (document["exposed_communication"], document["bus_bandwidth_gbps"]) == (0.1235, 13.378)


def test_what_is_not_known_is_null():
    assert facts_document(None) is None
    document = facts_document(JobFacts())
    assert document["synchronisation"] == "unknown"
    assert document["alternatives"] == []
    assert all(value is None for name, value in document.items() if name not in ("synchronisation", "alternatives"))


def test_the_text_names_both_sizes_where_neither_is_plausible_alone():
    text = model_text(JobFacts(sizes=(size(2, 0.5), size(4, 0.5))))
    assert "100 MB to 200 MB of gradients per GPU" in text
    assert "50 M to 100 M parameters per GPU (300 M in all) if gradients have 2 bytes" in text
    assert "25 M to 50 M parameters" in text


def test_the_text_leaves_out_a_rival_that_is_hardly_plausible():
    assert " or " not in model_text(JobFacts(sizes=(size(2, 0.9), size(4, 0.05))))


def test_the_use_of_the_network_in_one_line():
    facts = JobFacts(exposed_communication=0.12, pipeline_bubble=0.053, bus_bandwidth_gbps=13.4)
    assert network_text(facts) == (
        "12 % of a step is exposed communication, pipeline bubble 5.3 %, gradients at 13.4 Gb/s"
    )
    assert (network_text(JobFacts()), network_text(None), model_text(None)) == ("unknown",) * 3


def test_readings_that_differ_by_what_is_gathered_alone_say_so():
    way = Synchronisation.SHARDED_PARAMETERS
    sizes = tuple(
        ModelSize(way, 4, gathered, (count,), (4 * count,), count, 4 * count, 0.4)
        for gathered, count in ((2, 30_000_000), (4, 20_000_000))
    )
    text = model_text(JobFacts(sizes=sizes))
    assert "30 M parameters if gradients have 4 bytes and parameters 2" in text
    assert "20 M parameters if gradients have 4 bytes and parameters 4" in text
