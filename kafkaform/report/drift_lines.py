"""The lines of a manifest that settle drift, as they are to be written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkaform.config.manifests.edit_scalars import Style
from kafkaform.config.manifests.written import written
from kafkaform.core.model import CONFIG_PREFIX
from kafkaform.core.printable import clipped, printable
from kafkaform.resources import KINDS
from kafkaform.resources.values import LONGEST

if TYPE_CHECKING:
    from kafkaform.report.drift_ways import Line

UNDECLARED_FIRST = "First write this, which removes what is not declared:"
BY_HAND = "Or by hand:"

_STYLE = Style()


def yaml_of(line: Line) -> str:
    """The line itself, without its indentation."""
    value: str | int | bool | None = line.value
    if isinstance(value, str) and line.path.startswith(CONFIG_PREFIX):
        value = written(KINDS[line.kind].configs().get(line.path.removeprefix(CONFIG_PREFIX)), value)
    return f"{_STYLE.scalar(line.keys[-1])}: {_STYLE.scalar(value)}"


def line_words(line: Line) -> str:
    """Where it goes, and the line."""
    where = f"{line.place.file}:{line.place.line}" if line.place else "the manifest"
    into = f", in {'.'.join(line.keys[:-1])}" if line.new else ""
    return f"{printable(where + into)}:  {clipped(yaml_of(line), LONGEST)}"
