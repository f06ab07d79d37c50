"""The operations that place and move replicas, or wait for that."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from kafkaform.core.operations import AlterConfigs, FieldFormatter, Operation, Phase
from kafkaform.resources.replicas.facts import PLACEMENT, REPLICATION_FACTOR
from kafkaform.resources.replicas.layout import Assignment, replica_changes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kafkaform.core.partitions import Replicas


class PartitionCreation(Operation):
    """Create partitions.

    Attributes:
        assignment: The brokers of each; if empty, the controller chooses.
    """

    @property
    @abstractmethod
    def assignment(self) -> Assignment:
        """The brokers of each; if empty, the controller chooses."""


class Reassign(Operation):
    """Change the replicas of partitions of a topic, the preferred leader first (KIP-455).

    It ends once all new replicas are in sync, which can take hours.

    Attributes:
        before: The expected present replicas of each partition.
        after: The new replicas of the same partitions.
    """

    before: Mapping[int, Replicas]
    after: Mapping[int, Replicas]

    phase = Phase.ALTER

    @property
    def weight(self) -> int:
        """One for each partition."""
        return 1 + len(self.after)

    def words(self, _format_field: FieldFormatter) -> str:
        """Return the numbers of replicas that are added and dropped."""
        return str(replica_changes(self.before, self.after))

    def paths(self, changed: Collection[str]) -> Iterable[str]:
        """Return the fields of the replicas' number and placement."""
        return [path for path in (REPLICATION_FACTOR, PLACEMENT) if path in changed]


class AlterConfigsInSync(AlterConfigs):
    """Alter configs once enough replicas of every partition are in sync.

    min.insync.replicas is lowered before replicas are dropped, and raised once the new ones are in sync: the
    other way round, producers with acks=all would stop meanwhile.

    Attributes:
        least_in_sync: The required number of replicas in sync.
    """

    least_in_sync: int = 0

    phase = Phase.SETTLE
