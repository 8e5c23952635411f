"""A Kafka topic of log lines, read into a spool.

A message is a JSON object, as log shippers send them, with the text and the names of its job and writer under fields of
the configuration (`kubernetes.pod_name`: dots lead inwards); or it is plain text whose key is `job/writer`. What names
neither is counted as dropped. The group's offsets are committed once the lines are on disk: a crash or a change of
partitions between the two repeats some lines and loses none. Several workers share the partitions; each writes a spool
of its own.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter, defaultdict
from typing import Any, Final

from llmprism.service.joblogs.names import safe_name
from llmprism.service.joblogs.options import KafkaLogSettings
from llmprism.service.joblogs.spool import LogSpool
from llmprism.service.sources.topic_reader import TopicReader
from llmprism.service.store import Store

__all__ = ["KafkaLogSource", "read_message"]

log = logging.getLogger(__name__)

POLL_S: Final = 0.5
MESSAGES: Final = 5_000
"""Messages taken at once: with a kilobyte each, five megabytes in memory."""

MAX_MESSAGE: Final = 1 << 20


class KafkaLogSource(TopicReader):
    """Lines of a topic, appended to the spool."""

    def __init__(self, settings: KafkaLogSettings, store: Store, spool: LogSpool) -> None:
        super().__init__(settings, f"job_logs:kafka:{settings.topic}", "job_logs.kafka")
        self._settings = settings
        self._store = store
        self._spool = spool

    def _turn(self, consumer: Any, stop: threading.Event) -> None:  # noqa: ARG002 - a turn takes half a second
        self.turn(consumer)

    def turn(self, consumer: Any) -> int:
        """Take in what has come; the number of messages."""
        texts: defaultdict[tuple[str, str], list[bytes]] = defaultdict(list)
        counts: Counter[tuple[str, str]] = Counter()
        ends: dict[int, int] = {}
        messages = consumer.consume(MESSAGES, POLL_S)
        for message in messages:
            if message.error():
                self.trouble = str(message.error())
                continue
            self.trouble = ""
            ends[message.partition()] = message.offset() + 1
            read = read_message(message.key(), message.value(), self._settings)
            if isinstance(read, str):
                counts["received", ""] += 1
                counts["dropped", read] += 1
            else:
                texts[read[0], read[1]].append(read[2])
        for (job, writer), parts in texts.items():
            taken = self._spool.append(job, writer, b"\n".join(parts))
            counts["received", ""] += taken.received
            counts["stored", ""] += taken.stored
            for reason, number in taken.dropped.items():
                counts["dropped", reason] += number
        if counts:
            self._store.add_counts(self.name, [(name, reason, number) for (name, reason), number in counts.items()])
        if ends:
            offsets = [
                self._kafka.TopicPartition(self._settings.topic, partition, end) for partition, end in ends.items()
            ]
            self._commit(consumer, offsets)
        return len(messages)

    def _commit(self, consumer: Any, offsets: list[Any]) -> None:
        """The offsets become the group's; where partitions have just gone to another worker, it reads them again."""
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except self._kafka.KafkaException as error:
            log.warning("offsets not committed", extra={"source": self.name, "reason": str(error)})


def read_message(key: bytes | None, value: bytes | None, settings: KafkaLogSettings) -> tuple[str, str, bytes] | str:
    """(job, writer, text) of a message, or why it has none."""
    if not value or len(value) > MAX_MESSAGE:
        return "too_long" if value else "empty"
    if value.lstrip()[:1] == b"{":
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            return "unreadable"
        text = _field(document, settings.text)
        job, writer = _field(document, settings.job), _field(document, settings.writer)
        if text is None:
            return "no_text"
    else:
        job, _, writer = (key or b"").decode("utf-8", "replace").partition("/")
        text = value.decode("utf-8", "replace")
    if not job or not writer:
        return "no_writer"
    return safe_name(job, "job"), safe_name(writer, "log"), text.encode("utf-8", "replace")


def _field(document: Any, path: str) -> str | None:
    """The text under a path of names; a number counts as text (`"rank": 3`)."""
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    if isinstance(document, bool) or not isinstance(document, str | int):
        return None
    return str(document)
