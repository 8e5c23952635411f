"""Nothing is lost without a word: restarted numbering, many producers, bodies of several members, limits."""

import gzip
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from llmprism.service.api.app import Live, create_app
from llmprism.service.api.numbering import Numbering
from llmprism.service.config import HttpSettings, ServerSettings, StoreSettings
from llmprism.service.intake import Intake, clear_incoming

NDJSON = {"content-type": "application/x-ndjson"}
PARQUET = {"content-type": "application/vnd.apache.parquet"}
NOW = 1_790_000_000 * 10**9


def lines(first, count=10):
    rows = [
        {"start_ns": NOW + k * 10**6, "end_ns": NOW + k * 10**6 + 1000, "src": "a", "dst": "b", "bytes": 9}
        for k in range(first, first + count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture
def live(store, config):
    clear_incoming(store)
    config = replace(config, store=replace(config.store, batch_records=1_000_000, intake_memory_mb=400.0))
    intake = Intake(store, config)
    thread = threading.Thread(target=intake.run)
    thread.start()
    with ThreadPoolExecutor(1) as workers:
        yield Live(config, store, intake, workers, list)
        intake.stop()
        thread.join()


def client_of(live):
    return TestClient(create_app(live), base_url="http://localhost")


@pytest.fixture
def client(live):
    return client_of(live)


def push(client, body, **headers):
    return client.post("/api/v1/flows", content=body, headers=NDJSON | headers)


def sources(client, live):
    live.intake._write_counts()
    return {one["name"]: one for one in client.get("/api/v1/sources").json()["items"]}


def numbered(number, producer="tap"):
    return {"llmprism-producer": producer, "llmprism-sequence": str(number)}


def test_a_producer_that_counts_from_the_beginning_again_loses_nothing(client, live):
    for number in (7, 8, 9):
        push(client, lines(number * 10), **numbered(number))
    for number in (0, 1):
        answer = push(client, lines(1000 + number * 10), **numbered(number)).json()
        assert (answer["duplicate"], answer["stored"]) == (False, 10)
    assert push(client, lines(1010), **numbered(1)).json()["duplicate"] is True, "a repeat is still a repeat"
    source = sources(client, live)["http:tap"]
    assert source["received"] == source["stored"] == 50
    assert (source["renumbered"], source["repeated_requests"]) == (1, 1)


def test_numbering_reads_what_earlier_versions_saved():
    old = Numbering.parse("41")
    assert old.is_repeat(41, "abc")
    assert old.restarts(3, "abc")
    assert not old.restarts(42, "abc")
    assert Numbering.parse(old.after(42, "12345678ff").text()).is_repeat(42, "12345678ff")
    assert len(Numbering(tuple((10**18 + n, "f" * 8) for n in range(4))).text()) <= 128, "the column's length"


def test_two_hundred_producers_behind_one_address_are_all_counted(live):
    live.config = replace(live.config, server=ServerSettings(requests_per_s=5.0))
    client = client_of(live)
    with ThreadPoolExecutor(8) as threads:
        jobs = [(producer, number) for number in range(2) for producer in range(100)]
        list(threads.map(lambda job: push(client, lines(job[0] * 100), **numbered(job[1], f"p{job[0]}")), jobs))
    found = sources(client, live)
    assert sum(one["received"] for one in found.values()) == 2_000
    assert all(one["received"] == one.get("stored", 0) + sum(one["dropped"].values()) for one in found.values())


def test_a_producer_that_pushes_too_often_is_answered_and_counted(live):
    live.config = replace(live.config, server=ServerSettings(requests_per_s=1.0))
    client = client_of(live)
    answers = [push(client, lines(n), **numbered(n), **{"llmprism-records": "10"}).status_code for n in range(12)]
    assert 429 in answers
    source = sources(client, live)["http:tap"]
    assert source["received"] == source["stored"] + source["dropped"]["rate_limit"] == 120


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_body_of_several_members_is_read_to_its_end(client, coding):
    pack = gzip.compress if coding == "gzip" else pytest.importorskip("zstandard").compress
    body = b"".join(pack(lines(k * 10)) for k in range(5))
    assert push(client, body, **{"content-encoding": coding}).json()["stored"] == 50


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
@pytest.mark.parametrize("cut", [3, 40])
def test_a_body_that_is_cut_off_is_refused(client, live, coding, cut):
    pack = gzip.compress if coding == "gzip" else pytest.importorskip("zstandard").compress
    answer = push(client, pack(lines(0)) + pack(lines(10))[:-cut], **{"content-encoding": coding})
    assert answer.status_code == 400
    assert "cut off" in answer.json()["error"]["message"]
    assert "http" not in sources(client, live)


def test_a_window_of_a_zstd_body_holds_little_memory(client):
    zstandard = pytest.importorskip("zstandard")
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27, enable_ldm=True)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = packer.compress(lines(0)) + packer.flush()
    assert push(client, body, **{"content-encoding": "zstd"}).status_code == 400


def parquet_of(rows):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    one = pa.array([NOW], pa.int64()).take(pa.array([0] * 1))
    columns = {"start_ns": one, "end_ns": one, "src": pa.array(["a"]), "dst": pa.array(["b"]), "bytes": one}
    table = pa.table({name: pa.chunked_array([column.take(pa.array([0] * 1000))] * (rows // 1000)) for name, column in columns.items()})  # fmt: skip  # noqa: E501
    sink = io.BytesIO()
    parquet.write_table(table, sink, compression="zstd")
    return sink.getvalue()


def test_kilobytes_of_parquet_do_not_become_gigabytes(client):
    body = parquet_of(2_000_000)
    assert len(body) < 60_000
    answer = client.post("/api/v1/flows", content=body, headers=PARQUET)
    assert answer.status_code == 413
    assert "records" in answer.json()["error"]["message"]


def test_long_values_that_do_not_fit_the_memory_are_refused_and_the_next_push_is_taken(client):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    count = 200_000
    same = pa.array([NOW] * count, pa.int64())
    wide = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["x" * 20_000]))
    names = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["a"]))
    table = pa.table({"start_ns": same, "end_ns": same, "src": wide, "dst": names, "bytes": same, "exporter": wide})
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    assert len(sink.getvalue()) < 200_000
    answer = client.post("/api/v1/flows", content=sink.getvalue(), headers=PARQUET)
    assert answer.status_code in (200, 413)
    assert answer.status_code == 413 or answer.json()["dropped"] == {"long_address": count}
    assert push(client, lines(0)).json()["stored"] == 10


def test_arrow_that_states_gigabytes_is_refused_before_it_is_unpacked(client):
    pa = pytest.importorskip("pyarrow")
    count = 1_500_000
    same = pa.array([NOW] * count, pa.int64())
    text = pa.array(["a" * 100] * count)
    table = pa.table({"start_ns": same, "end_ns": same, "src": text, "dst": text, "bytes": same})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    kind = {"content-type": "application/vnd.apache.arrow.stream"}
    assert len(sink.getvalue()) < 20_000_000
    assert table.nbytes > 4 * 64e6
    answer = client.post("/api/v1/flows", content=sink.getvalue(), headers=kind)
    assert answer.status_code == 413


def test_no_more_bodies_are_received_at_a_time_than_there_is_room_for(live):
    live.config = replace(live.config, http=HttpSettings(max_open=2))
    client = client_of(live)
    live.receiving = 2
    answer = push(client, lines(0), **{"llmprism-records": "10"})
    assert answer.status_code == 503
    assert sources(client, live)["http"]["dropped"] == {"overload": 10}
    live.receiving = 0
    assert push(client, lines(0)).status_code == 200
    assert live.receiving == 0


def test_settings_have_sane_defaults():
    assert StoreSettings().batch_records <= 20_000_000
    assert HttpSettings().max_open * 8 < 1_000, "megabytes that open zstd bodies hold"
