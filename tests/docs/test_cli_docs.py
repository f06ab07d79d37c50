"""The commands of README.md and docs/ do what they say: each is run, from its first line to its last.

Every day, the real commands' parsers read all of them, and what a newcomer types first is run.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

from kafkaform.cli.init import NEXT_COMMANDS
from kafkaform.cluster.audit_layout import AUDIT_TOPIC as RECORD
from kafkaform.core.lock import NAME as LOCK
from kafkaform.core.model import CONFIG_PREFIX
from kafkaform.devcluster.cluster import DevCluster
from kafkaform.devcluster.ports import find_free_ports
from kafkaform.resources.consumer_group.operations import DeleteGroup
from kafkaform.resources.topic.operations import DeleteTopic
from tests.support.cli.command_lines import calls, parse
from tests.support.cli.project import ROOT, Project, environment, run_in_process
from tests.support.clusters.fixtures import connect, eventually, start_guarded
from tests.support.clusters.group_clients import produce
from tests.support.clusters.topics import make_topic
from tests.support.github.git_work import Work, commit_all
from tests.support.markdown import Block, list_blocks
from tests.support.skew.producers import send

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_CLUSTER = "needs a Spark cluster; test_skew_submit.py has one"
_JARS = "needs jars of another project; the same code writes Parquet in test_skew_metrics.py"
NOT_RUN: dict[str, str] = {
    "kafkaform skew orders.v1 --master spark://spark.example.com:7077 "
    "--spark-conf spark.executor.memory=4g": _CLUSTER,
    "kafkaform skew orders.v1 --master yarn": _CLUSTER,
    "kafkaform skew orders.v1 --history s3a://bucket/skew --history-format delta \\": _JARS,
    "kafkaform skew orders.v1 --history lake.kafka.skew --history-format iceberg \\": _JARS,
}
"""Command lines that no test runs, and why."""


_EXITS = re.compile(r"#.*\bexits (\d+)")
_AFTER_TRAFFIC = {"arrivals", "hot-key", "reset", "skew"}
"""Blocks before which the example set is applied, and topics are written to."""
_STARTS_ITS_OWN = {
    "access": ".",
    "quickstart": "my-topics",
    "tutorial": "shop",
    "dev-cluster": ".",
    "replicas": ".",
}
"""Blocks that start a broker by themselves, and the folder in which they do."""
_FROM_NOTHING = {"access", "agent", "fewer-partitions", "quickstart", "tutorial", "gitops", "replicas"}
"""Stories that begin in an empty folder, and not with the example set."""
_CONFIGURED = {"agent", "gitops"}
"""Stories whose configuration names the broker, and no variable."""
_OFFLINE = {"add-a-topic", "client-config", "profiles", "kafka-gitops", "julieops", "topicctl", "others"}
"""Stories that ask no cluster."""
_DAILY = {"access", "quickstart", "tutorial", *_OFFLINE}
"""What a newcomer types first, and what costs next to nothing."""
DEV_UP = "kafkaform dev up --port 9092"
"""How a page starts the cluster `dev` of a new repository."""
_NIGHTLY = {
    "replicas": "three brokers and a move of replicas, which tests/kafka/test_three_brokers.py has every day",
    "skew": "two sessions of Spark, of which tests/kafka/test_cli_skew.py and tests/spark have one every day",
}
"""Why a story is too heavy for every change; the others, because of `_MANY`."""
_MANY = "up to 17 processes on a broker; tests/kafka and tests/unit/cli have its commands every day"
_IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "A Reader"), ("EMAIL", "reader@example.com"))
}


_ALL = list_blocks(*PAGES)
PRINTED = {block.marker: printed.text for block, printed in pairwise(_ALL) if printed.marker == "printed"}
"""What a block prints, by the comment before it: these lines, in this order; `…` is any text."""
BLOCKS = [block for block in _ALL if block.marker != "printed"]
RUN = {name: block for block in BLOCKS if (name := block.marker.removeprefix("run: ")) != block.marker}
"""Blocks that are run, by their names."""
STORIES = {story: [*names] for story, names in groupby(RUN, key=lambda name: name.partition("/")[0])}
"""Blocks by what stands before a slash in their names: they are run one after the other, in one folder."""


def list_commands(block: Block) -> list[str]:
    """Return the kafkaform commands of a block, without prompts and comments."""
    lines = [re.sub(r"\s+#.*", "", line.removeprefix("$ ")) for line in block.text.splitlines()]
    return [line for line in lines if re.match(r"(export \w+=\$\()?kafkaform\s", line)]


def mark_by_weight(story: str) -> Any:
    """A story as a parameter, nightly unless it is one for every day."""
    why = _NIGHTLY.get(story, _MANY)
    return pytest.param(story, marks=[] if story in _DAILY else [pytest.mark.nightly(why)])


EXAMPLE_ADDRESS = "kafka-1.example.com:9092"


def script(text: str) -> str:
    """The block, with the exit codes that its comments announce checked."""
    lines = []
    for line in text.splitlines():
        if announced := _EXITS.search(line):
            line = (
                f"code=0; {line[: announced.start()]} || code=$?\n"
                f'[ $code = {announced[1]} ] || {{ echo "exit code $code" >&2; exit 70; }}'
            )
        lines.append(line)
    return "\n".join(lines)


@pytest.fixture(scope="module")
def broker() -> Iterator[DevCluster]:
    """A broker for all stories: the example set has names of its own, so that others cannot be on it."""
    with start_guarded(1, heap_mb=256) as cluster:
        yield cluster


@pytest.fixture
def empty_broker(broker: DevCluster) -> DevCluster:
    """That broker without what an earlier story left: topics, the record, groups and their configs."""
    with connect(broker.bootstrap_servers) as cluster:
        found = cluster.observe([RECORD], lambda _: True, kinds=("Topic", "ConsumerGroup")).resources
        groups = [
            DeleteGroup(ref, tuple(p.removeprefix(CONFIG_PREFIX) for p in entry.state if CONFIG_PREFIX in p))
            for ref, entry in found.items()
            if ref.kind == "ConsumerGroup" and ref.name != LOCK
        ]
        topics = [
            DeleteTopic(ref, entry.uid)
            for ref, entry in found.items()
            if ref.kind == "Topic" and (ref == RECORD or not entry.internal)
        ]
        assert not any((*cluster.execute(groups), *cluster.execute(topics)))
        gone = {*(group.ref for group in groups), *(topic.ref for topic in topics)}
        eventually(lambda: cluster.observe([RECORD, *gone]).inventory, gone.isdisjoint)
    return broker


@contextmanager
def end_runs(directory: Path) -> Iterator[None]:
    """Whatever runs of a cluster in that directory is ended, even if this process is killed."""
    guard = subprocess.Popen(
        [sys.executable, "-m", "tests.support.clusters.guard", directory],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield
    finally:
        guard.communicate()


@pytest.mark.parametrize("story", [*map(mark_by_weight, STORIES)])
def test_documented_command_blocks_run_as_described(
    story: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    variables = {**_IDENTITY, "KAFKAFORM_LOCK": "true", "KAFKAFORM_AUDIT": "true"}
    if story not in _FROM_NOTHING:
        for folder in ("topics", "schemas"):
            shutil.copytree(ROOT / folder, tmp_path / folder)
        shutil.copy(ROOT / "kafkaform.yaml", tmp_path)
        if story not in _STARTS_ITS_OWN:
            variables["KAFKAFORM_ENVIRONMENT"] = "dev"
    if story not in {*_STARTS_ITS_OWN, *_OFFLINE}:
        broker: DevCluster = request.getfixturevalue("empty_broker")
        variables["KAFKAFORM_BOOTSTRAP_SERVER"] = broker.bootstrap_servers
    if story in _AFTER_TRAFFIC:
        run_in_process("apply", "--auto-approve", cwd=tmp_path, env=variables).needs(0)
        produce(variables["KAFKAFORM_BOOTSTRAP_SERVER"], "orders.v1", dict.fromkeys(range(3), 20))
        if story in {"hot-key", "skew"}:
            send(variables["KAFKAFORM_BOOTSTRAP_SERVER"], "orders.v1", (b"%d" % n for n in range(20_000)))
    with end_runs(tmp_path / _STARTS_ITS_OWN.get(story, "") / ".kafkaform" / "dev"):
        for name in STORIES[story]:
            if name in _BEFORE:
                _BEFORE[name](Project(tmp_path, variables.get("KAFKAFORM_BOOTSTRAP_SERVER", ""), ""))
            run_block(name, tmp_path, variables)


def run_block(name: str, folder: Path, variables: dict[str, str]) -> None:
    """Run a block; its folder and what it exports are there for the next one of its story."""
    exports = folder / ".exports"
    # The configuration of the page names this broker, as a reader's would name theirs.
    written = RUN[name].text.replace(EXAMPLE_ADDRESS, variables.get("KAFKAFORM_BOOTSTRAP_SERVER", ""))
    if name.partition("/")[0] in _CONFIGURED:
        variables = {key: value for key, value in variables.items() if "BOOTSTRAP" not in key}
    if DEV_UP in written:  # more than one story runs at a time
        (port,) = find_free_ports(1)
        configured = f"sed -i.bak s/:9092/:{port}/ kafkaform.yaml && rm kafkaform.yaml.bak"
        written = written.replace(DEV_UP, f"{configured} && kafkaform dev up --port {port}")
    text = f"{script(written)}\n{{ export -p; printf 'cd %q\\n' \"$PWD\"; }} > {exports}"
    if exports.exists():
        text = f". {exports}\n{text}"
    done = subprocess.run(
        ["bash", "-e", "-u", "-o", "pipefail", "-c", text],
        cwd=folder,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    printed = iter((done.stdout + done.stderr).splitlines())
    for line in PRINTED.get(f"run: {name}", "").splitlines():
        pattern = ".*".join(map(re.escape, line.strip().split("…")))
        assert any(re.fullmatch(rf"\s*{pattern}", each) for each in printed), (
            f"not printed: {line}\n{done.stdout}"
        )


def test_quickstart_lists_init_next_commands() -> None:
    _, *lines = list_commands(RUN["quickstart"])
    assert len(lines) == len(NEXT_COMMANDS)
    assert all(map(str.startswith, lines, NEXT_COMMANDS))
    assert DEV_UP in NEXT_COMMANDS


def make_topics_by_hand(project: Project) -> None:
    with connect(project.servers) as cluster:
        make_topic(cluster, "orders.v1", 6, retention_ms="604800000")
        make_topic(cluster, "payments.v1", 3, cleanup_policy="compact")


def make_a_part_of_a_plan(project: Project) -> None:
    dev = {"KAFKAFORM_ENVIRONMENT": "dev", "KAFKAFORM_BOOTSTRAP_SERVER": project.servers}
    project.run("plan", "--out", "plan.json", env=dev).needs(0)
    project.run("apply", "--auto-approve", "--target", "Topic/orders.v1", env=dev).needs(0)


def write_access(project: Project) -> None:
    yaml = [block.text for block in BLOCKS if (block.page, block.info) == ("access.md", "yaml")]
    project.write("topics/access.yaml", "---\n".join(yaml[:2]))


def write_clicks(project: Project, manifest: int) -> None:
    """Write a manifest of the page, with the id of the live topic in the place of the example's."""
    yaml = [each.text for each in BLOCKS if (each.page, each.info) == ("fewer-partitions.md", "yaml")][
        manifest
    ]
    with connect(project.servers) as cluster:
        uid = cluster.topic_ids(["clicks.v1"]).get("clicks.v1", "")
    project.write("topics/clicks.yaml", yaml.replace("3dBzWnVfRkWvGk1yQn2c8A", uid))


