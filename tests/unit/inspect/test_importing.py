"""Manifest files from readings of a cluster: whatever it has, a plan of them is empty."""

from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaform.config.manifests import yaml12
from kafkaform.config.manifests.loader import Context, load
from kafkaform.core.errors import KafkaformError, Problem
from kafkaform.core.model import FieldValue, Location, Observation, Observed, ResourceRef, Undeclared
from kafkaform.core.operations import AlterConfigs
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.inspect.importing import FileGrouping, Import, ImportLayout, make_import
from kafkaform.inspect.resource_status import Selection
from kafkaform.plan.planning import plan_from
from kafkaform.report.edits import list_problems
from kafkaform.resources import KINDS
from kafkaform.resources.base import Layer
from kafkaform.resources.groups import Group, Position
from kafkaform.resources.name_globs import NameGlobs
from kafkaform.resources.topic.operations import CreateTopic
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.config_values import CONFIG_VALUES
from tests.support.plans.scenes import group_ref as group
from tests.support.plans.scenes import topic

EVERYTHING = Selection()


def nothing_wrong(_: tuple[str | int, ...], message: str, hint: str | None, /, *, key: bool = False) -> None:
    raise AssertionError(f"{message} ({hint}, {key})")


def layer(kind: str, **spec: object) -> Layer:
    return KINDS[kind].normalise(spec, nothing_wrong)


def plan_of(made: Import, observation: Observation, context: Context, cluster: MemoryCluster) -> Plan:
    """The plan of the files, as they are read from a disk."""
    for file in made.files:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        file.path.write_text(file.text, "utf-8")
    return plan_from(load([file.path for file in made.files], context), observation, cluster.facts())


def import_all(read: Observation, context: Context | None = None, folder: Path = Path("live")) -> Import:
    return make_import(read, EVERYTHING, {}, context or Context(), ImportLayout(folder))


def import_and_plan(read: Observation, context: Context, folder: Path) -> tuple[Import, Plan]:
    """Import all that was read, and plan the files."""
    made = import_all(read, context, folder)
    with MemoryCluster() as cluster:
        return made, plan_of(made, read, context, cluster)


def build_observed(name: str, **fields: FieldValue) -> Observed:
    state: dict[str, FieldValue] = {"partitions": 1, "replicationFactor": 1}
    return Observed(topic(name), "id", state | {k.replace("_", "."): v for k, v in fields.items()})


def observation(*resources: Observed, also: Collection[ResourceRef] = ()) -> Observation:
    found = {resource.ref: resource for resource in resources}
    return Observation(found, frozenset([*found, *also]))


CONFIGS = st.fixed_dictionaries({}, optional=CONFIG_VALUES)
DEFAULTS = st.fixed_dictionaries(
    {},
    optional={
        "partitions": st.integers(1, 3),
        "replicationFactor": st.integers(1, 3),
        "config": st.fixed_dictionaries(
            {}, optional={key: st.none() | each for key, each in CONFIG_VALUES.items()}
        ),
        "keyed": st.booleans(),
        "undeclared": st.sampled_from([each.value for each in Undeclared]),
    },
)
GROUP_CONFIGS = st.dictionaries(
    st.just("consumer.session.timeout.ms"), st.sampled_from(["45000", "50000", "60000"])
)
GROUP_DEFAULTS = st.fixed_dictionaries(
    {},
    optional={
        "config": GROUP_CONFIGS,
        "protocol": st.sampled_from(["classic", "consumer"]),
        "offsets": st.sampled_from([{"initial": "earliest"}, {"initial": None}]),
    },
)


