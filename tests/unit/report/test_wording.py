"""Commands that messages print: a shell takes each word for what it is, wherever a name comes from."""

import ast
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkaform
from kafkaform.cli.main import COMMANDS
from kafkaform.config.settings import Settings
from kafkaform.core.model import Desired, Intent
from kafkaform.core.printable import split_code
from kafkaform.core.wording import command
from kafkaform.plan import planning
from kafkaform.report.plan import render_plan, render_plan_markdown
from kafkaform.resources.consent import Grant
from tests.support.markdown import parse_markdown
from tests.support.memory_cluster.memory import MemoryCluster
from tests.support.plans.scenes import QUIET, create_topic, group_ref

HOSTILE = ("x;touch p;#", "a  b", "$(touch p)", "`touch p`", "it's", 'a"b', "*", "[x]", "-x", "--help", "a|b")
"""What a group may be called: Kafka allows any text."""

names = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1).filter(
    lambda name: name.isprintable() and name.strip()
)


@given(names, names)
def test_printed_command_is_parsed_by_shell(name: str, value: str) -> None:
    text = f"so: {command('reset', name, options=('--to', value))}."
    (code,) = [piece for piece, is_code in split_code(text) if is_code]
    words = shlex.split(code)
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


def read_allow_values(text: str) -> list[str]:
    """The values of --allow in a text that has nothing else behind them in the line."""
    lines = [line[line.index("--allow") :] for line in text.splitlines() if "--allow" in line]
    return [word for line in lines for word in shlex.split(line)[1::2]]


@pytest.mark.parametrize("name", HOSTILE)
def test_suggested_consent_covers_named_resource_only(name: str) -> None:
    memory, group = MemoryCluster(), group_ref(name)
    create_topic(memory, "a")
    memory.commit(name, {("a", 0): 5})
    request = planning.Request([Desired(group, None, Intent())])
    plan = planning.build_plan(request, memory, Settings(rules=QUIET), None)
    (flag,) = read_allow_values(render_plan(plan, width=80).plain)
    grant = Grant.parse(flag)
    assert grant.covers(group, "delete")
    assert not grant.covers(group_ref("other"), "delete")
    found = parse_markdown(render_plan_markdown(plan)).spans
    assert flag in [value for span in found for value in read_allow_values(span)]