def create_clicks(project: Project) -> None:
    with connect(project.servers) as cluster:
        make_topic(cluster, "clicks.v1", 12)
    send(project.servers, "clicks.v1", (b"%d" % n for n in range(100)))
    write_clicks(project, 0)


_BEFORE: dict[str, Callable[[Project], None]] = {
    "add-a-topic/1-branch": lambda project: commit_all(Work(project.folder).folder, "Topics"),
    "fewer-partitions/1-refused": create_clicks,
    "fewer-partitions/2-plan": lambda project: write_clicks(project, 1),
    "access/4-plan": write_access,
    "gitops/1-import": make_topics_by_hand,
    "recover/1-history": make_a_part_of_a_plan,
    "gitops/4-drift": lambda project: project.set_config("orders.v1", "retention.ms", "86400000"),
}
"""What others do to the cluster before a block."""


def test_every_command_of_the_docs_is_run() -> None:
    run = {command for block in RUN.values() for command in list_commands(block)}
    assert len(run) > 15, "the blocks were not found"
    shown = {command: block.page for block in BLOCKS for command in list_commands(block)}
    assert {command: page for command, page in shown.items() if command not in run | set(NOT_RUN)} == {}
    assert set(NOT_RUN) <= set(shown)


def test_every_command_of_the_docs_is_valid() -> None:
    # The command line's own page is made from the commands.
    lines = [(block, line) for block in BLOCKS if block.page != "cli.md" for line in calls(block.text)]
    assert len(lines) > 150, "the commands were not found"
    named = {block.marker for block, _ in lines}
    assert {name.partition("/")[0] for name in RUN if f"run: {name}" in named} == {*STORIES}
    for block, line in lines:
        parse(line, block.page)


