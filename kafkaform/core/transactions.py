"""Open transactions, which hold back readers of committed records, and producers, as plain data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.core.values import Value
from kafkaform.core.wording import listed, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaform.core.partitions import TopicPartition


# For clusters whose configs cannot be read.
DEFAULT_MAX_TIMEOUT_MS = 15 * 60_000
"""The default of the brokers' transaction.max.timeout.ms: no producer may ask for a longer timeout."""
GRACE_MS = 60_000
"""The time after its timeout in which a transaction is aborted: coordinators look for expired ones every 10 s
(transaction.abort.timed.out.transaction.cleanup.interval.ms). The clocks of brokers may differ, too."""


class OpenTransaction(Value):
    """A transaction that is open in one partition.

    Attributes:
        start: Its first offset in the partition.
        end: The end of the log: readers of committed records get none of the records in between.
        age_ms: Milliseconds since it began, or, if no coordinator has it open, since its last record was
            written; a lower limit if the producer is unknown.
        timeout_ms: The timeout that its producer requested; if no coordinator has it open, the longest one
            that brokers accept.
        producer: The id and the epoch of its producer; None if they could not be read.
        transactional_id: The transactional id of its producer; None if no coordinator lists it.
        coordinated: Whether a coordinator has it open in this partition, and will end it.
        unknown: The reason why the producer could not be read; empty if it was.
    """

    partition: TopicPartition
    start: int
    end: int
    age_ms: int
    timeout_ms: int
    producer: tuple[int, int] | None = None
    transactional_id: str | None = None
    coordinated: bool = False
    unknown: str = ""

    @property
    def is_hanging(self) -> bool:
        """True if it has been open for longer than a coordinator allows (KIP-664)."""
        return self.age_ms >= self.timeout_ms + GRACE_MS

    @property
    def name(self) -> str:
        """Its name for messages: `transaction 'tx' (producer 4, epoch 0)`."""
        if self.producer is None:
            return "a transaction"
        number, epoch = self.producer
        name = f" {quoted(self.transactional_id)}" if self.transactional_id is not None else ""
        return f"transaction{name} (producer {number}, epoch {epoch})"

    @property
    def abort_command(self) -> str:
        """The command of Kafka's own tool that ends it in this partition."""
        topic, number = self.partition
        return (
            "kafka-transactions.sh --bootstrap-server HOST:PORT abort "
            f"--topic {topic} --partition {number} --start-offset {self.start}"
        )


class TransactionReading(Value):
    """The open transactions of partitions.

    Attributes:
        transactions: The transactions, in the order of partitions and offsets.
        unread: The reason why partitions or coordinators could not be read; empty if all were.
    """

    transactions: tuple[OpenTransaction, ...] = ()
    unread: str = ""


class ProducerState(Value):
    """The state that the leader of a partition keeps of an idempotent or transactional producer (KIP-664).

    Attributes:
        written_ms: The time of its last batch in the partition, in milliseconds since 1970; -1 if unknown.
        sequence: The sequence number of its last record in the partition; -1 if it has written none.
        transactional_id: Its transactional id; None if no coordinator lists it.
        coordinator: The broker that coordinates its transactions; None if none does.
    """

    partition: TopicPartition
    id: int
    epoch: int
    written_ms: int = -1
    sequence: int = -1
    transactional_id: str | None = None
    coordinator: int | None = None

    @property
    def name(self) -> str:
        """Its name for messages: `'tx' (producer 4, epoch 0)`."""
        known = f"producer {self.id}, epoch {self.epoch}"
        return known if self.transactional_id is None else f"{quoted(self.transactional_id)} ({known})"


class ProducerReading(Value):
    """The producers that leaders remember, by partition and id.

    Attributes:
        unread: The reason why some may be missing; empty if all were read.
    """

    producers: tuple[ProducerState, ...] = ()
    unread: str = ""


def group_by_producer(transactions: Iterable[OpenTransaction]) -> list[list[OpenTransaction]]:
    """Group transactions by producer: one may be open in a hundred partitions."""
    groups: dict[object, list[OpenTransaction]] = {}
    for transaction in transactions:
        # A producer can have one transaction at a time, so its id and epoch identify the transaction.
        key = transaction.producer, transaction.coordinated, transaction.unknown
        groups.setdefault(key, []).append(transaction)
    return list(groups.values())


def list_places(transactions: Iterable[OpenTransaction]) -> str:
    """List the partitions of transactions: `orders:0 from offset 5, orders:1 from offset 7 and 3 more`."""
    starts = [f"{t.partition[0]}:{t.partition[1]} from offset {t.start:,}" for t in transactions]
    return listed(starts, noun="partition")
