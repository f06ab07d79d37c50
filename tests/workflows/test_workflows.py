"""The workflow files: valid, pinned, with least rights, and with nothing of a stranger in a script."""

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kafkaform import __version__
from kafkaform.config.settings import read_settings
from tests.support.cli.command_lines import calls, parse
from tests.support.cli.project import BIN, ROOT
from tests.support.github.git_work import Work
from tests.support.required import REQUIRE, program
from tests.support.workflows.jobs import EXPRESSION, WORKFLOWS, load

ACTION = ROOT / ".github" / "actions" / "kafkaform"
CI = ROOT / "docs" / "ci"
GITOPS = ("plan.yml", "apply.yml", "drift.yml", "skew.yml")
OWN = "ci.yml"
RELEASE = "release.yml"
"""What checks and publishes kafkaform itself, and is for no repository of manifests."""
EXAMPLES = ("github-workflow.yml", "github-action.yml")
RIGHTS: dict[tuple[str, str], dict[str, str]] = {
    ("plan.yml", "validate"): {"contents": "read"},
    ("plan.yml", "plan"): {"contents": "read"},
    ("plan.yml", "comment"): {"contents": "read", "pull-requests": "write"},
    ("apply.yml", "apply"): {"contents": "read", "actions": "read", "pull-requests": "read"},
    ("apply.yml", "issue"): {"contents": "read", "issues": "write"},
    ("drift.yml", "drift"): {"contents": "read"},
    ("drift.yml", "issue"): {"contents": "read", "issues": "write"},
    ("skew.yml", "skew"): {"contents": "read"},
    ("skew.yml", "issue"): {"contents": "read", "issues": "write"},
    (RELEASE, "tests"): {"contents": "read"},
    (RELEASE, "packages"): {"contents": "read", "id-token": "write", "attestations": "write"},
    (RELEASE, "image"): {
        "contents": "read",
        "packages": "write",
        "id-token": "write",
        "attestations": "write",
    },
    (RELEASE, "pypi"): {"id-token": "write"},
    (RELEASE, "release"): {"contents": "write"},
}
_PINNED = re.compile(r"uses: (?P<action>[\w./-]+)@(?P<commit>[0-9a-f]{40})( # v\d+\.\d+\.\d+)?")


@cache
def workflow(file: str) -> dict[str, Any]:
    return load(WORKFLOWS / file)


def jobs(*files: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {(file, name): job for file in files for name, job in workflow(file)["jobs"].items()}


def steps(*files: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the steps of workflows and of our own action, and where they are."""
    for place, job in jobs(*files).items():
        yield from ((":".join(place), step) for step in job.get("steps", ()))
    yield from (("action.yml", step) for step in load(ACTION / "action.yml")["runs"]["steps"])


def find_step(key: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the step with an id, of a job or of our own action."""
    [found] = [step for step in document["steps"] if step.get("id") == key]
    return dict(found)


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", [*WORKFLOWS.glob("*.yml"), *(CI / name for name in EXAMPLES)]),
        ("github-actions", [ACTION / "action.yml"]),
        ("gitlab-ci", [CI / "gitlab-ci.yml"]),
    ],
)
def test_workflow_files_match_schema(schema: str, files: list[Path]) -> None:
    check = [str(BIN / "check-jsonschema"), "--builtin-schema", f"vendor.{schema}", *map(str, files)]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflow_permissions_are_minimal() -> None:
    files = (*GITOPS, RELEASE)
    assert [workflow(file)["permissions"] for file in files] == [{}] * len(files)
    assert {place: job["permissions"] for place, job in jobs(*files).items()} == RIGHTS


def test_actions_are_pinned() -> None:
    for file in [*WORKFLOWS.glob("*.yml"), ACTION / "action.yml", *(CI / e for e in EXAMPLES)]:
        for line in file.read_text("utf-8").splitlines():
            if "uses: " in line and not line.lstrip().startswith("#"):
                found = _PINNED.search(line)
                here = ("uses: $/.github/actions/kafkaform", "uses: ./.github/workflows/ci.yml")
                assert found or line.strip().removeprefix("- ") in here, f"{file.name}: {line}"
                assert found is None or found[3] or found["action"].startswith("OWNER/"), line


