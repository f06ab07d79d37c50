"""Each kind takes the whole command line in memory; the marks of their schemas, and their operations."""

from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

import pytest

from kafkaform import resources
from kafkaform.cli.session import Session
from kafkaform.cluster.kafka import readers
from kafkaform.cluster.kafka.writer import WRITERS, UnvalidatedWriter
from kafkaform.cluster.services import SERVICES
from kafkaform.core.model import ResourceRef
from kafkaform.core.operations import Operation
from kafkaform.core.schema_files import find_marked
from kafkaform.resources import KINDS
from kafkaform.resources.replicas.operations import Reassign
from kafkaform.resources.subject.operations import AlterSubject, DeleteSubject, PurgeSubject
from tests.support.cli.memory_program import Connected
from tests.support.cli.project import Project
from tests.support.kinds import ENVIRONMENT, KIND_CASES, KindCase, KindJourney, prepare_project
from tests.support.memory_cluster import registry
from tests.support.memory_cluster.registry import EFFECTS


def test_every_kind_has_a_case() -> None:
    assert {case.kind for case in KIND_CASES} == KINDS.keys()


@pytest.mark.parametrize("case", KIND_CASES, ids=lambda case: case.kind)
def test_kind_journey_in_memory(case: KindCase, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_schemas_mark_fields_by_keyword(keyword: str, expected: dict[str, set[str]]) -> None:
    schemas = [kind.schema for kind in KINDS.values()]
    assert {name: {*marked} for name in schemas if (marked := find_marked(name, keyword))} == expected


def test_every_operation_has_writer_reader_and_effect() -> None:
    packages = [name for _, name, is_package in iter_modules(resources.__path__) if is_package]
    modules = [import_module(f"{resources.__name__}.{name}.operations") for name in packages]
    classes = [found for module in modules for found in vars(module).values() if isinstance(found, type)]
    known = {found for found in classes if issubclass(found, Operation) and not isabstract(found)}
    elsewhere = {Reassign, AlterSubject, DeleteSubject, PurgeSubject}  # by the reassigner and the registry
    assert {*WRITERS} == {*EFFECTS} == known - elsewhere
    # The brokers in memory are asked for a check where real ones are, and in the same order.
    checked = [sort for sort, writer in WRITERS.items() if not isinstance(writer, UnvalidatedWriter)]
    assert [sort for sort, effect in EFFECTS.items() if effect.checked] == checked
    assert [*WRITERS] == [*EFFECTS]
    assert readers.READERS.keys() == registry.READERS.keys() == KINDS.keys() - SERVICES.keys()

    # No operation can leave out what is said of it.
    class Silent(Operation):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Silent(ResourceRef("Topic", "a"))  # type: ignore[abstract]
