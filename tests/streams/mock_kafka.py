"""Kafka's protocol without Kafka: the cluster that librdkafka brings for its own tests.

No broker can be installed from the registries of packages, so this is what topics are read from in
tests. It is a server of its own on a port of this machine, which other processes read from over the
real protocol. It neither stamps records on arrival nor knows transactions; tests of stamps use a
client of their own. The library is the one inside confluent-kafka, called by its C interface,
because Python's has no way to take a topic away or to stop a broker.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka

UNKNOWN_TOPIC = 3
_PRODUCER = 0
_POINTER = ctypes.c_void_p


def _library() -> Any:
    home = Path(confluent_kafka.__file__).parent.with_name("confluent_kafka.libs")
    library = ctypes.CDLL(str(next(home.glob("librdkafka*"))))
    text, number = ctypes.c_char_p, ctypes.c_int
    for name, result, arguments in (
        ("rd_kafka_conf_new", _POINTER, ()),
        ("rd_kafka_new", _POINTER, (number, _POINTER, text, ctypes.c_size_t)),
        ("rd_kafka_mock_cluster_new", _POINTER, (_POINTER, number)),
        ("rd_kafka_mock_cluster_bootstraps", text, (_POINTER,)),
        ("rd_kafka_mock_cluster_destroy", None, (_POINTER,)),
        ("rd_kafka_mock_topic_create", number, (_POINTER, text, number, number)),
        ("rd_kafka_mock_topic_set_error", None, (_POINTER, text, number)),
        (
            "rd_kafka_mock_partition_delete_records",
            number,
            (_POINTER, text, number, ctypes.c_int64),
        ),
        ("rd_kafka_mock_broker_set_down", number, (_POINTER, number)),
        ("rd_kafka_mock_broker_set_up", number, (_POINTER, number)),
        ("rd_kafka_destroy", None, (_POINTER,)),
        ("rd_kafka_conf_set", number, (_POINTER, text, text, text, ctypes.c_size_t)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, list(arguments)
    return library


class Cluster:
    """One broker with topics, as long as the context lasts."""

    def __enter__(self) -> Cluster:
        self._library, said = _library(), ctypes.create_string_buffer(512)
        settings = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(settings, b"log_level", b"0", said, 512)
        self._handle = self._library.rd_kafka_new(_PRODUCER, settings, said, 512)
        self._cluster = self._library.rd_kafka_mock_cluster_new(self._handle, 1)
        self.servers = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.servers, "log_level": 0, "error_cb": lambda _: None}
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._handle)

    def create(self, topic: str, partitions: int) -> str:
        """Make a topic and give its address."""
        self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1)
        return f"kafka://{self.servers}/{topic}"

    def send(self, topic: str, records: Iterable[Mapping[str, Any] | bytes | None]) -> None:
        """Put records into the topic's partitions, one after the other by turns."""
        partitions = len(self._producer.list_topics(topic).topics[topic].partitions)
        for k, record in enumerate(records):
            value = json.dumps(record).encode() if isinstance(record, Mapping) else record
            self._producer.produce(topic, value=value, partition=k % partitions)
        assert self._producer.flush(10) == 0

    def take_away(self, topic: str) -> None:
        """Say from now on that there is no such topic."""
        self._library.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), UNKNOWN_TOPIC)

    def bring_back(self, topic: str) -> None:
        self._library.rd_kafka_mock_topic_set_error(self._cluster, topic.encode(), 0)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """What a short retention does."""
        self._library.rd_kafka_mock_partition_delete_records(
            self._cluster, topic.encode(), partition, offset
        )

    def stop(self) -> None:
        self._library.rd_kafka_mock_broker_set_down(self._cluster, 1)

    def start(self) -> None:
        self._library.rd_kafka_mock_broker_set_up(self._cluster, 1)
        self._producer.list_topics(timeout=10)  # it listens again
