"""Importing the manifests of other tools: one module a tool, and the table of them.

A converter adds what a cluster made by the tool would have, so that writing manifests and checking them is
the same as for a live cluster. What has no counterpart is named with its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkaform.config.manifests.files import find_manifest_files, read_bytes
from kafkaform.config.manifests.yaml12 import read_documents
from kafkaform.core.errors import InvalidInput, Problem, UsageError
from kafkaform.core.wording import listed
from kafkaform.inspect.importers import jikkou, julieops, kafka_gitops, strimzi, terraform, topicctl
from kafkaform.inspect.importers.conversion import Conversion
from kafkaform.inspect.importers.fields import VERBATIM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from kafkaform.config.manifests.yaml12 import Data, Document
    from kafkaform.inspect.importers.fields import Fields

AUTO = "auto"
"""The name for finding out of which tool files are."""


class _Importer(Protocol):
    """The module of a tool."""

    def matches(self, data: Mapping[str, Data], /) -> bool:
        """Return whether a document is one of the tool."""

    def convert(self, documents: Sequence[Fields], out: Conversion, /) -> None:
        """Convert all documents of a run."""


IMPORTERS: Mapping[str, _Importer] = {
    "kafka-gitops": kafka_gitops,
    "julieops": julieops,
    "topicctl": topicctl,
    "jikkou": jikkou,
    "strimzi": strimzi,
    "terraform": terraform,
}
"""The tools whose manifests can be imported."""


def read_foreign(paths: Iterable[Path], tool: str) -> Conversion:
    """Read the manifests of another tool.

    Args:
        paths: Files, folders of YAML files, and `-` for standard input.
        tool: The name of the tool, or AUTO.

    Raises:
        InvalidInput: Files cannot be read, or have values that cannot be converted.
        UsageError: The files could be of several tools.
    """
    problems: list[Problem] = []
    documents: list[Document] = []
    for file in find_manifest_files(paths, problems):
        raw = read_bytes(file, problems)
        if raw is not None:
            documents += read_documents(raw, str(file), problems.append, verbatim=VERBATIM)
    documents = [document for document in documents if document.data is not None]
    chosen = tool if tool != AUTO or problems else _detect_tool(documents, problems)
    conversion = Conversion()
    notes = conversion.notes
    if chosen in IMPORTERS:
        importer = IMPORTERS[chosen]
        foreign = [document for document in documents if not _is_of(document, importer)]
        problems += [Problem(f"is not a manifest of {chosen}", document.locate()) for document in foreign]
        importer.convert(
            [notes.open(document) for document in documents if document not in foreign], conversion
        )
    problems += notes.problems
    if problems:
        raise InvalidInput(dict.fromkeys(problems))
    notes.close()
    return conversion


def _is_of(document: Document, importer: _Importer) -> bool:
    return isinstance(document.data, dict) and importer.matches(document.data)


def _detect_tool(documents: Sequence[Document], problems: list[Problem]) -> str:
    """Return the tool of all documents; adds a problem for each that is of no tool."""
    tools: dict[str, Document] = {}
    for document in documents:
        names = [name for name, importer in IMPORTERS.items() if _is_of(document, importer)]
        tools.update(dict.fromkeys(names, document))
        if not names:
            problems.append(
                Problem(
                    "is not a manifest of a known tool",
                    document.locate(),
                    f"known tools: {', '.join(IMPORTERS)}",
                )
            )
    if len(tools) > 1:
        raise UsageError(
            f"these files are of {listed([*tools])}",
            hint=f"give those of one tool: --from {next(iter(tools))}",
        )
    return next(iter(tools), AUTO)
