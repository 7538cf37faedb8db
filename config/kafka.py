"""Kafka connections: addresses and security for kafka-python and for Spark; creation of the declared topics."""

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from config.declarations import Topic, topics
from config.errors import LakehouseError
from config.files import DamagedFileError, read_port
from config.password_files import read_password
from config.settings import Settings

TOPIC_SECONDS = 10
STAMP = "message.timestamp.type"
STAMPS = {"broker": "LogAppendTime", "producer": "CreateTime"}
Offsets = dict[tuple[str, int], int]

# kafka-python logs every refused connection; the user sees one LakehouseError instead.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


def servers(settings: Settings) -> str:
    """Return Kafka's address: the configured one, or that of the embedded broker."""
    if settings.kafka.servers:
        return settings.kafka.servers
    file = settings.home / "broker" / "port"
    if not file.exists():
        raise LakehouseError("The broker has never been started here.", "lakehouse broker start")
    port = read_port(file)
    if port is None:
        raise DamagedFileError(file, "lakehouse broker stop, then: lakehouse broker start")
    return f"127.0.0.1:{port}"


def python_options(settings: Settings) -> dict[str, Any]:
    """Return the connection options of kafka-python's clients."""
    options: dict[str, Any] = {
        "bootstrap_servers": servers(settings).split(","),
        "security_protocol": settings.kafka.security_protocol,
        # Default: 30 seconds, too long to learn that the broker is down. The embedded one is local and answers at once.
        "bootstrap_timeout_ms": 10_000 if settings.kafka.servers else 2_000,
    }
    if settings.kafka.sasl_mechanism:
        options |= {
            "sasl_mechanism": settings.kafka.sasl_mechanism,
            "sasl_plain_username": settings.kafka.username,
            "sasl_plain_password": _password(settings),
        }
    return options


def spark_options(settings: Settings) -> dict[str, str]:
    """Return the connection options of Spark's Kafka source and sink."""
    options = {
        "kafka.bootstrap.servers": servers(settings),
        "kafka.security.protocol": settings.kafka.security_protocol,
    }
    if settings.kafka.sasl_mechanism:
        module = "plain.PlainLoginModule" if settings.kafka.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
        options["kafka.sasl.mechanism"] = settings.kafka.sasl_mechanism
        options["kafka.sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required "
            f'username="{settings.kafka.username}" password="{_password(settings)}";'
        )
    return options


def spark_source_options(settings: Settings, answer_seconds: float | None = None) -> dict[str, str]:
    """Return the options of Spark's Kafka source: connection, isolation level and consumer tuning.

    answer_seconds: how long to wait for an answer before the query fails; by default Kafka's one minute, three times.
    """
    timeout = {
        "kafka.request.timeout.ms": str(int((answer_seconds or 0) * 1000)),
        "kafka.default.api.timeout.ms": str(int((answer_seconds or 0) * 1000)),
        "fetchOffset.numRetries": "1",
    }
    return {
        **(timeout if answer_seconds else {}),
        **spark_options(settings),
        "kafka.isolation.level": "read_committed",
        # After each poll Spark requests the end offset, on the connection on which a prefetch beyond the end waits for
        # new records, by default half a second. Spark only reads offsets that exist, so it need not wait.
        "kafka.fetch.max.wait.ms": "10",
        "kafka.max.poll.records": "5000",
        "kafka.receive.buffer.bytes": str(2**20),
    }


@contextmanager
def reachable(settings: Settings) -> Iterator[None]:
    """Turn a Kafka error into a LakehouseError with a hint."""
    try:
        yield
    except KafkaError as error:
        hint = (
            "Check kafka.servers and the security settings."
            if settings.kafka.servers
            else "lakehouse broker status, then: lakehouse broker start"
        )
        raise LakehouseError(f"Kafka at {servers(settings)} does not answer: {error}", hint) from None


def ensure_topics(settings: Settings) -> list[str]:
    """Create the declared topics that do not exist yet; return their names."""
    with reachable(settings), _closing(KafkaAdminClient(**python_options(settings))) as admin:
        missing = [topic for topic in topics().values() if topic.name not in admin.list_topics()]
        for topic in missing:
            try:
                admin.create_topics([_new_topic(topic)])
            except TopicAlreadyExistsError:
                continue  # another process created it
        # A broker knows a new topic only once the controller has told it, a moment later.
        deadline = time.monotonic() + TOPIC_SECONDS
        while not set(topics()) <= set(admin.list_topics()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [topic.name for topic in missing]


def let_producers_stamp(settings: Settings) -> None:
    """Let producers set the arrival time in every topic, as the simulator does; never change another Kafka."""
    stamped_by_broker = [name for name, stamp in _stamps(settings, topics()).items() if stamp != STAMPS["producer"]]
    if stamped_by_broker and settings.kafka.servers:
        raise LakehouseError(
            f"In {', '.join(stamped_by_broker)} Kafka replaces the arrival times that the simulator sets.",
            f"Use the embedded broker, or set {STAMP}={STAMPS['producer']} on these topics and declare "
            "`arrival: producer` in config/topics.",
        )
    if not stamped_by_broker:
        return
    with reachable(settings), _closing(KafkaAdminClient(**python_options(settings))) as admin:
        admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, name, {STAMP: STAMPS["producer"]}) for name in stamped_by_broker]
        )
    # The broker learns of it a moment later; until then it would replace the first timestamps.
    deadline = time.monotonic() + TOPIC_SECONDS
    while STAMPS["broker"] in _stamps(settings, stamped_by_broker).values() and time.monotonic() < deadline:
        time.sleep(0.05)


