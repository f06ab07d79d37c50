"""A Java that plays Ivy, for tests of the jar cache without a network."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from kafkaform.devcluster.jars.java import Java


class FakeIvy:
    """A `java` that copies prepared jars to where Ivy was asked to retrieve them, and counts its runs."""

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        self.source = directory / "source"
        self.source.mkdir(parents=True)
        for name in names:
            with zipfile.ZipFile(self.source / f"{name}.jar", "w") as jar:
                jar.writestr("content", name)
        self._runs = directory / "runs"
        self._ending = directory / "ending"
        self.end_with("")
        self.java = Java(
            _script(
                directory / "java",
                f"""echo run >> {self._runs}
while [ "$1" != -ivy ]; do shift; done
cp "$2" {directory}/asked.xml
while [ "$1" != -retrieve ]; do shift; done
sleep 0.2
cp {self.source}/*.jar "$(dirname "$2")"
. {self._ending}""",
            ),
            17,
        )

    def end_with(self, line: str) -> None:
        self._ending.write_text(line + "\n")

    @property
    def runs(self) -> int:
        return len(self._runs.read_text().splitlines()) if self._runs.exists() else 0

    @property
    def asked(self) -> str:
        """The module that the last run was given."""
        return (self._runs.parent / "asked.xml").read_text()


def _script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path