def test_scripts_have_no_expressions() -> None:
    for where, step in steps(*GITOPS, OWN, RELEASE):
        assert not EXPRESSION.search(step.get("run", "")), where


def test_user_text_is_not_used_in_expressions() -> None:
    """Of what people write, only these are taken: a number, a commit, the name of a repository."""
    taken = re.findall(r"github\.(?:event\.[\w.]+|head_ref|ref_name|actor)", str([*map(workflow, GITOPS)]))
    assert {*taken} == {
        "github.event.pull_request.number",
        "github.event.pull_request.head.sha",
        "github.event.pull_request.head.repo.full_name",
    }


def test_checkouts_do_not_persist_token() -> None:
    every = steps(*GITOPS, OWN, RELEASE)
    clones = [step for _, step in every if step.get("uses", "").startswith("actions/checkout@")]
    assert len(clones) == 15
    assert all(step["with"]["persist-credentials"] is False for step in clones)


def test_every_job_has_timeout_and_pinned_runner() -> None:
    for place, job in jobs(*GITOPS).items():
        assert 0 < job["timeout-minutes"] <= 60, place
        assert job["runs-on"] == "ubuntu-24.04", place
        assert workflow(place[0])["defaults"]["run"]["shell"] == "bash"


def test_jobs_with_credentials_do_not_write_to_github() -> None:
    for file in GITOPS:
        assert "secrets." not in str({**workflow(file), "jobs": {}})
    for place, job in jobs(*GITOPS).items():
        has_secrets = "secrets." in str(job)
        assert has_secrets == ("environment" in job), place
        if has_secrets:
            assert "write" not in job["permissions"].values(), place
            assert "secrets." not in str({**job, "steps": []}), place
            [having] = [step for step in job["steps"] if "secrets." in str(step)]
            assert "secrets." not in str({**having, "env": {}}), place


def test_jobs_with_secrets_get_every_configured_secret() -> None:
    names = set(re.findall(r"\$\{env:(\w+)\}", (ROOT / "kafkaform.yaml").read_text("utf-8")))
    assert names
    for where, step in steps(*GITOPS):
        if "secrets." in str(step):
            assert names <= step["env"].keys(), where


def test_pull_request_checkout_is_data_only() -> None:
    assert [*workflow("plan.yml")["on"]] == ["pull_request_target", "workflow_call"]
    for name in ("validate", "plan"):
        clones = {
            step["with"]["path"]: step["with"].get("ref")
            for step in jobs("plan.yml")["plan.yml", name]["steps"]
            if step.get("uses", "").startswith("actions/checkout@")
        }
        assert clones == {"base": None, "pr": "refs/pull/${{ github.event.pull_request.number }}/merge"}
        assert jobs("plan.yml")["plan.yml", name]["env"]["GIT_CONFIG_KEY_0"] == "core.symlinks"
        for step in jobs("plan.yml")["plan.yml", name]["steps"]:
            assert "working-directory" not in step
            remaining = (
                step.get("run", "").replace("--manifests-from pr ", "").replace("git -C pr rev-parse ", "")
            )
            assert not re.search(r"\bpr\b", remaining), remaining
    assert "checkout" not in str(jobs("plan.yml")["plan.yml", "comment"])


def test_apply_runs_on_pushed_manifests_only() -> None:
    settings = read_settings(ROOT / "kafkaform.yaml")
    folders = [f"{path.relative_to(ROOT)}/**" for path in settings.manifests]
    pushed = workflow("apply.yml")["on"]["push"]
    assert pushed == {"branches": ["main"], "paths": [*folders, "kafkaform.yaml"]}
    assert workflow("apply.yml")["concurrency"]["cancel-in-progress"] is False


