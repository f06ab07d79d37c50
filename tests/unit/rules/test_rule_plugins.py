"""Rules of other distributions, with real ones on the path."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from kafkaform.rules import RULES
from kafkaform.rules.plugins import load
from tests.support.cli.project import Call, Project, environment, run_in_process

IMPORTS = "from kafkaform.rules import Finding, Severity, Stage, rule\n"
OWNED = '''
@rule("ACME-1", Severity.WARNING)
def owned(scene):
    """A topic has no owner.

    Somebody must answer when it fails.
    """
    for topic in scene.of_kind("Topic"):
        if "owner" not in topic.intent.labels:
            yield Finding(f"{topic.ref.name} has no owner", "name one", path="metadata.labels", subject=topic)
'''


@pytest.fixture
def project(project: Project) -> Project:
    project.topic("a")
    return project


@pytest.fixture
def plugged(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Call]]:
    """Run kafkaform beside a distribution `acme-rules 1.2` with this module."""
    site = project.folder / "site"
    info = site / "acme_rules-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1.2\n")
    monkeypatch.syspath_prepend(site)
    rules = dict(RULES)

    def unload() -> None:
        load.cache_clear()
        sys.modules.pop("acme_rules", None)
        RULES.clear()
        RULES.update(rules)

    def call(module: str, *arguments: str, point: str = "acme_rules") -> Call:
        unload()
        (info / "entry_points.txt").write_text(f"[kafkaform.rules]\nacme = {point}\n")
        (site / "acme_rules.py").write_text(module)
        return run_in_process(*arguments, cwd=project.folder)

    with monkeypatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)  # modules of one second and size are different ones
        yield call
    unload()


def test_plug_in_module_registers_rules(plugged: Callable[..., Call], project: Project) -> None:
    finding = "topics/a.yaml:4:9: warning: ACME-1 x.a has no owner (name one)"
    assert finding in plugged(IMPORTS + OWNED, "validate").needs(0).out
    installed = environment(PYTHONPATH=str(project.folder / "site"), PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(
        [sys.executable, "-m", "kafkaform", "validate"],
        cwd=project.folder,
        env=installed,
        capture_output=True,
        text=True,
        check=True,
    )
    assert finding in done.stdout


def test_plug_in_function_registers_rules(plugged: Callable[..., Call]) -> None:
    module = IMPORTS + "def register():\n" + "".join(f"    {line}\n" for line in OWNED.splitlines())
    assert "ACME-1" in plugged(module, "validate", point="acme_rules:register").needs(0).out


def test_plug_in_rules_are_explained_and_waived(plugged: Callable[..., Call], project: Project) -> None:
    module = IMPORTS + OWNED
    assert "ACME-1  warning  A topic has no owner." in plugged(module, "rules").needs(0).out
    explained = plugged(module, "rules", "acme-1").needs(0).out
    assert "Somebody must answer when it fails." in explained
    assert "from       acme-rules 1.2" in explained
    project.config(rules={"ACME-1": "error"})
    assert "error: ACME-1" in plugged(module, "validate").needs(1).out
    project.topic("a", metadata={"annotations": {"kafkaform/waive.ACME-1": "a toy"}})
    call = plugged(module, "validate").needs(0)
    assert "(waived: a toy)" in call.out
    assert call.out.endswith("1 resource: valid, 1 waived.\n")


def test_severity_of_unknown_plug_in_rule_is_refused(project: Project, plugged: Callable[..., Call]) -> None:
    project.config(rules={"ACME-2": "error"})
    call = plugged(IMPORTS + OWNED, "validate").needs(1)
    assert "kafkaform.yaml:8:3: " in call.err
    assert "'ACME-2' (did you mean ACME-1?)" in call.err


BAD = {
    "an import that fails": ("import nowhere\n", "cannot be loaded: ModuleNotFoundError: No module"),
    "a module that ends the process": ("raise SystemExit(0)\n", "cannot be loaded: SystemExit: 0"),
    "a module without rules": ("x = 1\n", "its entry point acme registers no rule"),
    "a code of ours": (OWNED.replace("ACME-1", "KF199"), "'KF199' is not a valid code for a plug-in"),
    "a code that is taken": (OWNED.replace("ACME-1", "KF109"), "ValueError: KF109 is already used"),
    "a code in small letters": (OWNED.replace("ACME-1", "acme-1"), "'acme-1' is not a valid code"),
    "no docstring": (
        '@rule("ACME-1", Severity.INFO)\ndef owned(scene):\n    return []\n',
        "its rule ACME-1 has no docstring",
    ),
    "a check that breaks down": (
        OWNED.replace("for topic in", "1 / 0\n    for topic in"),
        "its rule ACME-1 failed: ZeroDivisionError: division by zero",
    ),
    "findings that are none": (
        OWNED.replace("yield Finding(", "yield len\n            Finding("),
        "its rule ACME-1 yields builtin_function_or_method, not kafkaform.rules.Finding",
    ),
}


@pytest.mark.parametrize(("module", "said"), BAD.values(), ids=BAD)
def test_plug_in_that_fails_is_named(module: str, said: str, plugged: Callable[..., Call]) -> None:
    call = plugged(IMPORTS + module, "validate").needs(1)
    assert call.out == ""
    assert call.said.startswith("Error: plug-in acme-rules 1.2: ")
    assert said in call.err


def test_debug_shows_where_a_plug_in_failed(plugged: Callable[..., Call]) -> None:
    call = plugged(IMPORTS + BAD["a check that breaks down"][0], "--debug", "validate")
    assert call.code == 1
    assert "ZeroDivisionError" in call.err
    assert "acme_rules.py" in call.err


def test_help_does_not_load_plug_ins(plugged: Callable[..., Call]) -> None:
    assert plugged("raise RuntimeError('loaded')\n", "--help").needs(0).err == ""
    script = (
        "import sys, kafkaform.cli.main as m; m.run(['--help']); print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=dict(os.environ), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "False"
