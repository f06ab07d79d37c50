"""The manifests of this repository, and every YAML example of the documentation, are real ones."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from kafkaform.cli.plan import plan as plan_command
from kafkaform.config.manifests import loader, yaml12, yaml_hazards
from kafkaform.config.manifests.loader import Context, load
from kafkaform.config.settings import Settings, read_settings
from kafkaform.core import kafka_configs
from kafkaform.core.errors import InvalidInput
from kafkaform.core.model import CONFIG_PREFIX, UNREAD_DATA, Desired
from kafkaform.core.schema_files import load_schema
from kafkaform.resources.consumer_group import risk as group_risk
from kafkaform.resources.replicas import placement
from kafkaform.resources.topic import config_risk, risk
from tests.support.markdown import Block, list_blocks

ROOT = Path(__file__).parents[2]
MANIFESTS = sorted((ROOT / "topics").rglob("*.yaml"))
GUIDES = (ROOT / "docs" / "manifests.md", ROOT / "docs" / "configuration.md")
ENVIRONMENTS = ("dev", "prod")


def settings() -> Settings:
    return read_settings(ROOT / "kafkaform.yaml")


def test_configuration_has_cluster_for_each_environment() -> None:
    assert settings().environments == ENVIRONMENTS
    assert {cluster.environment for cluster in settings().clusters.values()} == set(ENVIRONMENTS)
    for cluster in settings().clusters.values():
        assert set(cluster.forbid) <= set(hazards()) | group_risk.HAZARDS


def test_modelines_refer_to_schemas() -> None:
    for path in (*MANIFESTS, ROOT / "kafkaform.yaml"):
        name = "config" if path.name == "kafkaform.yaml" else "manifest"
        place, _, schema = path.read_text("utf-8").partition("\n")[0].partition("$schema=")
        assert place == "# yaml-language-server: ", path
        assert (path.parent / schema).resolve(strict=True) == ROOT / "schemas" / f"{name}.schema.json"


def examples(*markers: str) -> list[Block]:
    """The blocks of YAML below a comment `yaml: MARKER`, or, for "", without one."""
    found = [block for block in list_blocks(*GUIDES) if block.info in {"yaml", "yml"}]
    named = [block._replace(marker=block.marker.removeprefix("yaml: ")) for block in found]
    return [block for block in named if block.marker.split(" ")[0] in markers]


SPEC_HEAD = "apiVersion: kafkaform/v1\nkind: Topic\nmetadata: {name: example.v1}\nspec:\n"
GROUP_HEAD = SPEC_HEAD.replace("Topic", "ConsumerGroup") + "  topics: [example.v1]\n"
QUOTA_HEAD = SPEC_HEAD.replace("Topic", "ClientQuota").replace("example.v1", "user=alice")
HEADS = {
    "spec": SPEC_HEAD,
    "wrong-spec": SPEC_HEAD,
    "group-spec": GROUP_HEAD,
    "wrong-group-spec": GROUP_HEAD,
    "wrong-quota-spec": QUOTA_HEAD,
}
CONFIG_HEAD = "apiVersion: kafkaform/v1\nkind: Config\n"
CONTEXTS = [
    # What a part of a spec leaves out; whole manifests are read without it.
    Context(ENVIRONMENTS, name, {"Topic": ({"partitions": 3, "replicationFactor": 3},)})
    for name in ENVIRONMENTS
]


def indent(text: str) -> str:
    return "".join(f"  {line}" for line in text.splitlines(keepends=True))


def load_text(text: str, folder: Path, context: Context) -> list[Desired]:
    path = folder / "example.yaml"
    path.write_text(text, "utf-8")
    return load([path], context)


def read_config(text: str, folder: Path) -> Settings:
    path = folder / "kafkaform.yaml"
    path.write_text(text, "utf-8")
    return read_settings(path)


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_every_yaml_block_is_tested(path: Path) -> None:
    known = examples("", *HEADS, "layers", "config", "cluster")
    blocks = re.findall(r"^\s*[`~]{3,}\s*ya?ml", path.read_text("utf-8"), re.MULTILINE)
    assert len(blocks) == len([example for example in known if example.page == path.name]) > 0


@pytest.mark.parametrize("example", examples("", "spec", "group-spec", "config", "cluster"), ids=str)
def test_example_loads(example: Block, tmp_path: Path) -> None:
    match example.marker:
        case "" if "kind: Config" not in example.text:
            for environment in ENVIRONMENTS:
                assert load_text(example.text, tmp_path, Context(ENVIRONMENTS, environment))
        case "spec" | "group-spec" as marker:
            for context in CONTEXTS:
                (desired,) = load_text(HEADS[marker] + indent(example.text), tmp_path, context)
                assert desired.state is not None
        case "cluster":
            cluster = f"clusters:\n  prod:\n{indent(indent(example.text))}"
            read = read_config(CONFIG_HEAD + cluster, tmp_path)
            assert set(read.clusters["prod"].forbid) <= {*hazards(), "partition-increase*"}
        case marker:
            read_config((CONFIG_HEAD if marker else "") + example.text, tmp_path)


@pytest.mark.parametrize("example", examples("wrong-spec", "wrong-group-spec", "wrong-quota-spec"), ids=str)
def test_wrong_examples_give_documented_error(example: Block, tmp_path: Path) -> None:
    marker, _, answer = example.marker.partition(" ")
    with pytest.raises(InvalidInput) as caught:
        load_text(HEADS[marker] + indent(example.text), tmp_path, CONTEXTS[0])
    (problem,) = caught.value.problems
    assert answer in str(problem)


def test_layers_merge_as_documented(tmp_path: Path) -> None:
    config, manifest = examples("layers")
    read = read_config(config.text, tmp_path)
    shown: dict[str, list[str]] = {}
    for environment in ENVIRONMENTS:
        (desired,) = load_text(manifest.text, tmp_path, read.build_context(environment))
        assert desired.state is not None
        for path, value in desired.state.items():
            key = kafka_configs.topic_configs().get(path.removeprefix(CONFIG_PREFIX))
            text = "unset" if value is None else kafka_configs.human(key, str(value))
            shown.setdefault(path, []).append(text)
    table = [f"| {path} | {' | '.join(values)} |" for path, values in shown.items()]
    assert "\n".join(["| | dev | prod |", "| --- | --- | --- |", *table]) in GUIDES[0].read_text("utf-8")


def judged_hazards(*modules: ModuleType) -> dict[str, str]:
    """Every hazard that modules judge in so many words, with its risk."""
    text = "".join(Path(module.__file__ or "").read_text("utf-8") for module in modules)
    pairs = re.findall(r'Risk\.(\w+),\s*"([\w-]+)"', text)
    pairs += [("disruptive", name) for name in re.findall(r'_judge_lowering_of\("([\w-]+)"', text)]
    return {name: level.lower() for level, name in pairs}


def hazards() -> dict[str, str]:
    """Every hazard in the code of the Topic kind, with its risk."""
    found = judged_hazards(config_risk, placement, risk)
    found |= {name: found[included] for name, included in risk.INCLUDES.items()}
    return {**found, UNREAD_DATA: "destructive"}  # in the place of the hazard of a destructive change


def rows(path: Path, heading: str) -> list[list[str]]:
    section = path.read_text("utf-8").partition(f"{heading}\n")[2]
    table = section[section.index("| --- |") :].split("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_guides_list_every_hazard_with_risk() -> None:
    assert set(hazards()) == risk.HAZARDS
    listed = [(cells[0].strip("`"), cells[1]) for cells in rows(GUIDES[1], "## Hazards")]
    assert listed == sorted(hazards().items())
    of_groups = {cells[0].strip("`"): cells[1] for cells in rows(GUIDES[0], "### Hazards of groups")}
    assert of_groups == judged_hazards(group_risk)


@pytest.mark.parametrize(
    ("schema", "heading"),
    [
        ("topic", "### Fields of a topic"),
        ("consumergroup", "### Fields of a group"),
        ("clientquota", "### Fields of a quota"),
    ],
)
def test_guide_has_every_field_of_a_manifest(schema: str, heading: str) -> None:
    parts = load_schema(schema)["$defs"]
    fields = ["apiVersion", "kind"]
    fields += [f"{part}.{name}" for part in ("metadata", "spec") for name in parts[part]["properties"]]
    listed = [cells[0].strip("`") for title in ("## Fields", heading) for cells in rows(GUIDES[0], title)]
    assert sorted(listed) == sorted(fields)


def test_guide_has_every_field_of_the_configuration() -> None:
    schema = load_schema("config")
    listed = [cells[0].strip("`") for cells in rows(GUIDES[1], "# Configuration")]
    assert listed == list(schema["properties"])
    listed = [cells[0].strip("`") for cells in rows(GUIDES[1], "## Clusters")]
    assert sorted(listed) == sorted(schema["$defs"]["cluster"]["properties"])


def test_guide_lists_every_plan_option_with_variable() -> None:
    wanted = {option.opts[-1]: option.envvar for option in plan_command.params if option.envvar is not None}
    listed = {
        cells[0].strip("`").split()[0]: cells[1].strip("`")
        for cells in rows(GUIDES[1], "## The command line and the environment")
    }
    assert listed == wanted


def test_guide_states_yaml_limits() -> None:
    text = GUIDES[0].read_text("utf-8")
    assert f"at most {yaml12.MAX_BYTES // 1024**2} MiB" in text
    assert f"at most {yaml_hazards.MAX_DOCUMENTS:,} documents" in text
    assert f"at most {yaml_hazards.MAX_FILE_NODES:,} values together" in text
    assert f"at most {yaml_hazards.MAX_NODES:,} values, nested at most {yaml_hazards.MAX_DEPTH} deep" in text
    assert f"at most {loader.MAX_VALUES:,} values" in text
