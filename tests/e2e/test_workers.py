"""Several workers on one cluster: what each of them may do, and what is left when one of them dies."""

import threading
import time
from dataclasses import replace

import duckdb
import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")
pytest.importorskip("psycopg", reason="needs llmprism[postgresql]")
pytest.importorskip("confluent_kafka", reason="needs llmprism[kafka]")

from llmprism.errors import ConfigError, StoreError
from llmprism.ingest.accept import Accepted
from llmprism.model.flows import Window
from llmprism.service.config import (
    Config,
    KafkaSettings,
    StoreSettings,
    TopologySettings,
    WindowSettings,
    WorkerSettings,
)
from llmprism.service.evaluator import Evaluator
from llmprism.service.history import History
from llmprism.service.player import KafkaTarget, opened, play
from llmprism.service.store import Batch, SourceBatch, Store
from llmprism.service.workers.desk import FAILED, Desk
from llmprism.service.workers.duty import Duty
from llmprism.service.workers.evaluating_process import Worker
from llmprism.service.workers.shared_store import UNREAD, SharedStore
from llmprism.service.workers.shares import Share
from llmprism.sim.run import simulate
from llmprism.sim.scenario import parse_scenario
from support.live_cluster import BEGIN, RingJob
from support.postgres import Postgres
from support.workers import MockKafka, Topics, busy_cluster, results, until_all_is_looked_at, worker

S = 10**9
T0 = 1_790_000_000 * S


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as database:
        yield database


@pytest.fixture
def stores(postgres, tmp_path, request):
    """Makes the store of a worker by name; all of them share database and folder."""
    url = postgres.create(f"db_{abs(hash(request.node.name))}")
    made = []
    configs = {}

    def store(name, topology=None):
        config = Config(
            store=StoreSettings(str(tmp_path / "data"), url),
            workers=WorkerSettings(enabled=True, name=name, share_records=1),
            windows=WindowSettings(idle_after_s=3),
            topology=TopologySettings(str(topology) if topology else ""),
        )
        one = SharedStore(config)
        one.create()
        made.append(one)
        configs[one] = config
        return one

    store.configs = configs
    yield store
    for one in made:
        one.close()


def batch(store, number, span, source="kafka:flows/0", stored=10, end_ns=T0):
    file = store.segment_file(f"batch{number}", end_ns)
    file.parent.mkdir(exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {end_ns} AS end_ns, 'a' AS src, 'b' AS dst) TO '{file}' (FORMAT parquet)")
    accepted = Accepted(stored + 1, stored, 0, (("no_bytes", 1),), end_ns - S, end_ns)
    return Batch(f"batch{number}", (SourceBatch(source, accepted, (("0", span),)),), file, 1)


def counted(store):
    return {name: value for _, name, _, value in store.counters() if name != "latest_ns"}


def end_session(store):
    """Ends the connection that holds a store's locks, as a killed process or a lost network does, and waits for it."""
    pid = store._locks.connection.connection.dbapi_connection.info.backend_pid
    with store.engine.connect() as other:
        assert other.exec_driver_sql(f"SELECT pg_terminate_backend({pid}, 30000)").scalar()


def test_every_offset_is_stored_once_whoever_believes_to_own_it(stores):
    one, other = stores("one"), stores("other")
    assert one.take_over(["kafka:flows/0"]) == {"kafka:flows/0": UNREAD}
    one.commit_batch(batch(one, 1, "-1:100"))
    assert other.take_over(["kafka:flows/0"]) == {"kafka:flows/0": 100}
    stale, same = batch(one, 2, "100:150"), batch(other, 3, "100:180")
    other.commit_batch(same)
    one.commit_batch(stale)
    assert (one.fenced, other.fenced) == (1, 0)
    assert same.file.exists()
    assert not stale.file.exists()
    assert counted(one) == {"received": 22, "stored": 20, "dropped": 2}
    assert len(one.segments(0, T0)) == 2
    one.add_counts("kafka:flows/0", [("refused_payloads", "format", 1)], (("0", "150:160"),))
    assert "refused_payloads" not in counted(one)
    assert other.positions_of(["kafka:flows/0"]) == {"kafka:flows/0": 180}