def test_documented_call_has_inputs_and_rights_of_the_workflow() -> None:
    plan, called = workflow("plan.yml"), load(CI / "github-workflow.yml")["jobs"]["prod"]
    assert called["with"].keys() <= plan["on"]["workflow_call"]["inputs"].keys()
    needed = [job["permissions"] for job in plan["jobs"].values()]
    assert called["permissions"] == {name: right for rights in needed for name, right in rights.items()}


def test_every_kafkaform_call_is_valid() -> None:
    scripts = [(where, step["run"]) for where, step in steps(*GITOPS) if "run" in step]
    files = [*CI.iterdir(), ROOT / "Containerfile", ROOT / ".pre-commit-hooks.yaml"]
    scripts += [(file.name, file.read_text("utf-8")) for file in files]
    found = [(where, line) for where, text in scripts for line in calls(text)]
    assert len(found) > 20
    for where, line in found:
        parse(line, where)


def test_actionlint_accepts_the_workflows() -> None:
    """It knows no `$/` yet, by which an action is of the same commit as its workflow."""
    examples = [CI / name for name in EXAMPLES]
    files = [*map(str, WORKFLOWS.glob("*.yml")), *map(str, examples)]
    check = [program("actionlint"), "-ignore", r'specifying action "\$/', *files]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_scripts_pass_shellcheck() -> None:
    check = [program("shellcheck"), "--shell=bash", "-"]
    files = [ROOT / ".ci" / "run", *(ROOT / "scripts").glob("*.sh")]
    runs = [step["run"] for _, step in steps(*GITOPS, OWN, RELEASE) if "run" in step]
    for script in (*runs, *(file.read_text("utf-8") for file in files)):
        subprocess.run(check, input=script, text=True, check=True)


def test_heavy_tests_are_run_at_night_and_before_a_release() -> None:
    every_change = "github.event_name == 'push' || github.event_name == 'pull_request'"
    heavy = "github.event_name != 'pull_request' && (github.event_name != 'push' || github.ref_type == 'tag')"
    expected = dict.fromkeys(("check", "docs", "image"), every_change)
    expected |= dict.fromkeys(("nightly", "brokers", "spark"), heavy)
    assert {name: job["if"] for name, job in workflow(OWN)["jobs"].items()} == expected
    assert {"push", "pull_request", "schedule", "workflow_dispatch"} <= workflow(OWN)["on"].keys()
    # Else a push would end what the night has begun.
    assert "${{ github.event_name }}" in workflow(OWN)["concurrency"]["group"]


def test_ci_runs_every_make_target_and_version() -> None:
    assert workflow(RELEASE)["jobs"]["tests"]["uses"] == f"./.github/workflows/{OWN}"
    runs = [word for _, step in steps(OWN) for word in step.get("run", "").split()]
    targets = ("lint typecheck", "test", "test-kafka", "test-spark", "test-nightly", "docs")
    assert [target for target in targets if f" make {target} " not in f" {' '.join(runs)} "] == []
    make, project, lock = (
        (ROOT / name).read_text("utf-8") for name in ("Makefile", "pyproject.toml", "requirements.lock")
    )
    own = workflow(OWN)["jobs"]
    matrix = {name: job["strategy"]["matrix"] for name, job in own.items() if "strategy" in job}
    [versions] = re.findall(r"^VERSIONS \?= (.*)$", make, re.MULTILINE)
    assert matrix["brokers"]["kafka"] == versions.split()
    [oldest] = re.findall(r"^SPARK \?= (.*)$", make, re.MULTILINE)
    [locked] = re.findall(r"^pyspark==(\S+)", lock, re.MULTILINE)
    assert matrix["spark"]["spark"][0] == oldest
    assert f"pyspark>={oldest.removesuffix('.0')}," in project
    minors = [version.rpartition(".")[0] for version in (*matrix["spark"]["spark"], locked)]
    assert minors == ["4.0", "4.1", "4.2", "4.3"]
    assert matrix["check"]["python"] == re.findall(r"Python :: (3\.\d+)", project)
    assert workflow(OWN)["permissions"] == {"contents": "read"}
    assert not [name for name, job in own.items() if "permissions" in job]


