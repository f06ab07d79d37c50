"""Golden files: what people and programs read, whole, beside the test in `__snapshots__/<test file>/`.

Texts that a test compares with `snapshot` are in `__snapshots__/<test file>.ambr`, each below the name of its
test. Where an output is meant to change, `make golden` writes the files anew; their diff is reviewed.
"""

import json
import re
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode
from syrupy.location import PyTestLocation
from syrupy.types import SnapshotIndex

ROOT = Path(__file__).resolve().parents[2]
UNSTABLE = (
    (re.compile(r'"\d{4}-\d\d-\d\dT[\d:.]+Z"'), '"TIME"'),
    (re.compile(r'("(?:id|run|tool_version|who|host|ci|url)": )(?:"[^"]*"|null)'), r'\1"..."'),
)
"""What differs in JSON from run to run, from machine to machine, or from release to release."""


class GoldenFile(SingleFileSnapshotExtension):
    """One text file for each output, named by the test: `golden(name="plan.md")` compares with `plan.md`."""

    _write_mode = WriteMode.TEXT
    file_extension = ""

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:  # noqa: ARG003
        if not isinstance(index, str):
            raise TypeError("name the golden file: `text == golden(name='plan.md')`")
        return index

    @classmethod
    def write_snapshot(cls, **snapshot: Any) -> None:
        """Write a golden file; syrupy warns of names without the test's, and warnings are errors here."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            super().write_snapshot(**snapshot)

    def is_snapshot_location(self, *, location: str) -> bool:
        """Return whether a file has an output: those that end in `.ambr` have texts of `snapshot`."""
        return not location.endswith(".ambr")


def hide_unstable(text: str) -> str:
    for pattern, stable in UNSTABLE:
        text = pattern.sub(stable, text)
    return text


MAX_LINE = 110


def format_json(text: str) -> str:
    """Return a document of several lines with what fits on one line on one line, for golden files."""
    document = json.loads(text)
    assert text.count("\n") >= json.dumps(document, indent=1).count("\n"), "an output is indented"
    return format_value(document) + "\n"


def format_value(value: Any, indent: int = 0) -> str:
    """Return a value of JSON in lines of up to 110 characters, which are filled."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or indent + len(flat) < MAX_LINE:
        return flat
    brackets = "{}" if isinstance(value, dict) else "[]"
    if isinstance(value, dict):
        entries = [f"{json.dumps(key)}: {format_value(entry, indent + 1)}" for key, entry in value.items()]
    else:
        entries = [format_value(entry, indent + 1) for entry in value]
    lines: list[str] = []
    for entry in entries:
        is_flat = lines and "\n" not in lines[-1] + entry
        if is_flat and indent + len(lines[-1]) + len(entry) + 3 < MAX_LINE:
            lines[-1] += f", {entry}"
        else:
            lines.append(entry)
    return brackets[0] + f",\n{' ' * (indent + 1)}".join(lines) + brackets[1]


def shorten_lists(value: Any, length: int = 2) -> Any:
    """Return a document whose longer lists end with the number of entries that are left out."""
    if isinstance(value, dict):
        return {name: shorten_lists(entry, length) for name, entry in value.items()}
    if isinstance(value, list):
        extra = [f"... {len(value) - length} more"] if len(value) > length else []
        return [shorten_lists(entry, length) for entry in value[:length]] + extra
    return value


def list_texts(texts: Mapping[str, Iterable[object]]) -> str:
    """Return a catalogue of texts by name, each on a line of its own: `catalogue == golden(name="x.txt")`."""
    return "".join(f"{name}: {text}\n" for name, named in texts.items() for text in named)
