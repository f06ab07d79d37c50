"""Outputs: reports and their exit codes, errors in one line with a hint and no secret, and closed streams."""

import base64
import json
import os
import socket
import subprocess
import sys
from contextlib import closing, redirect_stdout
from inspect import Parameter, signature
from io import StringIO
from pathlib import Path
from pkgutil import resolve_name

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from kafkaform import __version__
from kafkaform.cli.options import ClusterSelector
from kafkaform.cli.output import RENDERERS, print_text, show
from kafkaform.cli.plan import exit_code
from kafkaform.cli.show import Saving
from kafkaform.core.model import Create, Diagnostic, FieldChange, Location, Severity, Status, Update
from kafkaform.core.plans import Plan, PlannedChange
from kafkaform.core.printable import printable
from kafkaform.plan.plan_file import plan_to_json
from kafkaform.plan.plan_header import PlanHeader
from tests.support.cli.project import BIN, Project, command, environment, kafkaform, run_in_process
from tests.support.plans.scenes import topic

HEADER = PlanHeader("0.1", None, None, None, "2026-11-01T00:00:00Z")
PLAN = Plan(
    "c",
    changes=(),
    unchanged=1,
    diagnostics=(
        Diagnostic("KF109", Severity.ERROR, "too few", Location("topics/a.yaml", 7, 5), "set it to 2"),
        Diagnostic("KF411", Severity.WARNING, "they differ"),
        Diagnostic("KF113", Severity.INFO, "unclean", waived="meant"),
    ),
)


def test_plan_annotations_and_sarif_have_findings(capsys: pytest.CaptureFixture[str]) -> None:
    show("plan", "github", PLAN, header=HEADER, verbose=False)
    first, second, summary = capsys.readouterr().out.splitlines()
    assert first.startswith("::error file=topics/a.yaml,line=7,col=5,title=KF109::")
    assert second.startswith("::warning title=KF411::")
    assert summary == "Nothing to apply: 1 unchanged, 1 error."
    show("plan", "sarif", PLAN, header=HEADER, verbose=False)
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    found = [(result["ruleId"], bool(result["suppressions"])) for result in results]
    assert found == [("KF109", False), ("KF411", False), ("KF113", True)]


@given(st.lists(st.tuples(st.text(), st.sampled_from(["", "bold", "dim red"]))))
def test_plain_text_matches_rich_output(parts: list[tuple[str, str]]) -> None:
    text = Text("\n").join([Text(printable(part), style) for part, style in parts])
    with redirect_stdout(StringIO()) as printed:
        print_text(text)
    with redirect_stdout(StringIO()) as by_rich:
        Console(color_system=None, markup=False, highlight=False, emoji=False, soft_wrap=True).print(text)
    assert printed.getvalue() == by_rich.getvalue()


def test_invalid_manifests_are_reported_in_plan_format(project: Project) -> None:
    project.topic("a", partitons=3)
    sarif, github = (project.run("plan", "--format", name).needs(1) for name in ("sarif", "github"))
    assert (sarif.err, github.err) == ("", "")
    assert github.out.startswith("::error file=topics/a.yaml,line=7,col=3,title=invalid input::")
    (run,) = sarif.json["runs"]
    assert run["invocations"] == [{"executionSuccessful": False}]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("invalid-input", "error")
    region = result["locations"][0]["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"]) == (7, 3)
    assert "topics/a.yaml:" in project.run("plan", "--format", "markdown").needs(1).err


RENDERED = [(report, output_format) for report, formats in RENDERERS.items() for output_format in formats]


@pytest.mark.parametrize(("report", "output_format"), RENDERED)
def test_renderer_options_match_table(report: str, output_format: str) -> None:
    renderer = RENDERERS[report][output_format]
    first, *options = signature(resolve_name(renderer.path)).parameters.values()
    assert first.default is Parameter.empty
    assert {option.name for option in options if option.default is Parameter.empty} <= {*renderer.options}
    assert {*renderer.options} == {option.name for option in options} - {"indent"}


def test_report_file_has_no_colours_and_a_newline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    show("plan", "text", PLAN, out=tmp_path / "plan.txt", header=HEADER, verbose=False)
    text = (tmp_path / "plan.txt").read_text()
    assert text.startswith("kafkaform plan · cluster c\n")
    assert text.endswith("Nothing to apply: 1 unchanged, 1 error.\n")
    assert "\x1b" not in text


@pytest.mark.parametrize("command", ["validate", "plan", "drift", "doctor", "graph", "apply"])
def test_invalid_input_error_mentions_apply_only_for_apply(tmp_path: Path, command: str) -> None:
    project = Project(tmp_path, "127.0.0.1:1", "")
    project.config()
    project.topic("a", partitons=3)
    last = [line for line in project.run(command).needs(1).err.splitlines() if line.startswith("Error: ")][-1]
    assert last == f"Error: 1 problem in the input{'; nothing was applied' if command == 'apply' else ''}"


def test_unreachable_cluster_is_single_error_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Project(tmp_path, "", "x.").topic("a")
    monkeypatch.setattr("kafkaform.cluster.transport.connection.CONNECT_TIMEOUT_S", 1.0)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        slow = f"127.0.0.1:{silent.getsockname()[1]}"
        for server in ("127.0.0.1:1", slow, "no-such-host.invalid:9092"):
            call = run_in_process("plan", "topics", "--bootstrap-server", server, cwd=tmp_path)
            assert f"no broker of {server} answered within 1 s" in call.read_error()[0]
            assert call.said == call.err


def test_unexpected_error_is_single_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("boom \x1b[31m\nsecond line")

    monkeypatch.setattr("kafkaform.cli.validate.find_settings", fail)
    error, hint = run_in_process("validate", cwd=tmp_path).read_error()
    assert error == r"unexpected RuntimeError: boom \x1b[31m\nsecond line"
    assert "--debug" in hint


