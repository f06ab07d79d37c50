"""Each kind goes through the whole command line, on the cluster in memory; and the marks of their schemas."""

import pytest

from kafkaform.cli.session import Session
from kafkaform.core.schema_files import find_marked
from kafkaform.resources import KINDS
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Project
from tests.support.kinds import ENVIRONMENT, KIND_CASES, KindCase, KindJourney, prepare_project


def test_every_kind_has_a_case() -> None:
    assert {case.kind for case in KIND_CASES} == KINDS.keys()


@pytest.mark.parametrize("case", KIND_CASES, ids=lambda case: case.kind)
def test_kind_journey_on_memory_cluster(
    case: KindCase, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Connected()
    monkeypatch.setattr(Session, "cluster", lambda _: cluster)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    client = {"bootstrap.servers": "broker:9092"}
    KindJourney(case, prepare_project(project, client=client), cluster).take()


@pytest.mark.parametrize(
    ("keyword", "expected"),
    [
        ("x-required", {"topic": {"partitions", "replicationFactor"}, "consumergroup": {"topics"}}),
        ("x-verbatim", {"topic": {"retention"}, "consumergroup": {"client", "offsets"}}),
        ("x-secret", {"user": {"password"}}),
    ],
)
def test_schemas_mark_required_verbatim_and_secret_fields(
    keyword: str, expected: dict[str, set[str]]
) -> None:
    schemas = [kind.schema for kind in KINDS.values()]
    assert {name: {*marked} for name in schemas if (marked := find_marked(name, keyword))} == expected
