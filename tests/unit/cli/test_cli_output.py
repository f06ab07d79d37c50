"""Plans as annotations and SARIF: their findings, and what is wrong with their input."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from inspect import Parameter, signature
from io import StringIO
from pathlib import Path
from pkgutil import resolve_name

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from kafkaform.cli.output import RENDERERS, print_text, show
from kafkaform.core.model import Diagnostic, Location, Severity
from kafkaform.core.plans import Plan
from kafkaform.core.printable import printable
from kafkaform.plan.plan_header import PlanHeader
from tests.support.cli.project import Project, run_in_process

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


@pytest.mark.parametrize("output_format", ["github", "sarif"])
def test_invalid_manifests_are_reported_in_plan_format(tmp_path: Path, output_format: str) -> None:
    project = Project(tmp_path, "127.0.0.1:1", "x.")
    project.topic("a", partitons=3)
    arguments = ("plan", "--bootstrap-server", "127.0.0.1:1", "--format")
    call = run_in_process(*arguments, output_format, cwd=tmp_path).needs(1)
    assert call.err == ""
    assert "topics/a.yaml" in call.out

    if output_format == "sarif":
        assert call.json["runs"][0]["invocations"] == [{"executionSuccessful": False}]
        (result,) = call.json["runs"][0]["results"]
        assert (result["ruleId"], result["level"]) == ("invalid-input", "error")
        region = result["locations"][0]["physicalLocation"]["region"]
        assert (region["startLine"], region["startColumn"]) == (7, 3)
    else:
        assert call.out.startswith("::error file=topics/a.yaml,line=7,col=3,title=invalid input::")
    assert "topics/a.yaml:" in run_in_process(*arguments, "markdown", cwd=tmp_path).needs(1).err


RENDERED = [(report, output_format) for report, formats in RENDERERS.items() for output_format in formats]


@pytest.mark.parametrize(("report", "output_format"), RENDERED)
def test_renderer_options_match_table(report: str, output_format: str) -> None:
    renderer = RENDERERS[report][output_format]
    first, *options = signature(resolve_name(renderer.path)).parameters.values()
    assert first.default is Parameter.empty
    assert {option.name for option in options if option.default is Parameter.empty} <= {*renderer.options}
    assert {*renderer.options} == {option.name for option in options} - {"indent"}


def test_report_file_has_no_colours_and_ends_with_newline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    show("plan", "text", PLAN, out=tmp_path / "plan.txt", header=HEADER, verbose=False)
    text = (tmp_path / "plan.txt").read_text()
    assert text.startswith("kafkaform plan · cluster c\n")
    assert text.endswith("Nothing to apply: 1 unchanged, 1 error.\n")
    assert "\x1b" not in text