_GNU_ONLY = re.compile(
    r"\bsed (-\w+ )*(-i |--in-place|'0,)|\bsed .*\\[nt]|\b(date|touch) (-d|--date)|\breadlink -f|\bgrep -\w*P"
    r"|\bbase64 (-d|-w)|\bstat (-c|--format)|\bxargs -\w*r|\bhead -n ?-|\bsort -V|\bcp (-t|--)|-printf"
    r"|\bmktemp --|\b(timeout|tac|nproc|sha256sum|shuf|numfmt|setsid|flock|realpath|python) [^:]|\bls --"
)
"""What the tools of macOS, or a shell outside a virtual environment, do not have."""


def test_documented_commands_need_no_gnu_options() -> None:
    shell = [block for block in BLOCKS if block.info.split()[:1] in (["sh"], ["bash"])]
    assert len(shell) > 50, "the blocks were not found"
    found = {
        (block.page, line) for block in shell for line in block.text.splitlines() if _GNU_ONLY.search(line)
    }
    assert found == set()


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("plan --no-such-option", "No such option"),
        ("show plan.json another.json", r"too much: \['another.json'\]"),
        ("reset --to latest", "Missing parameter: group"),
        ("plan --format pdf", "'pdf' is not one of"),
    ],
)
def test_invalid_documented_command_is_detected(line: str, wrong: str) -> None:
    [found] = calls(f'x=$(kafkaform {line}) && echo "kafkaform is done"  # kafkaform fails')
    assert found == line.split()
    with pytest.raises(AssertionError, match=wrong):
        parse(found, "a page")


def test_announced_exit_code_is_checked() -> None:
    for code, text in {
        0: "false   # exits 1\ntrue  # all is well: exits 0, else 2\ntrue",
        70: "true    # exits 2",
        1: "false\ntrue",
    }.items():
        done = subprocess.run(["bash", "-e", "-c", script(text)], stderr=subprocess.DEVNULL, check=False)
        assert done.returncode == code