def test_the_watermark_is_that_of_the_slowest_partition(stores):
    store = stores("one")
    store.register(["kafka:flows/0", "kafka:flows/1"])
    store.take_over(["kafka:flows/0"])
    store.commit_batch(batch(store, 1, "-1:100", end_ns=T0 + 9 * S))
    assert store.watermark()[0] == 0
    store.take_over(["kafka:flows/1"])
    store.commit_batch(batch(store, 2, "-1:70", "kafka:flows/1", end_ns=T0 + 5 * S))
    assert store.watermark()[0] == T0 + 5 * S
    assert store.first_end() == T0 + 4 * S
    assert store.unread_partitions() == []


def test_only_the_owner_says_that_a_partition_is_empty(stores):
    one, other = stores("one"), stores("other")
    one.take_over(["kafka:flows/0", "kafka:flows/1"])
    one.commit_batch(batch(one, 1, "-1:100", end_ns=T0))
    other.affirm_empty({"kafka:flows/1": UNREAD})
    assert one.watermark()[0] == 0
    time.sleep(3)
    assert one.watermark()[0] == 0
    one.affirm_empty({"kafka:flows/1": UNREAD})
    assert one.watermark()[0] == T0


def test_a_partition_that_is_empty_at_first_is_waited_for_until_it_has_been_idle(stores):
    one = stores("one")
    one.take_over(["kafka:flows/0", "kafka:flows/1"])
    one.affirm_empty({"kafka:flows/1": UNREAD})
    one.commit_batch(batch(one, 1, "-1:100", end_ns=T0))
    assert one.watermark()[0] == 0
    one.commit_batch(batch(one, 2, "-1:70", "kafka:flows/1", end_ns=T0 - S))
    assert one.watermark()[0] == T0 - S


def test_a_leader_that_lost_its_lock_cannot_write(stores):
    one, other = stores("one"), stores("other")
    assert one.lead()
    assert not other.lead()
    one.put_state("word", "mine")
    end_session(one)
    assert other.lead()
    with pytest.raises(StoreError):
        one.put_state("word", "stale")
    assert other.state("word") == "mine"
    assert not one.lead()
    other.close()
    until = time.monotonic() + 10
    while not one.lead() and time.monotonic() < until:
        time.sleep(0.1)
    assert one.lead()


def test_a_share_that_nobody_finished_is_there_for_the_next(stores):
    leader, helper = stores("leader"), stores("helper")
    assert leader.lead()
    died = threading.Event()

    def dies(share):
        died.set()
        raise OSError("the folder is away")

    def works(share):
        if share.records == 2:
            raise ValueError("no method for this")
        return f"[{share.records}]"

    def help_and_die():
        while not died.is_set():
            try:
                Desk(helper, dies).help_once()
            except OSError:
                return

    thread = threading.Thread(target=help_and_die)
    thread.start()
    answers = Desk(leader, works).work_off([Share(Window(0, 1), (), records, ()) for records in (1, 2, 3)])
    died.set()
    thread.join()
    assert answers == ["[1]", f"{FAILED}ValueError", "[3]"]


def test_two_workers_of_one_name_are_refused(stores):
    one, other = stores("same"), stores("same")
    first = Duty(one, Config())
    first.claim_name()
    with pytest.raises(ConfigError, match="another worker named same"):
        Duty(other, Config()).claim_name(patience_s=0.3)
    assert first.once()
    (found,) = one.workers()
    assert found["present"]
    first._locks.release()


SLOW_AND_FAST = """
title = "A job with steps of four seconds beside two fast ones"
seconds = 60
seed = 5
[cluster]
servers = 6
gpus_per_server = 2
[[job]]
name = "slow"
tp = 2
pp = 2
dp = 1
micro_batches = 4
compute_ms = 250
[[job]]
name = "fast"
tp = 2
dp = 2
compute_ms = 60
[[job]]
name = "other"
tp = 2
dp = 2
compute_ms = 90
"""


