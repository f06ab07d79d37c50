"""Offsets as CSV, as `kafka-consumer-groups` writes (`--export`) and reads (`--from-file`) them."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from kafkaform.core.errors import InvalidInput, Problem
from kafkaform.core.model import Location

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkaform.core.groups import TopicPartition

_FORMAT = "write topic,partition,offset"
_COLUMNS = 3
_COLUMNS_WITH_GROUP = 4


def write_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """One line a partition: topic, partition, offset; no header, as Kafka's tool has none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([topic, number, offset] for (topic, number), offset in sorted(offsets.items()))
    return text.getvalue()


def read_offsets(text: str, file: str, group: str) -> dict[TopicPartition, int]:
    """Read offsets; lines with four columns begin with the group, and those of other groups are left out.

    Args:
        text: The content of the file.
        file: Its name, for messages.
        group: The group that is meant.

    Raises:
        InvalidInput: With every line that is no offset, or says another one for the same partition.
    """
    problems: list[Problem] = []
    offsets: dict[TopicPartition, int] = {}
    reader = csv.reader(io.StringIO(text))
    try:
        for row in reader:
            if not row:
                continue
            place = Location(file, reader.line_num)
            columns = [column.strip() for column in row]
            if len(columns) == _COLUMNS_WITH_GROUP and columns.pop(0) != group:
                continue
            if len(columns) != _COLUMNS or not all(c.isascii() and c.isdigit() for c in columns[1:]):
                problems.append(Problem("is no offset", place, _FORMAT))
                continue
            partition = columns[0], int(columns[1])
            if offsets.setdefault(partition, int(columns[2])) != int(columns[2]):
                problems.append(
                    Problem(f"another offset for {partition[0]}:{partition[1]}", place, "keep one of the two")
                )
    except csv.Error as error:
        problems.append(Problem(f"not CSV: {error}", Location(file, reader.line_num)))
    if not problems and not offsets:
        problems.append(Problem(f"no offset of group {group}", Location(file), _FORMAT))
    if problems:
        raise InvalidInput(problems)
    return offsets