SIGNS = """
import logging
from kafkaform.cli.error_handler import ErrorHandler
from kafkaform.cluster.transport.tokens import make_token_source
from kafkaform.config.client_properties.transport import MskIamSettings, SaslSettings

ErrorHandler().debug()
logging.getLogger("a.client").debug("is shown")
print(make_token_source(SaslSettings("OAUTHBEARER", tokens=MskIamSettings("eu-west-1"))).token().value)
"""


def test_debug_output_has_no_aws_credentials() -> None:
    credentials = {"ACCESS_KEY_ID": "a-public-name", "SECRET_ACCESS_KEY": "hunter2"}
    credentials["SESSION_TOKEN"] = "a-session-4711"
    environ = {**os.environ, **{f"AWS_{name}": value for name, value in credentials.items()}}
    script = [sys.executable, "-c", SIGNS]
    signed = subprocess.run(script, env=environ, capture_output=True, text=True, check=True)
    token = base64.urlsafe_b64decode(f"{signed.stdout.strip()}==").decode()
    assert "a-session-4711" in token
    signature = token.partition("X-Amz-Signature=")[2].partition("&")[0]
    assert "is shown" in signed.stderr
    for secret in ("hunter2", "a-session-4711", signature):
        assert secret not in signed.stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((), "it has nothing to apply"),
        ((Status.PLANNED,), "`kafkaform apply p.json`"),
        ((Status.REFUSED,), "changes nothing: 1 refused"),
    ],
)
def test_saved_plan_suggests_apply_only_with_planned_changes(
    changes: tuple[Status, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = Plan("c", tuple(PlannedChange(Create(topic("t"), {}), status) for status in changes))
    Saving(Path("p.json")).tell(plan, ClusterSelector())
    assert words in capsys.readouterr().err


TOPIC = topic("a")
WAITING = Update(TOPIC, None, (FieldChange("replicationFactor", 1, 3, deferred="the layout is not known"),))
CODES = [
    (Plan("c"), 0, 0, 0),
    (Plan("c", (PlannedChange(Create(TOPIC, {}), Status.PLANNED),)), 0, 2, 0),
    (Plan("c", (PlannedChange(Create(TOPIC, {}), Status.REFUSED),)), 0, 2, 1),
    (Plan("c", (PlannedChange(Create(TOPIC, {}), Status.NEEDS_CONSENT),)), 0, 2, 1),
    (Plan("c", (PlannedChange(WAITING, Status.PLANNED),)), 0, 2, 1),
    (Plan("c", unknown=(TOPIC,)), 1, 1, 1),
]


@pytest.mark.parametrize(("made", "simple", "with_detail", "strict"), CODES)
def test_plan_exit_codes_have_precedence(made: Plan, simple: int, with_detail: int, strict: int) -> None:
    assert exit_code(made, detailed=False, strict=False) == simple
    assert exit_code(made, detailed=True, strict=False) == with_detail
    assert exit_code(made, detailed=False, strict=True) == strict
    assert exit_code(made, detailed=True, strict=True) == (strict or with_detail)


def test_graph_of_manifests_needs_no_cluster(project: Project) -> None:
    project.group("shop", topics=[project.topic("orders")])
    (edge,) = project.run("graph", "--format", "json").needs(0).json["edges"]
    assert edge == {"topic": "x.orders", "group": "x.shop", "declared": True, "live": None, "lag": None}


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    """A saved plan; its text has characters beyond ASCII."""
    fields = (FieldChange("partitions", 3, 6, 3, 6),)
    updates = (Update(topic(f"orders.{n:04}"), "id", fields) for n in range(500))
    changes = tuple(PlannedChange(update, Status.PLANNED) for update in updates)
    file = tmp_path / "plan.json"
    file.write_text(plan_to_json(Plan("cluster", changes), HEADER), "utf-8")
    return file


def test_module_and_script_are_entry_points(tmp_path: Path) -> None:
    for start in (command(), [str(BIN / "kafkaform")]):
        done = subprocess.run([*start, "--version"], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == f"kafkaform, version {__version__}\n"
        wrong = subprocess.run([*start, "nope"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert wrong.returncode == 64


def test_closed_pipe_is_not_reported(plan_file: Path) -> None:
    for arguments in (["show", plan_file], ["--help"]):
        read, write = os.pipe()
        os.close(read)
        with os.fdopen(write, "w") as closed:
            done = subprocess.run(
                command(*arguments), stdout=closed, stderr=subprocess.PIPE, check=False, env=environment()
            )
        assert (done.returncode, done.stderr) == (1, b"")


FULL = "Error: the output: No space left on device\n"


@pytest.mark.parametrize(
    ("redirection", "error"),
    [
        (">&-", ""),
        ("2>&-", ""),
        (">&- 2>&-", ""),
        ("<&-", ""),
        (">/dev/full", FULL),
        ("--format json >/dev/full", FULL),
    ],
)
def test_only_full_disk_is_reported_in_one_line(redirection: str, error: str, plan_file: Path) -> None:
    shell = ["bash", "-c", f'exec "$0" "$@" {redirection}', *command("show", plan_file)]
    done = subprocess.run(shell, capture_output=True, text=True, check=False, env=environment())
    assert (done.returncode, done.stderr) == (int(bool(error)), error)


def test_ascii_output_escapes_arrow(plan_file: Path) -> None:
    shown = kafkaform("show", plan_file, cwd=plan_file.parent, env={"PYTHONIOENCODING": "ascii"})
    assert r"3 \u2192 6" in shown.needs(0).out