def result(store):
    """All that windows have left in a store, except when and where they were computed."""
    history = History(store)
    runs = history.runs(limit=100)["items"]
    windows = history.windows(None, None, None, 1000)["items"]
    return {
        "runs": runs,
        "steps": [history.steps(run["id"], None, None) for run in runs],
        "transitions": history.transitions(None, None, None, 1000),
        "findings": history.findings(limit=100)["items"],
        "windows": [{key: value for key, value in one.items() if key not in ("wall_ns", "took_ms")} for one in windows],
    }


def test_windows_made_in_shares_are_those_of_a_single_service(stores, tmp_path):
    """Also where a slow job is looked at over longer spans."""
    simulate(parse_scenario("slow-and-fast", SLOW_AND_FAST), tmp_path / "sim")
    shared = stores("one", tmp_path / "sim" / "topology.json")
    rules = WindowSettings(length_s=12, hop_s=4, longest_s=48, idle_after_s=1e6)
    config = replace(stores.configs[shared], windows=rules)
    single = Store(StoreSettings(str(tmp_path / "plain")))
    single.create()
    alone, together = Evaluator(single, config), Worker(shared, config)
    shared.take_over(["kafka:flows/0"])
    with opened([str(tmp_path / "sim" / "flows.parquet")]) as capture, duckdb.connect() as connection:
        for number, low in enumerate(range(capture.first_ns, capture.last_ns + 1, 3 * S)):
            rows = f"FROM read_parquet('{capture.file}') WHERE end_ns >= {low} AND end_ns < {low + 3 * S}"
            accepted = Accepted(*connection.execute(f"SELECT count(*), count(*), 0 {rows}").fetchone(), (), 0, 0)
            first, last = connection.execute(f"SELECT min(start_ns), max(end_ns) {rows}").fetchone()
            accepted = replace(accepted, start_ns=first, end_ns=last)
            for store, spans in ((single, ()), (shared, (("0", f"{number or UNREAD}:{number + 1}"),))):
                file = store.segment_file(f"batch{number}", last)
                file.parent.mkdir(exist_ok=True)
                connection.execute(f"COPY (SELECT * {rows}) TO '{file}' (FORMAT parquet)")
                part = SourceBatch("kafka:flows/0", accepted, spans)
                store.commit_batch(Batch(f"batch{number}", (part,), file, number))
            for evaluator in (alone, together):
                while evaluator.advance():
                    pass
    expected, found = result(single), result(shared)
    for name, value in expected.items():
        assert found[name] == value, name
    assert len(expected["runs"]) >= 3
    assert max(run["reach_ns"] for run in expected["runs"]) > 12 * S
    single.close()


def test_a_topic_that_is_said_to_come_late_has_windows_of_its_own(stores, tmp_path):
    """Files of 40 s in a topic of their own, a minute late, while another topic streams: the windows of the stream do
    not wait for them and do not go back, and all of the files is looked at."""
    store = stores("one")
    topics = (KafkaSettings("none:1", "flows"), KafkaSettings("none:1", "files", late=True))
    config = replace(stores.configs[store], windows=WindowSettings(hop_s=12, idle_after_s=1e6), kafka=topics)
    store.close()
    store = SharedStore(config)
    (tmp_path / "bodies").mkdir()
    played = Topics(store, config, tmp_path / "bodies")
    streamed, filed = RingJob("j0"), RingJob("f0", period_s=0.6)
    store.take_over(["kafka:flows/0", "kafka:files/0"])
    marks = []
    try:
        for second in range(4, 184, 4):
            played.second = second
            played.send("kafka:flows/0", streamed.records(second - 4, second))
            if second >= 100 and second % 40 == 20:
                played.send("kafka:files/0", filed.records(second - 100, second - 60))
            played.make_windows()
            marks.append(store.watermark()[0])
    finally:
        played.close()
    assert marks == sorted(marks)
    assert marks[-1] >= BEGIN + 179 * S
    history = History(store)
    found = {run["members"][0].split("-gpu")[0]: run for run in history.runs(limit=100)["items"]}
    assert {name: run["state"] for name, run in found.items()} == {"j0": "running", "f0": "running"}
    assert found["j0"]["steps"] >= 165 / 0.5
    assert found["f0"]["steps"] >= 105 / 0.6, "no time is left out"
    assert history.late_window()["end_ns"] > BEGIN + 100 * S
    assert all(not one.get("unseen", 0) for one in history.sources())
    store.close()


