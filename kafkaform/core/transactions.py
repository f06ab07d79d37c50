"""Open transactions, as plain data: what holds back readers of committed records, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkaform.core.wording import listed, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkaform.core.layout import TopicPartition


DEFAULT_MAX_TIMEOUT_MS = 15 * 60_000
"""The default of the brokers' transaction.max.timeout.ms: no producer may ask for a longer timeout."""
GRACE_MS = 60_000
"""The time after its timeout in which a transaction is aborted: coordinators look for expired ones every 10 s
(transaction.abort.timed.out.transaction.cleanup.interval.ms). The clocks of brokers may differ, too."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in one partition.

    Attributes:
        partition: The partition.
        start: Its first offset there.
        end: The end of the log: readers of committed records get none of what is between.
        age_ms: Milliseconds since it began, or, where no coordinator has it open, since its last record was
            written; where the producer is unknown, a lower limit.
        timeout_ms: The timeout that its producer asked for; where no coordinator has it open, the longest
            one that brokers accept.
        producer: The id and the epoch of its producer; None where they could not be read.
        transactional_id: The transactional id of its producer; None where no coordinator lists it.
        coordinated: Whether a coordinator has it open in this partition, and so is going to end it.
        unknown: Why the producer could not be read; empty where it was.
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
        """Return whether it is open for longer than a coordinator would leave it open (KIP-664)."""
        return self.age_ms >= self.timeout_ms + GRACE_MS

    @property
    def name(self) -> str:
        """Return its name for messages: `transaction 'tx' (producer 4, epoch 0)`."""
        if self.producer is None:
            return "a transaction"
        number, epoch = self.producer
        name = f" {quoted(self.transactional_id)}" if self.transactional_id is not None else ""
        return f"transaction{name} (producer {number}, epoch {epoch})"

    @property
    def abort_command(self) -> str:
        """Return the command of Kafka's own tool that ends it in this partition."""
        topic, number = self.partition
        return (
            "kafka-transactions.sh --bootstrap-server HOST:PORT abort "
            f"--topic {topic} --partition {number} --start-offset {self.start}"
        )


@dataclass(frozen=True, slots=True)
class TransactionReading:
    """The open transactions of partitions.

    Attributes:
        transactions: The transactions, in the order of partitions and offsets.
        unread: Why it is not known of other partitions, or whether a coordinator has a transaction open;
            empty if all was read.
    """

    transactions: tuple[OpenTransaction, ...] = ()
    unread: str = ""


def group_by_producer(transactions: Iterable[OpenTransaction]) -> list[list[OpenTransaction]]:
    """Group the transactions of each producer: one may be open in a hundred partitions."""
    groups: dict[object, list[OpenTransaction]] = {}
    for transaction in transactions:
        key = transaction.producer, transaction.coordinated, transaction.unknown
        groups.setdefault(key, []).append(transaction)
    return list(groups.values())


def list_places(transactions: Iterable[OpenTransaction]) -> str:
    """Return where transactions are open: `orders:0 from offset 5, orders:1 from offset 7 and 3 more`."""
    places = [f"{t.partition[0]}:{t.partition[1]} from offset {t.start:,}" for t in transactions]
    return listed(places, noun="partition")
