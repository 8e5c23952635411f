"""Settings of workers that could not work are refused before anything starts."""

import pytest

pytest.importorskip("sqlalchemy", reason="needs llmprism[serve]")

from llmprism.errors import ConfigError
from llmprism.service.config import parse_config

GOOD = """
[store]
url = "postgresql://llmprism@db/llmprism"
[[kafka]]
brokers = "kafka:9092"
topic = "flows"
[workers]
enabled = true
"""


def test_workers_need_a_database_and_a_topic():
    config = parse_config(GOOD, {"LLMPRISM_WORKERS__NAME": "rack-1"}, "test")
    assert config.workers.enabled
    assert config.workers.name == "rack-1"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('url = "postgresql://llmprism@db/llmprism"', "", "workers.enabled: needs a PostgreSQL database"),
        ('[[kafka]]\nbrokers = "kafka:9092"\ntopic = "flows"', "", "workers.enabled: needs a"),
        ('topic = "flows"', 'topic = "flows"\nbatch_s = 10.0', "kafka.batch_s: at most 2"),
        ("enabled = true", 'enabled = true\n[[directory]]\npath = "drop"', "records come from Kafka alone"),
        ("enabled = true", "enabled = true\nshare_records = 0", "workers.share_records: at least 1"),
        ("enabled = true", "enabled = true\nmax_shares = 0", "workers.max_shares: between 1 and 1000"),
        ("enabled = true", "enabled = true\nsession_s = 0.1", "workers.session_s: at least 1"),
        ("enabled = true", 'enabled = true\nname = "../up"', "workers.name: at most 64 letters"),
        ("enabled = true", 'enabled = true\nname = ".."', "workers.name: at most 64 letters"),
    ],
)
def test_what_cannot_work_is_refused(old, new, message):
    with pytest.raises(ConfigError, match=message):
        parse_config(GOOD.replace(old, new), {}, "test")