def refuse_untrusted_arrivals(settings: Settings, names: Iterable[str]) -> None:
    """Refuse another Kafka's topics in which producers set the arrival time, unless their declaration says so.

    In the embedded broker the simulator sets it.
    """
    if not settings.kafka.servers:
        return
    stamps = _stamps(settings, [name for name in names if topics()[name].arrival == "broker"])
    untrusted = [name for name, stamp in stamps.items() if stamp != STAMPS["broker"]]
    if untrusted:
        raise LakehouseError(
            f"In {', '.join(untrusted)} producers set the arrival time ({STAMP}=CreateTime): one wrong clock could "
            "make the events of all others late.",
            f"Let the broker set it: kafka-configs --alter --topic {untrusted[0]} --add-config {STAMP}=LogAppendTime\n"
            f"If every producer's clock can be trusted: `arrival: producer` in config/topics/{untrusted[0]}.yaml",
        )


def _stamps(settings: Settings, names: Iterable[str]) -> dict[str, str]:
    """Return the kind of timestamp of each topic."""
    with reachable(settings), _closing(KafkaAdminClient(**python_options(settings))) as admin:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name, {STAMP: None}) for name in names]
        found = admin.describe_configs(resources, config_filter="all") if resources else {}
    return {name: configs[STAMP]["value"] for topic in found.values() for name, configs in topic.items()}


def keep_records_of_any_age(settings: Settings, names: Iterable[str]) -> None:
    """Switch declared retention by time off: Kafka goes by the record's timestamp, and the simulator's are old."""
    dated = [name for name in names if topics()[name].retention["retention.ms"] != "-1"]
    if dated:
        changes = [ConfigResource(ConfigResourceType.TOPIC, name, {"retention.ms": "-1"}) for name in dated]
        with reachable(settings), _closing(KafkaAdminClient(**python_options(settings))) as admin:
            admin.alter_configs(changes)


def end_offsets(settings: Settings, names: Iterable[str]) -> Offsets:
    """Return the end offset of every partition of the topics."""
    return _offsets(settings, names, "end_offsets")


def begin_offsets(settings: Settings, names: Iterable[str]) -> Offsets:
    """Return the earliest offset that Kafka still retains, for every partition of the topics."""
    return _offsets(settings, names, "beginning_offsets")


def topic_ids(settings: Settings, names: Iterable[str]) -> dict[str, str]:
    """Return the ids of the topics that exist: a topic that was deleted and created again has another id."""
    with reachable(settings), _closing(KafkaAdminClient(**python_options(settings))) as admin:
        found = admin.describe_topics(list(names))
    return {topic["name"]: str(topic["topic_id"]) for topic in found if not topic["error_code"]}


def _offsets(settings: Settings, names: Iterable[str], which: str) -> Offsets:
    with reachable(settings), _closing(KafkaConsumer(**python_options(settings))) as consumer:
        every = [TopicPartition(name, part) for name in names for part in consumer.partitions_for_topic(name) or ()]
        found = getattr(consumer, which)(every) if every else {}
        return {(each.topic, each.partition): offset for each, offset in found.items()}


def _new_topic(topic: Topic) -> NewTopic:
    configs = {**topic.retention, STAMP: STAMPS[topic.arrival]}
    return NewTopic(topic.name, num_partitions=topic.partitions, replication_factor=-1, topic_configs=configs)


def _password(settings: Settings) -> str:
    if settings.kafka.password:
        return settings.kafka.password.get_secret_value()
    if settings.kafka.password_file:
        return read_password(settings.kafka.password_file, "kafka.password_file")
    raise LakehouseError(
        "kafka.sasl_mechanism is set, but there is no password.",
        "Set LAKEHOUSE_KAFKA__PASSWORD or kafka.password_file.",
    )


@contextmanager
def _closing(client: Any) -> Iterator[Any]:
    try:
        yield client
    finally:
        client.close()
