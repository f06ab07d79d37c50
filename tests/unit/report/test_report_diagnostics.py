"""Findings as text, JSON, annotations of GitHub and SARIF."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from sarif_pydantic import Sarif

from kafkaform import rules
from kafkaform.cli.output import RENDERERS, render
from kafkaform.core.errors import Problem
from kafkaform.core.model import Diagnostic, Location, Severity
from kafkaform.core.plans import Plan
from kafkaform.core.values import replace
from kafkaform.report.diagnostics import count_findings, findings_to_text, has_errors, plan_to_github
from kafkaform.report.findings import (
    ChangedFiles,
    ReportedFinding,
    Workspace,
    from_problems,
    merge_environments,
    wrap_findings,
)

HERE = Workspace("/repo", "/repo")
PLACE = Location("topics/a.yaml", 7, 5)
ERROR = Diagnostic("KF109", Severity.ERROR, "too few", PLACE, "set it to 2")
WARNING = Diagnostic("KF104", Severity.WARNING, "odd", Location("topics/b.yaml", 3))
WAIVED = Diagnostic("KF113", Severity.INFO, "unclean", PLACE, waived="TICKET-1: replayed")
WHOLE = Diagnostic("KF404", Severity.ERROR, "a third of all topics")
ALL = wrap_findings([ERROR, WARNING, WAIVED, WHOLE])


def render_findings(found: list[ReportedFinding], output_format: str, workspace: Workspace = HERE) -> str:
    text = render("findings", output_format, found, workspace=workspace, known=rules.list_entries())
    assert isinstance(text, str)
    return text


def sarif(found: list[ReportedFinding], workspace: Workspace = HERE) -> Any:
    return json.loads(render_findings(found, "sarif", workspace))["runs"][0]


def test_text_is_wrapped_except_code() -> None:
    long = replace(ERROR, message="word " * 20 + "word", suggestion="write `state: absent`")
    assert findings_to_text([ReportedFinding(long)], width=60).splitlines() == [
        "topics/a.yaml:7:5: error: KF109 word word word word word",
        "    word word word word word word word word word word word",
        "    word word word word word (write `state: absent`)",
    ]
    assert "%0Awrite `state: absent`" in render_findings([ReportedFinding(long)], "github")


def test_equal_findings_of_environments_are_merged() -> None:
    found = merge_environments({"dev": [ERROR, ERROR], "test": [ERROR, WARNING], "prod": [ERROR, WARNING]})
    assert found == [ReportedFinding(ERROR), ReportedFinding(WARNING, ("test", "prod"))]
    assert found[1].message == "odd (in test, prod)"
    assert merge_environments({None: [WARNING]}) == [ReportedFinding(WARNING)]


def test_findings_are_sorted_by_location() -> None:
    later = replace(ERROR, location=Location("topics/a.yaml", 70))
    found = merge_environments({None: [WHOLE, WARNING, later, ERROR]})
    assert [item.diagnostic for item in found] == [ERROR, later, WARNING, WHOLE]


def test_waived_findings_are_not_errors() -> None:
    waived_error = replace(ERROR, waived="meant")
    assert count_findings(ALL) == ["2 errors", "1 warning", "1 waived"]
    assert has_errors(ALL)
    assert not has_errors([ReportedFinding(waived_error), ReportedFinding(WARNING)])
    assert count_findings([ReportedFinding(waived_error)]) == ["1 waived"]
    assert count_findings([]) == []


def test_text_has_line_per_finding() -> None:
    assert render_findings(ALL, "text").splitlines() == [
        "topics/a.yaml:7:5: error: KF109 too few (set it to 2)",
        "topics/b.yaml:3:1: warning: KF104 odd",
        "topics/a.yaml:7:5: info: KF113 unclean (waived: TICKET-1: replayed)",
        "error: KF404 a third of all topics",
    ]
    assert render_findings([], "text") == ""


def test_json_has_waivers_and_environments() -> None:
    found = [ReportedFinding(WAIVED, ("prod",)), *from_problems([Problem("bad")])]
    waived, bad = json.loads(render_findings(found, "json"))["diagnostics"]
    assert waived["source"] == {"file": "topics/a.yaml", "line": 7, "column": 5}
    assert (waived["waived"], waived["environments"]) == ("TICKET-1: replayed", ["prod"])
    assert (bad.pop("severity"), bad.pop("message")) == ("error", "bad")
    assert {*bad.values()} == {None}


def test_annotations_escape_workflow_commands() -> None:
    bad = Diagnostic("policy/a", Severity.ERROR, "50%: a,b\r\n::stop-commands::x", Location("a:b,c%.yaml"))
    (line,) = render_findings(wrap_findings([bad]), "github").splitlines()
    head, _, message = line.removeprefix("::").partition("::")
    assert head == "error file=a%3Ab%2Cc%25.yaml,line=1,col=1,title=policy/a"
    assert message == r"50%25: a,b\r\n::stop-commands::x"


@pytest.mark.parametrize(
    ("file", "workspace", "shown"),
    [
        ("topics/a.yaml", Workspace("/repo", "/repo"), "topics/a.yaml"),
        ("./topics/../a.yaml", Workspace("/repo", "/repo"), "a.yaml"),
        ("/repo/topics/a.yaml", Workspace("/repo", "/repo"), "topics/a.yaml"),
        ("topics/a.yaml", Workspace("/repo", "/repo/kafka"), "kafka/topics/a.yaml"),
        ("../a.yaml", Workspace("/repo", "/repo/kafka"), "a.yaml"),
        ("/elsewhere/a.yaml", Workspace("/repo", "/repo"), "/elsewhere/a.yaml"),
        ("..a.yaml", Workspace("/repo", "/repo"), "..a.yaml"),
    ],
)
def test_paths_are_relative_to_workspace(file: str, workspace: Workspace, shown: str) -> None:
    found = wrap_findings([replace(ERROR, location=Location(file))])
    assert f"file={shown},line=1," in render_findings(found, "github", workspace)
    (result,) = sarif(found, workspace)["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == (f"file://{shown}" if shown.startswith("/") else shown)


UNKNOWN_TO_THE_MODELS = {"columnKind", "suppressions"}
"""Properties of SARIF 2.1.0 that the models leave out."""


def strangers(model: BaseModel, at: str = "") -> list[str]:
    """Everything in a log that is no property of SARIF 2.1.0."""
    found = [f"{at}.{name}" for name in set(model.model_extra or {}) - UNKNOWN_TO_THE_MODELS]
    for name in type(model).model_fields:
        value = getattr(model, name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, BaseModel):
                found += strangers(item, f"{at}.{name}")
    return found


SETS = {
    "all sorts": ALL,
    "nothing": [],
    "bad input": from_problems([Problem("bad", PLACE, "mend it"), Problem("no place")]),
    "a code that nobody knows": wrap_findings([replace(ERROR, code="ACME-1")]),
}


@pytest.mark.parametrize("found", SETS.values(), ids=SETS)
def test_findings_are_valid_sarif(found: list[ReportedFinding]) -> None:
    log = Sarif.model_validate_json(render_findings(found, "sarif"))
    assert strangers(log) == []
    assert log.version == "2.1.0"
    (run,) = log.runs
    assert len(run.results or ()) == len(found)


def test_sarif_results_refer_to_rules_and_locations() -> None:
    run = sarif(ALL)
    described = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        rule = described[result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        entry = rules.list_entries()[rule["id"]]
        assert rule["shortDescription"]["text"] == entry.summary
        assert rule["fullDescription"]["text"] == rule["help"]["text"] == entry.explanation
    error, warning, waived, whole = run["results"]
    assert (error["level"], warning["level"], waived["level"]) == ("error", "warning", "note")
    assert error["message"]["text"] == "too few (set it to 2)"
    assert error["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "topics/a.yaml"},
        "region": {"startLine": 7, "startColumn": 5},
    }
    assert "locations" not in whole
    waiver = {"kind": "inSource", "status": "accepted", "justification": "TICKET-1: replayed"}
    assert (error["suppressions"], waived["suppressions"]) == ([], [waiver])
    assert run["invocations"] == [{"executionSuccessful": True}]


def test_uris_are_percent_encoded() -> None:
    (result,) = sarif(wrap_findings([replace(ERROR, location=Location("topics/ä b:%.yaml"))]))["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "topics/%C3%A4%20b%3A%25.yaml"


def test_fingerprints_ignore_lines_and_distinguish_findings() -> None:
    def prints(*diagnostics: Diagnostic) -> list[str]:
        results = sarif([ReportedFinding(diagnostic) for diagnostic in diagnostics])["results"]
        return [result["partialFingerprints"]["kafkaform/v1"] for result in results]

    moved = replace(ERROR, location=PLACE._replace(line=70, column=1))
    assert prints(moved) == prints(ERROR)
    remaining = [
        moved,
        replace(ERROR, code="KF108"),
        replace(ERROR, message="far too few"),
        replace(ERROR, location=Location("topics/b.yaml", 7, 5)),
    ]
    assert len(set(prints(ERROR, *remaining))) == 5


@pytest.mark.parametrize("output_format", RENDERERS["findings"])
def test_terminal_escapes_in_findings_are_removed(output_format: str) -> None:
    bad = Diagnostic("KF109", Severity.ERROR, "x\x1b[31m\u202e", PLACE, "y\x07")
    text = render_findings(wrap_findings([bad]), output_format)
    assert not {"\x1b", "\x07", "\u202e"} & set(text)


def test_plan_annotations_begin_with_files_of_branch(tmp_path: Path) -> None:
    """GitHub shows ten of each severity: those must be the branch's own."""
    found = [
        Diagnostic("KF108", Severity.WARNING, f"warning in {file}", Location(file, 1, 1))
        for file in ("topics/a.yaml", "topics/b.yaml")
    ]
    error = Diagnostic("KF109", Severity.ERROR, "error in a", Location("topics/a.yaml", 2, 1))
    plan = Plan("c", diagnostics=(*found, error))
    where = Workspace(str(tmp_path), str(tmp_path))
    changed = ChangedFiles(frozenset({(tmp_path / "topics/b.yaml").resolve()}), tmp_path)

    def titles(changed: ChangedFiles | None) -> list[str]:
        lines = plan_to_github(plan, workspace=where, changed=changed).splitlines()
        return [line.rpartition("::")[2] for line in lines if line.startswith("::")]

    assert titles(None) == ["error in a", "warning in topics/a.yaml", "warning in topics/b.yaml"]
    assert titles(changed) == ["error in a", "warning in topics/b.yaml", "warning in topics/a.yaml"]