def until_shared_out(left):
    """The workers that are left have all partitions and a leader. For a while they have none: the group shares them out
    again, which a busy machine makes it do at any time."""

    def workers():
        return {one["name"]: one for one in left[0].get("/api/v1/workers")["items"]}

    def partitions():
        return sum(len(workers()[one.folder.name]["partitions"]) for one in left)

    left[0].until(lambda: partitions() == MockKafka.partitions, 60)
    left[0].until(lambda: sum(workers()[one.folder.name]["leads"] for one in left) == 1, 60)
    assert sum(one["shares"] for one in workers().values()) > 0
    shown = f'llmprism_worker_partitions{{worker="{left[0].folder.name}"}} 2'
    left[0].until(lambda: shown in left[0].text("/metrics"), 60)


def test_one_of_three_workers_is_killed_and_nothing_changes(postgres, tmp_path):
    """Three workers, of which the leader is killed in mid-stream, leave what one undisturbed worker does."""
    flows, topology, records = busy_cluster(tmp_path)
    cluster = MockKafka()
    urls = {group: postgres.create(group) for group in ("calm", "three")}
    calm = worker(tmp_path / "calm", "alone", cluster.brokers, urls["calm"], topology)
    three = [worker(tmp_path / "three", f"w{number}", cluster.brokers, urls["three"], topology) for number in range(3)]
    half, killed = threading.Event(), threading.Event()

    def progress(sent, total):
        if sent > total / 2:
            half.set()
            killed.wait(120)

    def send():
        with opened([str(flows)]) as capture:
            play(capture, KafkaTarget(cluster.brokers, "flows"), speed=0, keep_times=True, progress=progress)

    sender = threading.Thread(target=send)
    try:
        for one in (calm, *three):
            one.start()
        sender.start()
        assert half.wait(60)
        watcher = three[0]
        watcher.until(lambda: watcher.get("/api/v1/windows")["items"], 120)
        watcher.until(
            lambda: sum(len(one["partitions"]) > 0 for one in watcher.get("/api/v1/workers")["items"]) == 3, 60
        )
        leader = next(one["name"] for one in watcher.get("/api/v1/workers")["items"] if one.get("leads"))
        victim = next(one for one in three if one.folder.name == leader)
        victim.kill()
        killed.set()
        sender.join()
        left = [one for one in three if one is not victim]
        for running, url in ((calm, urls["calm"]), (left[0], urls["three"])):
            until_all_is_looked_at(running, url, records)
        undisturbed, disturbed = results(calm), results(left[0])
        for name, expected in undisturbed.items():
            assert disturbed[name] == expected, name
        assert len(undisturbed["jobs"]) == 3
        assert {one["kind"] for one in undisturbed["findings"]} == {"slow_nic", "crash"}
        for one in disturbed["sources"]:
            assert one["received"] == one["stored"] + sum(one["dropped"].values())
        assert results(left[1]) == disturbed
        until_shared_out(left)
        left[0].until(lambda: left[0].get("/readyz")["ready"], 30)
        assert [one.stop() for one in (calm, *left)] == [0, 0, 0]
    finally:
        killed.set()
        for one in (calm, *three):
            if one.process is not None:
                one.stop()
