"""Importing the manifests of other tools: one module a tool, and the table of them.

A converter adds what a cluster made by the tool would have, so that writing manifests and checking them is
the same as for a live cluster. What has no counterpart is named with its place.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kafkaform.config.manifests.files import find_manifest_files, read_bytes
from kafkaform.config.manifests.yaml12 import Data, Document, read_documents
from kafkaform.core.errors import InvalidInput, Problem, UsageError
from kafkaform.core.model import Location
from kafkaform.core.values import replace
from kafkaform.core.wording import listed
from kafkaform.inspect.importers import jikkou, julieops, kafka_gitops, strimzi, terraform, topicctl
from kafkaform.inspect.importers.conversion import Conversion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkaform.inspect.importers.fields import Fields, ScalarReading

AUTO = "auto"
"""The name for finding out of which tool files are."""


_NO_TERRAFORM = "this is a template (Terraform): render it first, e.g. terraform show -json > resources.json"
_HCL = re.compile(r'^(?:resource|data|module|provider|variable)(?: +"[^"\n]*")+ *\{', re.MULTILINE)
"""Matches a block of Terraform's own language."""
_NOT_SHOWN = {b'{"@level":': "the log of Terraform", b"PK\x03\x04": "a saved plan of Terraform"}
"""What else people take for the output of `terraform show -json`, by its first bytes."""
_EMPTY = "is empty: nothing to import"
_SHOW = "give the output of terraform show -json"


class _Importer(Protocol):
    """The module of a tool."""

    READING: ScalarReading

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


def read_foreign(paths: Sequence[Path], tool: str, source_cluster: str | None = None) -> Conversion:
    """Read the manifests of another tool.

    Args:
        paths: Files, folders of YAML files, and `-` for standard input.
        tool: The name of the tool, or AUTO.
        source_cluster: The name in the files of the cluster whose resources are taken.

    Raises:
        InvalidInput: Files cannot be read, or have values that cannot be converted.
        UsageError: The files could be of several tools, or are of several clusters.
    """
    problems: list[Problem] = []
    documents: list[Document] = []
    files = _find_files(paths, problems)
    for file in files:
        raw = read_bytes(file, problems)
        if raw is not None and (problem := _explain_terraform(file, raw)) is not None:
            problems.append(problem)
        elif raw is not None:
            documents += read_documents(raw, str(file), problems.append, verbatim=None)
    documents = [document for document in documents if document.data is not None]
    if not documents and not problems:
        problems = [Problem(_EMPTY, Location(str(file))) for file in files]
    if tool == AUTO and not problems:
        tool = _detect_tool(documents)
    importer = IMPORTERS.get(tool)
    own = [document for document in documents if importer is not None and _is_of(document, importer)]
    if importer is None or not own:
        # With the problems of other files, nothing is known about these.
        if not problems or tool != AUTO:
            problems += [_explain_foreign(document, tool) for document in documents]
        raise InvalidInput(dict.fromkeys(problems))
    conversion = Conversion(tool, importer.READING, source_cluster)
    conversion.files = tuple(files)
    notes = conversion.notes
    for document in documents:
        if document not in own:
            target = notes.remarks if _is_other_kubernetes(document) else notes.left_out
            kind = document.data.get("kind", "") if isinstance(document.data, dict) else ""
            subject = f"{kind} is" if isinstance(kind, str) and kind else "is"
            target.append(Problem(f"{subject} not a manifest of {tool}: skipped", document.locate()))
    importer.convert([notes.open(document) for document in own], conversion)
    if not problems:
        conversion.check_cluster()
    problems += notes.problems
    if problems:
        raise InvalidInput(dict.fromkeys(problems))
    notes.close()
    return conversion


def _explain_terraform(file: Path, raw: bytes) -> Problem | None:
    """Return the problem of a file of Terraform that is not the output of `terraform show -json`."""
    location = Location(str(file))
    for head, noun in _NOT_SHOWN.items():
        if raw.startswith(head):
            return Problem(f"is {noun}", location, _SHOW)
    if file.suffix == ".tf" or _HCL.search(raw.decode(errors="replace")):
        return Problem(_NO_TERRAFORM, location)
    return None


def _find_files(paths: Sequence[Path], problems: list[Problem]) -> list[Path]:
    """Find the files of other tools, as find_manifest_files does for manifests."""
    file_problems: list[Problem] = []
    files = find_manifest_files(paths, file_problems)
    for problem in file_problems:
        folder = Path(problem.location.file) if problem.location is not None else None
        if folder is None or not folder.is_dir() or not os.access(folder, os.R_OK):
            problems.append(problem)
        elif source := next(iter(sorted(folder.rglob("*.tf"))), None):
            problems.append(Problem(_NO_TERRAFORM, Location(str(source))))
        else:
            hint = "of a folder, only *.yaml and *.yml are read: give other files by name"
            problems.append(replace(problem, hint=hint))
    return files


def _is_of(document: Document, importer: _Importer) -> bool:
    return isinstance(document.data, dict) and importer.matches(document.data)


def _is_other_kubernetes(document: Document) -> bool:
    """Return whether a document is a resource of Kubernetes, or the list of files of Kustomize.

    One of a kind such as KafkaTopic is not: it may be another tool's, or have a misspelt `apiVersion`.
    """
    data = document.data if isinstance(document.data, dict) else {}
    is_resource = data.keys() >= {"apiVersion", "kind"} and not str(data["kind"]).startswith("Kafka")
    return is_resource or Path(document.file).stem == "kustomization"


def _explain_foreign(document: Document, tool: str) -> Problem:
    """Return the problem of a document that the tool does not have."""
    data = document.data if isinstance(document.data, dict) else {}
    if "resource" in data:
        return Problem(_NO_TERRAFORM, document.locate())
    if data.keys() >= {"terraform_version", "resources"}:
        return Problem("is the raw state of Terraform", document.locate(), _SHOW)
    if data.get("items") == [] or data.keys() == {"format_version"}:
        return Problem(_EMPTY, document.locate())
    if tool in IMPORTERS:
        return Problem(f"is not a manifest of {tool}", document.locate())
    hint = f"known tools: {', '.join(IMPORTERS)}"
    return Problem("is not a manifest of a known tool", document.locate(), hint)


def _detect_tool(documents: Sequence[Document]) -> str:
    """Return the tool of documents, which may be among others; AUTO if there is none."""
    tools = [
        name for name, importer in IMPORTERS.items() if any(_is_of(each, importer) for each in documents)
    ]
    if len(tools) > 1:
        raise UsageError(
            f"these files are of {listed(tools)}", hint=f"give those of one tool: --from {tools[0]}"
        )
    return tools[0] if tools else AUTO