def test_ci_requires_every_program() -> None:
    sources = "".join(file.read_text("utf-8") for file in (ROOT / "tests").rglob("*.py"))
    wanted = {*re.findall(r'\bprogram\("([a-z-]+)"', sources)}
    wanted -= {"sh", "shell", "no-such-tool"}  # of the test of `program`
    assert set(workflow(OWN)["env"][REQUIRE].split(",")) == wanted
    [here] = re.findall(rf"^export {REQUIRE}=(\S+)$", (ROOT / ".ci" / "run").read_text("utf-8"), re.MULTILINE)
    # Runners of GitHub have Helm, Node.js and Go, which other machines may lack.
    assert set(here.split(",")) == wanted - {"actionlint", "helm", "yaml-language-server"}


def test_irreversible_jobs_come_last() -> None:
    jobs = workflow(RELEASE)["jobs"]
    assert {name: job.get("needs") for name, job in jobs.items()} == {
        "tests": None,
        "packages": "tests",
        "image": "tests",
        "pypi": ["packages", "image"],
        "release": "pypi",
    }
    assert workflow(RELEASE)["concurrency"]["cancel-in-progress"] is False
    # PyPI trusts this environment, and no token is kept.
    assert jobs["pypi"]["environment"] == "pypi"
    assert "secrets." not in str(workflow(RELEASE))


def test_documentation_names_this_release() -> None:
    text = (ROOT / "docs" / "ci.md").read_text("utf-8")
    assert {*re.findall(r"(?:kafkaform[:-]|\bv)(\d+\.\d+\.\d+)", text)} == {__version__}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Create the files of a release, in a repository of its own."""
    for name in ("kafkaform", "spark_validation", "schemas", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    Work(tmp_path).commit()
    return tmp_path


def run_step(step: dict[str, Any], folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    paths = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(
        bash, cwd=folder, env={**os.environ, **paths, **environ}, capture_output=True, text=True, check=False
    )


def test_tagged_release_is_built_with_notes(checkout: Path) -> None:
    build = find_step("build", workflow(RELEASE)["jobs"]["packages"])
    done = run_step(build, checkout, TAG=f"v{__version__}")
    assert done.returncode == 0, done.stderr
    assert {file.name for file in (checkout / "dist").iterdir()} == {
        f"kafkaform-{__version__}-py3-none-any.whl",
        f"kafkaform-{__version__}.tar.gz",
    }
    notes = (checkout / "notes.md").read_text("utf-8")
    assert notes.startswith("### Added\n")
    assert notes.strip() in (checkout / "CHANGELOG.md").read_text("utf-8")
    assert "\n## " not in notes


def test_invalid_release_is_not_built(checkout: Path) -> None:
    build = find_step("build", workflow(RELEASE)["jobs"]["packages"])
    tag, heading = f"v{__version__}", f"## {__version__} - 2026-01-31\n\n"
    for given, text, reason in (
        ("v0.0.9", f"{heading}- A line\n", "the tag v0.0.9"),
        (tag, "## 9.9.9 - 2026-01-31\n\n- A line\n", "CHANGELOG.md has no section"),
        (tag, heading, "CHANGELOG.md has no section"),
    ):
        (checkout / "CHANGELOG.md").write_text(f"# Changelog\n\n## Unreleased\n\n{text}", "utf-8")
        done = run_step(build, checkout, TAG=given)
        assert done.returncode == 1
        assert reason in done.stderr
    assert not (checkout / "dist").exists()


def test_image_name_is_lower_case(tmp_path: Path) -> None:
    name = find_step("name", workflow(RELEASE)["jobs"]["image"])
    out = tmp_path / "out"
    given = {"REGISTRY": "images.example.com", "GITHUB_REPOSITORY": "Ada/KafkaForm"}
    run_step(name, tmp_path, TAG="v1.2.3", GITHUB_OUTPUT=str(out), **given)
    assert out.read_text("utf-8") == "image=images.example.com/ada/kafkaform\ntag=1.2.3\n"


def test_action_installs_locked_dependencies_only(tmp_path: Path) -> None:
    """Its last script, with a Python that records its arguments."""
    install = find_step("install", load(ACTION / "action.yml")["runs"])
    fake = tmp_path / "python"
    fake.write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/calls
[ "$2" = venv ] || exit 0
mkdir -p "$4/bin" && cp "$0" "$4/bin/python"
printf '#!/bin/sh\\necho kafkaform, version 1.2.3\\n' > "$4/bin/kafkaform" && chmod +x "$4/bin/kafkaform"
""",
        "utf-8",
    )
    fake.chmod(0o755)
    files = {name: tmp_path / name for name in ("GITHUB_OUTPUT", "GITHUB_PATH")}
    given = {"PYTHON": fake, "SOURCE": "/the/source", "LOCK": "/the/lock", "RUNNER_TEMP": tmp_path / "temp"}
    environ = {name: str(value) for name, value in {**given, **files}.items()}
    assert run_step(install, tmp_path, **environ).returncode == 0
    venv, first, second = (tmp_path / "calls").read_text("utf-8").splitlines()
    assert venv == f"-m venv --clear {tmp_path}/temp/kafkaform/venv"
    assert first.endswith("install --require-hashes --requirement /the/lock")
    assert second.endswith("install --no-index --no-deps --no-build-isolation /the/source")
    assert files["GITHUB_OUTPUT"].read_text("utf-8") == "version=1.2.3\n"
    folder = Path(files["GITHUB_PATH"].read_text("utf-8").strip())
    assert [file.name for file in folder.iterdir()] == ["kafkaform"]


