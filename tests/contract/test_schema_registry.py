"""Contract tests of a schema registry, run on the one in memory and on Apicurio Registry."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kafkaform.cluster.protocol import none_besides
from kafkaform.cluster.schema_registry import SchemaRegistry, open_registry
from kafkaform.core.errors import ClusterError, LockLost, RequestRejected
from kafkaform.core.lock import unguarded
from kafkaform.core.model import Observed, ResourceRef, State
from kafkaform.resources.subject import RegistryFacts, SubjectVersions
from kafkaform.resources.subject.operations import AlterSubject, DeleteSubject, PurgeSubject
from kafkaform.resources.subject.schema import RegisteredSchema, SchemaReference, compact, shorten
from tests.support.schema_registry import MemoryRegistry, run_registry


@pytest.fixture(
    scope="module",
    params=["memory", pytest.param("apicurio", marks=pytest.mark.nightly("it is downloaded and started"))],
)
def registry(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SchemaRegistry]:
    if request.param == "memory":
        yield SchemaRegistry(MemoryRegistry().handle, "http://memory")
        return
    with run_registry(tmp_path_factory.mktemp("registry") / "home") as url:
        yield open_registry({"schema.registry.url": url})


@pytest.fixture
def ref(request: pytest.FixtureRequest) -> ResourceRef:
    return ResourceRef("Subject", f"{request.node.name}/ä-value")


def avro(*fields: str, type_: object = "long", **more: Any) -> RegisteredSchema:
    listed = [{"name": name, "type": type_, **more} for name in fields]
    return RegisteredSchema(json.dumps({"type": "record", "name": "Order", "fields": listed}))


def alter(
    registry: SchemaRegistry, ref: ResourceRef, schema: RegisteredSchema | None, level: str | None = None
) -> ClusterError | None:
    is_new = find(registry, ref) is None
    (outcome,) = registry.execute([AlterSubject(ref, schema, level, is_new=is_new)], unguarded)
    return outcome


def find(
    registry: SchemaRegistry, ref: ResourceRef, declared: RegisteredSchema | None = None
) -> Observed | None:
    state = {} if declared is None else {"schema": declared.to_value()}
    return registry.observe({ref: state}, none_besides, listed=False).resources.get(ref)


def read_state(registry: SchemaRegistry, ref: ResourceRef, declared: RegisteredSchema | None = None) -> State:
    observed = find(registry, ref, declared)
    assert observed is not None
    return observed.state


def test_registered_schema_is_observed(registry: SchemaRegistry, ref: ResourceRef) -> None:
    assert find(registry, ref) is None
    assert alter(registry, ref, avro("id"), "FULL") is None
    first = find(registry, ref)
    assert first is not None
    compacted = json.dumps(json.loads(avro("id").text), separators=(",", ":"))
    assert json.loads(str(first.state["schema"]))["schema"] == compacted
    assert first.state["compatibility"] == "FULL"
    assert isinstance(first.live, SubjectVersions)
    assert first.live.version == 1
    assert alter(registry, ref, avro("id", default=0)) is None
    second = find(registry, ref)
    assert second is not None
    assert isinstance(second.live, SubjectVersions)
    assert (second.live.version, second.live.id > first.live.id) == (2, True)


def test_inventory_lists_undeclared_subjects(registry: SchemaRegistry, ref: ResourceRef) -> None:
    assert alter(registry, ref, avro("id"), "FORWARD") is None
    assert ref in registry.observe({}, none_besides, listed=True).inventory
    reading = registry.observe({}, lambda found: found == ref, listed=True)
    assert [*reading.resources] == [ref]
    (facts,) = reading.parts
    assert isinstance(facts, RegistryFacts)
    assert facts.levels[ref.name] == "FORWARD"


def test_equivalent_schema_is_observed_as_declared(registry: SchemaRegistry, ref: ResourceRef) -> None:
    assert alter(registry, ref, avro("id")) is None
    equal = avro("id", type_={"type": "long"})
    assert read_state(registry, ref, equal)["schema"] == equal.to_value()
    assert read_state(registry, ref, avro("other"))["schema"] != avro("other").to_value()


@pytest.mark.parametrize(
    ("level", "before", "after", "accepted"),
    [
        ("BACKWARD", avro("id"), avro("id", "new"), False),
        ("BACKWARD", avro("id", default=0), avro("id", "new", default=0), True),
        ("FORWARD", avro("id"), avro("id", "new"), True),
        ("FORWARD", avro("id", "old"), avro("id"), False),
        ("NONE", avro("id"), avro("new"), True),
    ],
    ids=["field-without-default", "field-with-default", "forward", "field-removed", "none"],
)
def test_incompatible_schema_is_refused_in_validation_and_execution(
    registry: SchemaRegistry,
    ref: ResourceRef,
    level: str,
    before: RegisteredSchema,
    after: RegisteredSchema,
    accepted: bool,
) -> None:
    assert alter(registry, ref, before, level) is None
    (checked,) = registry.validate([AlterSubject(ref, after)])
    assert (checked is None) == accepted
    outcome = alter(registry, ref, after)
    assert (outcome is None) == accepted
    if not accepted:
        assert isinstance(checked, RequestRejected)
        assert isinstance(outcome, RequestRejected)
        assert "new" in checked.message or "old" in checked.message


def test_compatibility_level_is_set_before_schema(registry: SchemaRegistry, ref: ResourceRef) -> None:
    assert alter(registry, ref, avro("id"), "BACKWARD") is None
    assert alter(registry, ref, avro("other"), "NONE") is None
    assert read_state(registry, ref)["compatibility"] == "NONE"


def test_refused_schema_after_new_level_is_partial_change(registry: SchemaRegistry, ref: ResourceRef) -> None:
    assert alter(registry, ref, avro("id"), "NONE") is None
    both = AlterSubject(ref, avro("id", "new"), "BACKWARD")
    # The registry would check it by the level that it has now.
    (checked,) = registry.validate([both])
    assert checked is not None
    assert not isinstance(checked, RequestRejected)
    (outcome,) = registry.execute([both], unguarded)
    assert isinstance(outcome, RequestRejected)
    assert outcome.is_partial
    assert read_state(registry, ref)["compatibility"] == "BACKWARD"
    (alone,) = registry.execute([AlterSubject(ref, avro("id", "new"))], unguarded)
    assert isinstance(alone, RequestRejected)
    assert not alone.is_partial


_INCOMPATIBLE = avro("id", "old", "mid", "new")
_BACKWARD_ONLY = avro("id", "mid")
_WITH_LATEST = RegisteredSchema(avro("id", "old", "mid", "new").text.replace('"new"', '"new", "default": 0'))
_WITH_ALL = avro("id", "old", "mid", "new", default=0)


@pytest.mark.parametrize(
    ("before", "after", "schema", "expected"),
    [
        ("FULL", "BACKWARD", _WITH_LATEST, type(None)),
        ("FULL", "BACKWARD", _BACKWARD_ONLY, ClusterError),
        ("FULL", "NONE", _INCOMPATIBLE, type(None)),
        ("NONE", "BACKWARD", _INCOMPATIBLE, ClusterError),
        ("BACKWARD", "FULL", _INCOMPATIBLE, RequestRejected),
        ("BACKWARD", "FULL", _WITH_LATEST, ClusterError),
        ("BACKWARD", "BACKWARD_TRANSITIVE", _WITH_LATEST, RequestRejected),
        ("BACKWARD", "BACKWARD_TRANSITIVE", _WITH_ALL, type(None)),
        ("BACKWARD", None, _WITH_LATEST, type(None)),
        ("BACKWARD_TRANSITIVE", None, _WITH_LATEST, RequestRejected),
    ],
)
def test_schema_is_validated_against_new_level(
    registry: SchemaRegistry,
    ref: ResourceRef,
    before: str,
    after: str | None,
    schema: RegisteredSchema,
    expected: type[ClusterError | None],
) -> None:
    """A plain ClusterError: by the level that is in force, the registry cannot tell."""
    for version, level in ((avro("id", "old"), "NONE"), (avro("id", "old", "mid"), None), (None, before)):
        assert alter(registry, ref, version, level) is None
    (checked,) = registry.validate([AlterSubject(ref, schema, after)])
    assert type(checked) is expected, checked


def test_find_value_finds_earlier_schema_by_digest(registry: SchemaRegistry, ref: ResourceRef) -> None:
    for fields in (("id",), ("id", "new"), ("other",)):
        assert alter(registry, ref, avro(*fields), "NONE") is None
    earlier = RegisteredSchema(compact(avro("id", "new").text, "AVRO"))
    assert registry.find_value(ref, shorten(earlier.to_value())) == earlier.to_value()
    assert registry.find_value(ref, shorten(avro("never").to_value())) is None
    assert registry.find_value(ResourceRef("Subject", "nothing"), shorten(earlier.to_value())) is None


def test_unresolved_reference_does_not_hide_subject(registry: SchemaRegistry, ref: ResourceRef) -> None:
    assert alter(registry, ref, avro("id")) is None
    declared = RegisteredSchema(avro("id", "new").text, references=(SchemaReference("Money", "nothing"),))
    assert read_state(registry, ref, declared)["schema"] != declared.to_value()


def test_referenced_subject_is_registered_first(registry: SchemaRegistry, ref: ResourceRef) -> None:
    money = ResourceRef("Subject", f"{ref.name}.money")
    text = json.dumps({"type": "record", "name": "Money", "fields": []})
    order = json.dumps({"type": "record", "name": "Bill", "fields": [{"name": "sum", "type": "Money"}]})
    schema = RegisteredSchema(order, references=(SchemaReference("Money", money.name),))
    operations = [
        AlterSubject(ref, schema, is_new=True),
        AlterSubject(money, RegisteredSchema(text), is_new=True),
    ]
    assert registry.execute(operations, unguarded) == [None, None]
    assert json.loads(str(read_state(registry, ref)["schema"]))["references"] == [
        {"name": "Money", "subject": money.name, "version": 1}
    ]
    lost = ResourceRef("Subject", f"{ref.name}.lost")
    missing = RegisteredSchema(order, references=(SchemaReference("Money", "nothing"),))
    (outcome,) = registry.execute([AlterSubject(lost, missing, is_new=True)], unguarded)
    assert isinstance(outcome, RequestRejected)
    assert find(registry, lost) is None


def test_deleted_subject_is_gone(registry: SchemaRegistry, ref: ResourceRef) -> None:
    assert alter(registry, ref, avro("id")) is None
    assert registry.execute([DeleteSubject(ref)], unguarded) == [None]
    assert find(registry, ref) is None
    # An apply that was killed may repeat it.
    assert registry.execute([DeleteSubject(ref)], unguarded) == [None]


def test_deleted_subject_is_purged(registry: SchemaRegistry, ref: ResourceRef) -> None:
    def read_deletion() -> object:
        reading = registry.observe({ref: {"state": "purged"}}, none_besides, listed=True)
        return reading.resources[ref].state.get("state")

    assert read_deletion() == "purged"
    assert alter(registry, ref, avro("id")) is None
    assert read_deletion() is None
    (refused,) = registry.execute([PurgeSubject(ref)], unguarded)
    assert isinstance(refused, RequestRejected)
    assert registry.execute([DeleteSubject(ref)], unguarded) == [None]
    assert read_deletion() == "deleted"
    for _ in range(2):
        assert registry.execute([PurgeSubject(ref)], unguarded) == [None]
        assert read_deletion() == "purged"


def test_schema_operations_without_lock_are_not_sent(registry: SchemaRegistry, ref: ResourceRef) -> None:
    def guard() -> None:
        raise LockLost("another apply has it")

    outcomes = registry.execute([AlterSubject(ref, avro("id"), is_new=True), DeleteSubject(ref)], guard)
    assert [type(outcome) for outcome in outcomes] == [LockLost, LockLost]
    assert find(registry, ref) is None


def test_invalid_schema_is_refused(registry: SchemaRegistry, ref: ResourceRef) -> None:
    outcome = alter(registry, ref, RegisteredSchema("{nonsense"))
    assert isinstance(outcome, RequestRejected)
    assert outcome.code == "42201"