@given(
    st.lists(st.tuples(CONFIGS, st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3),
    st.lists(st.tuples(GROUP_CONFIGS, st.booleans()), max_size=2),
    DEFAULTS,
    GROUP_DEFAULTS,
    st.sampled_from(FileGrouping),
)
def test_plan_of_an_import_is_empty(
    tmp_path_factory: pytest.TempPathFactory,
    topics: list[tuple[dict[str, str], int, int]],
    groups: list[tuple[dict[str, str], bool]],
    under: dict[str, object],
    under_groups: dict[str, object],
    by: FileGrouping,
) -> None:
    context = Context(
        defaults={
            "Topic": (layer("Topic", **under),),
            "ConsumerGroup": (layer("ConsumerGroup", **under_groups),),
        }
    )
    with MemoryCluster() as cluster:
        for number, (configs, partitions, replicas) in enumerate(topics):
            operation = CreateTopic(topic(f"t.{number}"), partitions, replicas, configs)
            assert cluster.execute([operation]) == [None]
        for number, (configs, active) in enumerate(groups):
            ref = group(f"g.{number}")
            cluster.commit(ref.name, {("t.0", 0): 0})
            if active:
                cluster.join(ref.name, ["t.0"], 1, protocol="consumer")
            assert not configs or cluster.execute([AlterConfigs(ref, configs)]) == [None]
        read = cluster.observe((), lambda _: True, kinds=KINDS)
        made = make_import(read, EVERYTHING, {}, context, ImportLayout(tmp_path_factory.mktemp("live"), by))
        plan = plan_of(made, read, context, cluster)
    assert (plan.changes, plan.undeclared) == ((), ())
    assert plan.unchanged == len(made.refs) == len(topics) + len(groups)
    unknown = {
        group(f"g.{number}")
        for number, (configs, active) in enumerate(groups)
        if not active and not any(name.startswith(("consumer.", "share.", "streams.")) for name in configs)
    }
    assert {ref for ref, why in made.partial if why.startswith("protocol: not known")} == unknown
    assert len(made.partial) == len(unknown)
    assert (dict(made.not_converged), dict(made.unread), made.idle) == ({}, {}, ())


def test_share_group_import_unsets_default_offset(tmp_path: Path) -> None:
    context = Context(defaults={"ConsumerGroup": (layer("ConsumerGroup", offsets={"initial": "latest"}),)})
    share = Group("g", "share", "Empty", positions=(Position("t", 0, 5),))
    read = observation(Observed(group("g"), None, {}, live=share))
    made, plan = import_and_plan(read, context, tmp_path)
    assert plan.unchanged == 1
    assert "initial: null" in made.files[0].text


def test_default_tombstone_does_not_delete_imported_topic(tmp_path: Path) -> None:
    context = Context(defaults={"Topic": (layer("Topic", state="absent"),)})
    _, plan = import_and_plan(observation(build_observed("a")), context, tmp_path)
    assert plan.unchanged == 1


def test_undeclarable_config_is_reported_and_kept(tmp_path: Path) -> None:
    context = Context(undeclared=Undeclared.RESET)
    read = observation(build_observed("a", config_future_config="7", config_retention_ms="5"))
    made, plan = import_and_plan(read, context, tmp_path)
    assert (plan.changes, [item.path for item in plan.undeclared]) == ((), ["config.future.config"])
    assert [(str(ref), line.partition(":")[0]) for ref, line in made.partial] == [
        ("Topic/a", "future.config = 7")
    ]
    assert made.not_converged == {}


def test_imported_value_that_plan_changes_is_reported() -> None:
    hidden = layer("Topic", config={"segment.ms": "1d"})
    context = Context(defaults={"Topic": (hidden,)})
    uneven = Observed(topic("uneven"), "id", {"partitions": 2, "replicationFactor": "1-3"})
    read = observation(build_observed("secret", config_segment_ms=None), uneven, build_observed("plain"))
    made = import_all(read, context)
    assert {ref.name: why for ref, why in made.not_converged.items()} == {
        "secret": "a plan will change segment.ms",
        "uneven": "a plan will change replicationFactor",
    }
    secret, second = list_problems(made)
    assert secret.endswith("(segment.ms: Kafka does not return its value)")
    assert "partitions have 1-3 replicas" in second


def test_common_import_problem_is_grouped() -> None:
    refs = [ResourceRef("ConsumerGroup", f"svc-{number}") for number in range(25)]
    made = Import(
        partial=(*((ref, f"the protocol of {ref.name} is not known") for ref in refs), (topic("a"), "why")),
        unread=dict.fromkeys(refs[:3], "denied"),
        unconverted=tuple(
            Problem(f"KafkaTopic t{number}: {reason}", Location("f.yaml", number + 1))
            for reason in ("not managed", "unknown")
            for number in range(12)
        ),
    )
    managed, unknown, groups, single, unread = list_problems(made)
    assert managed.startswith(
        "not converted: f.yaml:1:1: KafkaTopic t0: not managed; the same: t1 (f.yaml:2)"
    )
    assert unknown.endswith("t5 (f.yaml:6) and 6 more")
    assert "25 consumer groups (svc-0, svc-1, svc-2, svc-3, svc-4 and 20 more)" in groups
    assert "protocol of NAME" in groups
    assert single == "not in the manifest: Topic/a: why"
    assert unread == "not read: 3 consumer groups (svc-0, svc-1, svc-2): denied"


def test_acl_lost_in_manifest_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    acls = {"allow Read on topic a": "granted", "allow Write on topic b": "granted"}
    read = observation(Observed(ResourceRef("Access", "User:a"), None, acls))
    assert import_all(read).not_converged == {}
    monkeypatch.setattr(
        "kafkaform.resources.access.spec.write_spec",
        lambda principal, _: {"principals": [principal], "produces": ["a"]},
    )
    made = import_all(read)
    assert [*made.not_converged] == [ResourceRef("Access", "User:a")]


def test_partly_read_group_is_not_imported() -> None:
    half = Group("g", "classic", "Empty", positions=(Position("t", 0, 5),), unread="no committed offsets")
    nameless = Group("", "classic", "Empty", positions=(Position("t", 0, 5),))
    read = observation(
        Observed(group("g"), None, {}, live=half), Observed(group(""), None, {}, live=nameless)
    )
    made = import_all(replace(read, inventory=read.inventory | {topic("gone")}))  # since it was listed
    assert made.files == ()
    assert {ref.name: why for ref, why in made.unread.items()} == {"g": "no committed offsets"}
    assert made.undeclarable == {group(""): "metadata.name: must not be empty"}


READ_X = {"allow Read on topic x": "granted"}
RATE, SCRAM = "config.producer_byte_rate", "scram.SCRAM-SHA-256"
UNDECLARABLE: list[tuple[str, str, dict[str, FieldValue]]] = [
    ("Access", "User:", {**READ_X}),
    ("Access", "User:a", {'allow Read on topic x from ""': "granted"}),
    ("Access", "User:a", {"deny Alter on cluster prefix kafka-cluster": "denied"}),
    ("ClientQuota", "user=a", {RATE: "nan"}),
    ("ClientQuota", "user=a", {RATE: "5e-324"}),
    ("ClientQuota", "user=a", {"config.request_percentage": "nan"}),
    ("ClientQuota", "ip=10.0.0.1", {"config.connection_creation_rate": "nan"}),
    ("ClientQuota", "user=a", {"config.limit_of_a_later_kafka": "1"}),
    ("User", "User:a", {SCRAM: "iterations=4096,password=unknown"}),
    ("User", "a", {SCRAM: "iterations=100,password=unknown"}),
    ("Topic", "t", {"partitions": 200_000, "replicationFactor": 1}),
]


@pytest.mark.parametrize(("kind", "name", "state"), UNDECLARABLE)
def test_undeclarable_resource_stops_no_others(kind: str, name: str, state: dict[str, FieldValue]) -> None:
    ref = ResourceRef(kind, name)
    made = import_all(observation(Observed(ref, None, state), build_observed("sound")))
    assert (made.refs, [*made.undeclarable]) == ((topic("sound"),), [ref])
    assert [line for line in list_problems(made) if line.startswith(f"not imported: {ref}: ")]


def test_undeclarable_value_is_omitted(tmp_path: Path) -> None:
    ref = ResourceRef("ClientQuota", "user=a")
    read = observation(
        Observed(ref, None, {"config.producer_byte_rate": "nan", "config.consumer_byte_rate": "5000000"})
    )
    made, plan = import_and_plan(read, Context(), tmp_path)
    assert (made.refs, [*made.not_converged], made.undeclarable) == ((ref,), [ref], {})
    assert (plan.changes, [each.path for each in plan.undeclared]) == ((), ["config.producer_byte_rate"])


def test_internal_resources_are_not_imported() -> None:
    internal = Observed(
        topic("__consumer_offsets"), "id", {"partitions": 50, "replicationFactor": 3}, {}, True
    )
    read = observation(internal, build_observed("__kafkaform_audit"), also=[group("__kafkaform_lock")])
    for selection in (
        Selection(),
        Selection(tuple(ref.name for ref in read.inventory), ignore=NameGlobs(("__*",))),
    ):
        made = make_import(read, selection, {}, Context(), ImportLayout(Path("live")))
        assert made.files == ()
        internals = ["__kafkaform_lock", "__consumer_offsets", "__kafkaform_audit"]
        assert [ref.name for ref in made.internal] == internals


def test_declared_resource_is_overwritten_only_in_own_file() -> None:
    read = observation(build_observed("a.1"), build_observed("a.2"), build_observed("b"))
    declared = {topic("a.1"): Location("live/a.1.yaml"), topic("b"): Location("live/team/b.yaml")}

    def names(*, overwrite: bool) -> list[str]:
        layout = ImportLayout(Path("live"), overwrite=overwrite)
        return [ref.name for ref in make_import(read, EVERYTHING, declared, Context(), layout).refs]

    assert names(overwrite=False) == ["a.2"]
    assert names(overwrite=True) == ["a.1", "a.2"]


def test_imported_file_does_not_exceed_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkaform.inspect.importing.MAX_BYTES", 300)
    assert yaml12.MAX_BYTES > 300
    read = observation(*(build_observed(f"orders.v{n}") for n in range(5)))
    assert len(import_all(read).files) == 5
    with pytest.raises(KafkaformError, match=r"live/orders\.yaml would exceed .* with 5 resources"):
        make_import(read, EVERYTHING, {}, Context(), ImportLayout(Path("live"), FileGrouping.PREFIX))