@pytest.mark.parametrize(("spark", "lock"), [("false", ACTION), ("true", ROOT)])
def test_action_selects_lock_file(tmp_path: Path, spark: str, lock: Path) -> None:
    choose = find_step("lock", load(ACTION / "action.yml")["runs"])
    out = tmp_path / "out"
    run_step(choose, tmp_path, SPARK=spark, GITHUB_ACTION_PATH=str(ACTION), GITHUB_OUTPUT=str(out))
    source, file, digest = out.read_text("utf-8").splitlines()
    assert (source, file) == (f"source={ROOT}", f"file={lock / 'requirements.lock'}")
    assert len(digest) == len("digest=") + 64


def test_action_lock_file_is_complete() -> None:
    locks = [(folder / "requirements.lock").read_text("utf-8") for folder in (ROOT, ACTION)]
    whole, own = (dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE)) for lock in locks)
    assert own.items() <= whole.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["github"]]
    needed = closure([*wanted, *project["build-system"]["requires"]])
    assert needed <= own.keys(), f"missing: {needed - own.keys()}; make lock"
    assert not {"pyspark", "pytest"} & own.keys()
    entries = re.split(r"^(?=\S)", "".join(locks), flags=re.MULTILINE)
    assert all("--hash=sha256:" in entry for entry in entries if "==" in entry)


def closure(wanted: list[str]) -> set[str]:
    """The names of these distributions, and of all that they need on this machine."""
    found: set[str] = set()
    waiting = [Requirement(item) for item in wanted]
    while waiting:
        entry = waiting.pop()
        name = canonicalize_name(entry.name)
        if name in found or (entry.marker and not entry.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += [Requirement(text) for text in requires(name) or ()]
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_units_are_valid(tmp_path: Path) -> None:
    for name in ("kafkaform-drift.service", "kafkaform-drift.timer"):
        text = (CI / name).read_text("utf-8").replace("/opt/kafkaform/bin/kafkaform", str(BIN / "kafkaform"))
        (tmp_path / name).write_text(text, "utf-8")
    check = ["systemd-analyze", "verify", *map(str, tmp_path.iterdir())]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
