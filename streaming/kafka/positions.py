"""Where a consumer continues: at the committed offsets of its group, and never silently after them."""

from typing import Protocol

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

from config.errors import LakehouseError
from config.settings import Settings
from lake.losses import describe, record

NETWORK_MS = 5_000


class Reader(Protocol):
    """A consumer group, and the command that runs it."""

    @property
    def name(self) -> str:
        """Return the name of the group."""

    @property
    def command(self) -> str:
        """Return the command that runs it."""


def seek_to_committed(consumer: KafkaConsumer, group: Reader, settings: Settings, accept_loss: str | None) -> None:
    """Seek every assigned partition to the committed offset, or where nothing was committed to its beginning.

    What Kafka no longer has from there on is an error; with a reason to accept it, it is recorded as lost and passed.
    """
    assigned = consumer.assignment()
    firsts = consumer.beginning_offsets(assigned, timeout_ms=NETWORK_MS) if assigned else {}
    ends = consumer.end_offsets(assigned, timeout_ms=NETWORK_MS) if assigned else {}
    for partition in assigned:
        committed, first = consumer.committed(partition, timeout_ms=NETWORK_MS), firsts[partition]
        if committed is None:
            committed = first  # the group has not begun to read it, so what was deleted before is no loss
        if committed > ends[partition]:
            raise _another_log(group, partition, committed, ends[partition])
        if committed < first:
            _pass_loss(consumer, group, settings, accept_loss, partition, committed, first)
        consumer.seek(partition, max(committed, first))


def _pass_loss(
    consumer: KafkaConsumer,
    group: Reader,
    settings: Settings,
    reason: str | None,
    partition: TopicPartition,
    committed: int,
    first: int,
) -> None:
    lost = {(partition.topic, partition.partition): (committed, first)}
    if not reason:
        raise LakehouseError(
            f"Kafka no longer has {describe(lost)}, which '{group.name}' has not read: they are lost.",
            f'lakehouse {group.command} --accept-loss "REASON"   (records them in the ledger as lost)',
        )
    record(settings, group.name, lost, reason)
    consumer.commit({partition: OffsetAndMetadata(first, "", -1)})


def _another_log(group: Reader, partition: TopicPartition, committed: int, end: int) -> LakehouseError:
    return LakehouseError(
        f"'{group.name}' has read {partition.topic}/{partition.partition} up to offset {committed:,}, but it ends at "
        f"{end:,}: this is a different log from the one it read.",
        f"Restore the old log, or delete the consumer group '{group.name}' in Kafka: then the topic is read from its "
        "beginning.",
    )
