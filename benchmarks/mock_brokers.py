"""Kafka brokers in a process of their own that go away and come back: librdkafka's built-in cluster.

The brokers speak Kafka's protocol on sockets of loopback and keep messages and offsets in memory, also while they are
away: then their ports are closed and all connections broken. What Python's client does not offer (closing the ports) is
called in its C library. `down` and `up` on standard input; the first line of the output is the brokers' addresses.
Usage: python benchmarks/mock_brokers.py TOPIC PARTITIONS
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import confluent_kafka

__all__ = ["MockCluster"]

PRODUCER = 0
BROKER = 1
"""The number of the only broker."""


def _library() -> ctypes.CDLL:
    folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    files = sorted(folder.glob("librdkafka*.so*"))
    library = ctypes.CDLL(str(files[0]) if files else "librdkafka.so.1")
    library.rd_kafka_conf_new.restype = ctypes.c_void_p
    library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_new.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_new.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    library.rd_kafka_mock_cluster_bootstraps.argtypes = [ctypes.c_void_p]
    library.rd_kafka_mock_topic_create.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    for name in ("rd_kafka_mock_broker_set_down", "rd_kafka_mock_broker_set_up"):
        getattr(library, name).argtypes = [ctypes.c_void_p, ctypes.c_int32]
    return library


class MockCluster:
    """One broker with one topic."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._library = _library()
        error = ctypes.create_string_buffer(512)
        client = self._library.rd_kafka_new(PRODUCER, self._library.rd_kafka_conf_new(), error, len(error))
        if not client:
            raise RuntimeError(error.value.decode())
        self._cluster = self._library.rd_kafka_mock_cluster_new(client, 1)
        self.addresses = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1)

    def down(self) -> None:
        self._library.rd_kafka_mock_broker_set_down(self._cluster, BROKER)

    def up(self) -> None:
        self._library.rd_kafka_mock_broker_set_up(self._cluster, BROKER)


def main() -> None:
    cluster = MockCluster(sys.argv[1], int(sys.argv[2]))
    print(cluster.addresses, flush=True)
    for line in sys.stdin:
        if line.strip() == "down":
            cluster.down()
        elif line.strip() == "up":
            cluster.up()
        print("done", flush=True)


if __name__ == "__main__":
    main()
