"""The store on PostgreSQL, also when it goes away for a while."""

import threading
import time

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")
pytest.importorskip("fastapi", reason="needs llmprism[serve]")
pytest.importorskip("psycopg", reason="needs llmprism[postgresql]")

from llmprism.service.player import HttpTarget, opened, play
from support.postgres import Postgres
from support.reports import EXAMPLES
from support.service import RunningService

SLOW_NIC = EXAMPLES / "slow_nic"


def test_postgresql_holds_the_same_and_may_go_away(tmp_path):
    """Also with a webhook whose address is longer than the column that earlier versions made for it."""
    with Postgres() as database:
        running = RunningService(
            tmp_path,
            "-t",
            str(SLOW_NIC / "topology.json"),
            STORE__URL=database.url,
            WINDOWS__IDLE_AFTER_S=1e6,
            ALERTS__WEBHOOK="http://127.0.0.1:9/" + "long" * 50,
        ).start()
        try:

            def send():
                with opened([str(SLOW_NIC / "flows.parquet")]) as capture:
                    play(capture, HttpTarget(running.url, "test"), speed=4, keep_times=True)

            sender = threading.Thread(target=send)
            sender.start()
            running.until(lambda: running.get("/api/v1/windows")["items"], 60)
            database.stop()
            time.sleep(4)
            database.start()
            sender.join()
            running.until(lambda: running.get("/api/v1/findings")["items"], 60)
            (source,) = running.get("/api/v1/sources")["items"]
            assert source["received"] == source["stored"] == 63_929
            assert running.get("/api/v1/findings")["items"][0]["where"]["id"] == "10.13.0.1"
            running.until(lambda: running.get("/readyz")["ready"], 30)
        finally:
            running.stop()
