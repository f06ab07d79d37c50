"""Commands that messages print: a shell takes each word for what it is, wherever a name comes from."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkaform
from kafkaform import rules
from kafkaform.cli.main import COMMANDS
from kafkaform.config.settings import Settings
from kafkaform.core.model import Desired, Facts, Intent, ResourceRef
from kafkaform.core.plans import Plan
from kafkaform.core.printable import split_code
from kafkaform.core.wording import command
from kafkaform.inspect.reversal import plan_reversal
from kafkaform.plan import planning
from kafkaform.report.plan import render_plan, render_plan_markdown
from kafkaform.resources.consent import Grant
from kafkaform.resources.consumer_group.risk import judge_delete
from tests.support.markdown import parse_markdown
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.audit import Story
from tests.support.plans.scenes import QUIET, create_topic, topic

HOSTILE = [
    "x;touch p;#",
    "a  b",
    "$(touch p)",
    "`touch p`",
    "it's",
    'a"b',
    "*",
    "[x]",
    "-x",
    "--help",
    "~",
    "a|b",
]
"""What a group may be called: Kafka allows any text."""

names = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1).filter(
    lambda name: name.isprintable() and name.strip()
)
hostile = pytest.mark.parametrize("name", HOSTILE)


@given(names, names)
def test_printed_command_is_parsed_by_shell(name: str, value: str) -> None:
    words = words_of(f"so: {command('reset', name, options=('--to', value))}.")
    assert words[:2] == ["kafkaform", "reset"]
    assert sorted(words[2:]) == sorted([*(["--"] if name.startswith("-") else []), name, "--to", value])
    assert not name.startswith("-") or words[-2:] == ["--", name]


def test_commands_in_messages_are_quoted_by_command() -> None:
    """Each command with a value in it is made by `command`, which quotes."""
    bare = re.compile(rf"\bkafkaform (?:{'|'.join(COMMANDS)})(?: [a-z.-]+)* ['\"]?$")
    found = []
    for file in sorted(Path(kafkaform.__file__).parent.rglob("*.py")):
        source = file.read_text("utf-8")
        for node in ast.walk(ast.parse(source)) if "kafkaform " in source else ():
            if isinstance(node, ast.JoinedStr):
                for part, after in zip(node.values, node.values[1:], strict=False):
                    text = str(part.value) if isinstance(part, ast.Constant) else ""
                    if isinstance(after, ast.FormattedValue) and bare.search(text):
                        found.append(f"{file.name}:{node.lineno}: {text}")
    assert found == []


def words_of(text: str) -> list[str]:
    """The words of the command that a message has, as a shell reads them."""
    (code,) = [piece for piece, is_code in split_code(text) if is_code]
    return shlex.split(code)


def group(name: str) -> ResourceRef:
    return ResourceRef("ConsumerGroup", name)


def build_cluster_with_offsets(name: str) -> MemoryCluster:
    memory = MemoryCluster()
    create_topic(memory, "a", partitions=3)
    memory.write("a", 0, 10, 0)
    memory.commit(name, {("a", 0): 5})
    return memory


def tombstone(name: str) -> tuple[MemoryCluster, Desired]:
    return build_cluster_with_offsets(name), Desired(group(name), None, Intent())


def reverse_offset(name: str) -> str:
    story = Story()
    change = story.add("update", name, {"offsets.a:2": (41, 7)}, kind="ConsumerGroup")
    (reason,) = plan_reversal([change], story.entries, {}).refused
    return reason


def check_rules(name: str) -> str | None:
    desired = Desired(group(name), {}, Intent(spec={"topics": ["a"]}))
    observed = build_cluster_with_offsets(name).observe([group(name), topic("a")]).resources
    scene = rules.RuleContext((desired,), live=observed)
    (found,) = [item for item in rules.check(scene, {}, (rules.Stage.CHANGES,)) if item.code == "KF406"]
    return found.suggestion


@hostile
@pytest.mark.parametrize(
    "advise",
    [
        lambda name: judge_delete(group(name), {"offsets.a:0": 5}, Facts("c")).remedy,
        reverse_offset,
        check_rules,
    ],
    ids=["deletion", "reversal", "rule"],
)
def test_advice_has_command_with_group_name(advise: Callable[[str], str | None], name: str) -> None:
    assert name in words_of(str(advise(name)))


def deletion(name: str) -> Plan:
    memory, desired = tombstone(name)
    return planning.build_plan(planning.Request([desired]), memory, Settings(rules=QUIET), None)


def read_allow_values(text: str) -> list[str]:
    """The values of --allow in a text that has nothing else behind them in the line."""
    lines = [line[line.index("--allow") :] for line in text.splitlines() if "--allow" in line]
    return [word for line in lines for word in shlex.split(line)[1::2]]


@hostile
def test_suggested_consent_covers_named_resource_only(name: str) -> None:
    plan = deletion(name)
    (flag,) = read_allow_values(render_plan(plan, width=80).plain)
    grant = Grant.parse(flag)
    assert grant.covers(group(name), "delete")
    assert not grant.covers(group("other"), "delete")
    found = parse_markdown(render_plan_markdown(plan)).spans
    assert flag in [value for span in found for value in read_allow_values(span)]
