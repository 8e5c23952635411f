"""What every reader of a Kafka topic does: load the client, join the group, take turns until it is stopped."""

from __future__ import annotations

import logging
import threading
from typing import Any, Final, Protocol

from llmprism.errors import ConfigError

__all__ = ["TopicReader"]

log = logging.getLogger(__name__)

SESSION_S: Final = 10.0
"""A reader that says nothing for so long is no more in its group. One that was killed keeps its partitions from its
successor until then (45 s are the client's default), and windows wait for half a minute; brokers allow 6 s at least."""


class _Topic(Protocol):
    @property
    def brokers(self) -> str: ...
    @property
    def topic(self) -> str: ...
    @property
    def group(self) -> str: ...


class TopicReader:
    """`run` in a thread of its own until `stop` is set. Offsets are committed by the readers, once what they stand for
    is stored. `section` is where the topic is configured, for the error without the client."""

    def __init__(self, topic: _Topic, name: str, section: str) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise ConfigError(f"{section}: needs confluent-kafka; install llmprism[kafka]") from None
        self._kafka: Any = confluent_kafka
        self._topic = topic
        self.name = name
        self.trouble = ""

    def run(self, stop: threading.Event) -> None:
        consumer = self._kafka.Consumer(
            {
                "bootstrap.servers": self._topic.brokers,
                "group.id": self._topic.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": int(SESSION_S * 1000),
                "error_cb": self._on_error,
                **self._options(),
            }
        )
        self._subscribe(consumer)
        try:
            while not stop.is_set():
                self._turn(consumer, stop)
        finally:
            consumer.close()

    def _subscribe(self, consumer: Any) -> None:
        consumer.subscribe([self._topic.topic])

    def _options(self) -> dict[str, Any]:
        """More options of the client."""
        return {}

    def _turn(self, consumer: Any, stop: threading.Event) -> None:
        """Take in what has come."""
        raise NotImplementedError

    def _on_error(self, error: Any) -> None:
        log.warning("kafka", extra={"source": self.name, "reason": str(error)})
        self.trouble = str(error)
