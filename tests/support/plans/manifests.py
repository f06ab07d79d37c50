"""A manifest in a file, as tests of one kind edit, plan and apply it."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from kafkaform.cluster.protocol import Cluster
from kafkaform.config.manifests.loader import Context, InvalidManifests, load
from kafkaform.config.settings import Settings
from kafkaform.core.model import Desired
from kafkaform.core.plans import Plan
from kafkaform.plan.planning import Request, build_plan
from kafkaform.resources import KINDS
from kafkaform.resources.consent import Grant
from tests.support.plans.audit import recorded_apply
from tests.support.plans.scenes import QUIET


@dataclass(frozen=True)
class ManifestFile:
    """The only manifest of a repository, and the cluster it is for."""

    path: Path
    cluster: Cluster

    def load(self) -> list[Desired]:
        """Return what the manifest declares."""
        return load([self.path], Context())

    def edit(self, before: str, after: str) -> list[Desired]:
        """Replace a text of the file; return what it declares then."""
        text = self.path.read_text()
        assert before in text
        self.path.write_text(text.replace(before, after))
        return self.load()

    def consent(self, line: str) -> list[Desired]:
        """Add a consent to the file; return what it declares then."""
        return self.edit("metadata:\n", f"metadata:\n  annotations: {{kafkaform/allow: '{line}'}}\n")

    def plan(self, *allow: str, reading: bool = False) -> Plan:
        """Plan the manifest, with consents of the command line."""
        request = Request(
            self.load(), allow=tuple(map(Grant.parse, allow)), inventory=tuple(KINDS), reading=reading
        )
        return build_plan(request, self.cluster, Settings(rules=QUIET), None)

    def apply(self, *allow: str) -> str:
        """Apply the manifest, and keep the record; returns the id of the apply."""
        run, report = recorded_apply(self.plan(*allow), self.cluster)
        assert report.complete, report
        return run

    def describe_problems(self, text: str) -> str:
        """Return what is wrong with another text in the file, on one line: places, messages and hints."""
        self.path.write_text(text)
        with pytest.raises(InvalidManifests) as error:
            self.load()
        return "; ".join(str(problem).removeprefix(f"{self.path}:") for problem in error.value.problems)
