"""Command lines and settings that cannot be meant, and the cluster and configuration of a call."""

import os
from pathlib import Path

import click
import pytest

from kafkaform.cli.options import ClusterSelector
from kafkaform.cli.session import Session
from tests.support.cli.project import Call, Project, run_in_process
from tests.support.github.git_work import run_git

NOWHERE = "127.0.0.1:1"
WRONG: dict[str, str] = {
    "apply --max-age 1d": "--max-age",
    "apply --require-commit": "--require-commit needs",
    "apply --verify-key x.pem": "--verify-key",
    "apply --throttle 0": "--throttle",
    "apply --throttle fast": "--throttle: 'fast'",
    "apply topics --again": "--again needs",
    "apply a.json --prune": "--prune",
    "apply a.json b.json": "cannot be combined with other paths",
    "apply p.json --clusters dev --prune --auto-approve": "--prune cannot be used",
    "apply --allow everything": "everything",
    "arrivals --history s3a://b/rows": "starts no Spark",
    "compare dev dev": "'dev'",
    "compare dev prd --environments": "no environment 'prd'",
    "compare dev": "needs a second cluster",
    "compare dev --clusters dev": "selects only dev",
    "compare dev prod --clusters *": "takes the place of B",
    "doctor --clusters * --format prometheus": "--format prometheus",
    "doctor --rule KF104": "KF104",
    "doctor --rule KF3O3": "did you mean KF313",
    "doctor --wait soon": "--wait: 'soon'",
    "drift --adopt --format json": "--adopt",
    "drift --adopt --out x": "--adopt",
    "drift --dry-run": "--dry-run needs --adopt",
    "drift --target Topic/none": "'Topic/none'",
    "drift --unmanaged error --target Topic/*": "--unmanaged error needs",
    "github comment plan.md": "did you mean `kafkaform ci`?",
    "get Topic/a a": "'a' and 'a'",
    "get brokers": "'brokers' is not a kind",
    "get topcs": "did you mean 'topics'?",
    "get topics --format yaml": "cannot be printed",
    "get topics -o json": "hint: --format json",
    "history --since 2026-11-20": "--since: '2026-11-20' has no time of day",
    "history --limit 0": "'--limit': 0",
    "history --since soon": "--since: 'soon'",
    "import --from julieops": "--from needs files",
    "import --label team": "--label team",
    "import --label team=": "--label team=",
    "--cluster dev plan": "write options after the command: `kafkaform plan --cluster`",
    "--nope": "No such option",
    "plan --allow x:delete": "'x:delete'",
    "plan --cluster prd": "did you mean 'prod'?",
    "plan --clusters prd": "did you mean 'prod'?",
    "plan --clusters * --bootstrap-server b:1": "--bootstrap-server chooses one",
    "plan --clusters * --format sarif": "--clusters has no --format sarif",
    "plan --clusters * --target Topic/nope": "'Topic/nope'",
    "plan --clusters region=uk": "matches no cluster of kafkaform.yaml hint: clusters and labels: dev",
    "plan --config .": "'--config'",
    "plan --debug": "write it before the command: `kafkaform --debug plan`",
    "plan --format yaml": "'yaml'",
    "plan --max-age 1d": "--max-age limits ",
    "plan --out plan.yaml": ".json",
    "plan --outt x.json": "Did you mean '--out'?",
    "plan --target orders.*": "`'Topic/orders.*'`",
    "plna": "did you mean `kafkaform plan`?",
    "plan --out p.json --sign-key c.pem --sign-for apply --manifests-from .": "--manifests-from",
    "plan --out plan.json --sign-for apply": "--sign-for needs a key",
    "plan --prune": "owns:",
    "plan --prune --changed-since main": "--changed-since",
    "plan --prune --target Topic/a": "--prune needs",
    "plan --sign-key ci.pem --sign-for apply": "--sign-key needs",
    "plan topics --skew r.json --max-age=-1d": "--max-age: '-1d'",
    "plan topics --target TOPIC/A": "'TOPIC/A'",
    "rebalance --add-broker one": "'--add-broker': 'one'",
    "reset g": "needs a target",
    "reset g --to 2026-11-20": "write 2026-11-20T00:00:00Z (UTC)",
    "reset g --from-file f.csv --topic a": "--from-file cannot be combined with --topic",
    "reset g --to 2026-11-01T00:00:00": "has no time zone",
    "reset g --to latest --out reset.yaml": "ends in .json",
    "reset g --to latest --shift-by 1": "--to and --shift-by",
    "reset g --to latest --topic a:x": "'a:x'",
    "reset g --to yesterday": "'yesterday'",
    "skew a --records all --precision 0.01": "--records all is exact",
    "skew a --master yarn --remote sc://x": "--master and --remote",
    "skew a* --from x.json": "--from needs the full name of a topic",
    "skew --from x.json --records 5": "--from reads whole files",
    "skew --from x.json --since 1h": "--from reads whole files",
    "skew --from x.json --records all": "--from reads whole files",
    "skew a --partitions 5": "--partitions needs --from",
    "skew a --records 0": "--records",
    "skew a --precision 1": "--precision",
    "skew a --what-if 12,many": "--what-if: 'many' is not a partition count",
    "skew a --what-if 12,,3": "--what-if: '' is not a partition count",
    "skew a --what-if 0": "--what-if: 0 is not between 1 and 100000",
    "skew a --what-if=-3": "--what-if: '-3' is not a partition count",
    f"skew a --what-if {9:0<5000}": "is not a partition count",
    "skew a --since 24": "--since: '24' has no unit",
    "skew a --since yesterday": "--since: 'yesterday' is not a time",
    "skew a --since 2026-11-01T00:00:00": "has no time zone",
    "skew a --since earliest": "--since: 'earliest' is not a time",
    "skew a --since 9000-01-01T00:00:00Z": "is in the future",
    "skew --from x.json --watch 10m": "--from reads whole files",
    "skew a --watch 10m --since 1h": "--watch reads new records",
    "skew --from x.json --all": "--from reads the topics of the files",
    "skew a --watch soon": "--watch: 'soon'",
    "skew a --watch 10ms": "--watch: '10ms' is not between 1s and 24h",
    "skew a --spark-conf spark.executor.memory": "--spark-conf 'spark.executor.memory'",
    "skew a --spark-conf password=hunter2": "--spark-conf 'password': not NAME=VALUE",
    "skew a --out x.md --out ./x.md": "cannot be written to the same file",
    "skew a --out report": "--out 'report' does not show its format",
    "skew a --out a.json --out a.pdf": "--out 'a.pdf' does not show its format",
    "skew a --out a.md --format json": "--format json is for stdout",
    "skew a --records 1e6": "--records: '1e6' is not a number",
    "skew a --format pdf": "--format",
    "skew a --history x --history-format csv": "--history-format",
    "skew a --history-format delta": "--history-format needs --history",
    "skew a --history s3a://b/c --history-format json": "of this machine",
    "skew a --history a-file": "--history 'a-file' is a file",
    "status --bootstrap-server 127.0.0.1:99999": "bootstrap.servers: has a port",
    "status --bootstrap-server http://127.0.0.1:9092": "must be HOST:PORT without http://",
    "status --clusters * --watch": "--watch",
    "status --overview": "with --clusters",
    "status --lagging --kind topic": "--lagging",
    "status --sort size --lagging": "--sort size",
    "status --watch 0": "--watch 0",
    "status --watch orders.*": "before --watch",
    **{
        f"{command} --clusters * --cluster dev": "--clusters"
        for command in ("drift", "doctor", "status", "import", "plan")
    },
    **{
        f"{command} --given": "stdin"
        for command in ("plan - --changed-since HEAD", "drift - --adopt", "revert x -")
    },
    "plan - --prune --given": "--prune needs",
    # Kinds are written as in manifests; the hint has the whole name.
    "plan --target topic/a": "did you mean `Topic/a`?",
    "apply --target a": "did you mean `Topic/a`?",
    "history topic/a": "did you mean `Topic/a`?",
    "history acl/User:a": "did you mean `Access/User:a`?",
    "who-can": "did you mean `kafkaform can anyone`?",
    "zzz": "`kafkaform --help` lists them",
    "can User:a read group/a": "did you mean 'ConsumerGroup'?",
}
"""What the message names, by the command line; `--given` stands for manifests on stdin."""
WITHOUT_ADDRESS = {
    "": "Usage: kafkaform",
    "dev": "Usage: kafkaform dev",
    "dev up --brokers x": "'x' is not a valid integer",
    "dev ups": "did you mean `kafkaform dev up`?",
    "help ci coment": "did you mean `kafkaform ci comment`?",
    "help gitlab": "did you mean `kafkaform ci`?",
    "plan --target": "'--target' requires an argument",
    "show": "Missing argument",
    "show a.json b.json": "b.json",
    "plan topics": "no cluster is configured",
    "plan topics --bootstrap-server=": "bootstrap.servers: must not be empty",
    "rules KF1099": "did you mean KF109?",
    "rules KF999": "`kafkaform rules` lists them",
    "plan --cluster prod": "there is no cluster 'prod': no kafkaform.yaml was found",
    "status --clusters *": "no kafkaform.yaml was found",
    "client-config topic/a": "no manifest declares a group",
    "validate --watch -": "stdin",
    "validate --watch --format json": "--watch prints text alone",
    "validate --statistics --format sarif": "--statistics has no format sarif",
}
_OF_CLUSTERS = ("compare", "plan --cluster", "doctor --clusters", "apply p.json", "apply --clusters")


@pytest.mark.parametrize("line", WRONG)
def test_contradicting_command_line_is_refused(tmp_path: Path, line: str) -> None:
    project = Project(tmp_path, NOWHERE, "")
    project.topic("a")
    project.write("a-file", "")
    if line.startswith(_OF_CLUSTERS):
        write_two_clusters(tmp_path)
    call = project.run(*line.removesuffix(" --given").split(), given="kind: Topic").needs(64)
    assert WRONG[line] in " ".join(call.err.split())
    assert call.out == ""
    assert (call.err.count("Error: "), "\x1b" in call.err, "hunter2" in call.err) == (1, False, False)


@pytest.mark.parametrize("line", WITHOUT_ADDRESS)
def test_missing_configuration_is_named(tmp_path: Path, line: str) -> None:
    Project(tmp_path, "", "").topic("a")
    call = run_in_process(*line.split(), cwd=tmp_path).needs(64)
    assert WITHOUT_ADDRESS[line] in " ".join(call.err.split())


def call(folder: Path, *arguments: object, **env: str) -> Call:
    return run_in_process(*arguments, cwd=folder, env=env)


def write_two_clusters(folder: Path, servers: str = NOWHERE) -> None:
    """Write a configuration with a cluster for each of two environments, and one topic."""
    project = Project(folder, servers, "")
    clusters = {
        name: {"environment": name, "client": {"bootstrap.servers": servers, "client.id": name}}
        for name in ("dev", "prod")
    }
    project.config(environments=["dev", "prod"], clusters=clusters)
    project.topic("t")


CONTRADICTIONS = {
    "--cluster prod -e dev": "prod has environment prod | but --environment is dev | --cluster dev",
    "--cluster prod KAFKAFORM_ENVIRONMENT=dev": "but KAFKAFORM_ENVIRONMENT is dev | unset KAFKAFORM_ENV",
    "KAFKAFORM_CLUSTER=prod KAFKAFORM_BOOTSTRAP_SERVER=b:1": "BOOTSTRAP_SERVER is b:1 | CLUSTER is prod",
    "--cluster prod KAFKAFORM_COMMAND_CONFIG=old": "(old) sets client.id to laptop | as --command-config",
    "--cluster prod --command-config a": "(a) sets bootstrap.servers to b:1 | use --bootstrap-server",
    "KAFKAFORM_CLUSTER=prd": "no cluster 'prd' | mean 'prod'?",
    "KAFKAFORM_CONFIG=nope.yaml": "nope.yaml: no such file",
    "--cluster prod KAFKAFORM_ENVIRONMENT=prd": "ENVIRONMENT: there is no environment 'prd' | mean 'prod'?",
}
"""The parts of the message by the options and variables."""


@pytest.mark.parametrize("given", CONTRADICTIONS)
def test_contradicting_options_are_refused(tmp_path: Path, given: str) -> None:
    write_two_clusters(tmp_path)
    (tmp_path / "old").write_text("client.id=laptop\n", "utf-8")
    (tmp_path / "a").write_text("bootstrap.servers=b:1\n", "utf-8")
    env = dict(word.split("=") for word in given.split() if "=" in word)
    arguments = [word for word in given.split() if "=" not in word]
    plan, *others = (
        call(tmp_path, *command.split(), *arguments, **env).needs(1 if "KAFKAFORM_CONFIG" in env else 64)
        for command in ("plan", "status", "drift", "apply --auto-approve")
    )
    assert plan.out == ""
    assert [part for part in CONTRADICTIONS[given].split(" | ") if part not in plan.err] == []
    assert others == [plan] * 3


@pytest.mark.parametrize(
    ("servers", "told"),
    [
        ("127.0.0.1:1", False),
        ("localhost:1,[::1]:1", False),
        ("kafka.invalid:1", True),
        ("127.0.0.1:1,kafka.invalid:1", True),
    ],
)
def test_bootstrap_variable_of_remote_host_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], servers: str, told: bool
) -> None:
    write_two_clusters(tmp_path)
    variables = frozenset({"bootstrap_server"})
    with click.Context(click.Command("plan")):
        Session.start(
            ClusterSelector(tmp_path / "kafkaform.yaml", bootstrap_server=servers, variables=variables)
        )
    note = f"note: KAFKAFORM_BOOTSTRAP_SERVER is set, so no cluster of {tmp_path}/kafkaform.yaml is used"
    assert capsys.readouterr().err.startswith(note) == told


def test_configuration_search_ends_at_repository_root(tmp_path: Path) -> None:
    write_two_clusters(tmp_path)
    below = tmp_path / "services" / "checkout"
    below.mkdir(parents=True)
    assert "configuration none" in call(below, "validate").err
    run_git(tmp_path, "init", "-q")
    found = call(below, "validate").needs(0)
    assert found.err == "configuration ../../kafkaform.yaml\n"
    (tmp_path / "topics/bad.yaml").write_text("kind: Topc\n", "utf-8")
    assert "../../topics/bad.yaml:1:" in call(below, "validate").needs(1).err
    run_git(below, "init", "-q")
    assert "configuration none" in call(below, "validate").err


def test_repository_of_other_user_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_two_clusters(tmp_path)
    (tmp_path / ".git").mkdir()
    below = tmp_path / "mine"
    below.mkdir()
    (below / "topics").mkdir()
    stat, git = Path.stat, tmp_path / ".git"

    def stat_as_other_user(path: Path, **options: bool) -> os.stat_result:
        found = stat(path, **options)
        return os.stat_result((*found[:4], found.st_uid + 1, *found[5:10])) if path == git else found

    assert call(below, "validate").err == "configuration ../kafkaform.yaml\n"
    monkeypatch.setattr(Path, "stat", stat_as_other_user)
    assert "configuration none" in call(below, "validate").err


@pytest.mark.parametrize("beside", [False, True])
def test_configuration_with_the_wrong_suffix_is_reported(tmp_path: Path, beside: bool) -> None:
    write_two_clusters(tmp_path)
    right, wrong = tmp_path / "kafkaform.yaml", tmp_path / "kafkaform.yml"
    wrong.write_bytes(right.read_bytes())
    if not beside:
        right.unlink()
    refused = call(tmp_path, "plan", "--cluster", "prod").needs(1)
    assert refused.err == (
        "Error: kafkaform.yml is not read: the configuration file must be named kafkaform.yaml\n"
        f"hint: {'remove it: kafkaform.yaml also exists' if beside else 'rename it to kafkaform.yaml'}\n"
    )


def test_configuration_of_untrusted_manifests_is_not_used(tmp_path: Path) -> None:
    branch, trusted = tmp_path / "pr", tmp_path / "pr" / "base"
    for folder in (branch, trusted):
        folder.mkdir()
        write_two_clusters(folder)
        run_git(folder, "init", "-q")
    below = branch / "topics"
    for folder, root in ((branch, "."), (below, "..")):
        for command in (["validate"], ["plan", "--cluster", "dev"]):
            refused = call(folder, *command, "--manifests-from", root).needs(1)
            assert f"the configuration of {root}, which --manifests-from does not read" in refused.err
    # A checkout of its own within the branch's folder is another repository.
    call(trusted, "validate", "--manifests-from", "..").needs(0)
    call(branch, "validate", "--manifests-from", ".", "--config", "base/kafkaform.yaml").needs(0)


@pytest.mark.usefixtures("connected")
def test_option_overrides_environment_variable(project: Project) -> None:
    write_two_clusters(project.folder, project.servers)
    project.topic("t")
    left_over = {"KAFKAFORM_BOOTSTRAP_SERVER": NOWHERE}
    done = project.run("plan", "--cluster", "prod", env=left_over).needs(0)
    assert "note: KAFKAFORM_BOOTSTRAP_SERVER is ignored, because --cluster prod" in done.err
    first, second = done.out.splitlines()[:2]
    assert first.startswith("kafkaform plan · cluster prod (")
    assert first.endswith(" · environment prod")
    assert second == f"  configuration kafkaform.yaml · brokers {project.servers}"
    arguments = ("plan", "topics", "-e", "dev", "--bootstrap-server", project.servers)
    done = project.run(*arguments, env={"KAFKAFORM_CLUSTER": "prod"}).needs(0)
    assert "note: KAFKAFORM_CLUSTER is ignored, because --bootstrap-server" in done.err
    assert done.out.startswith(f"kafkaform plan · cluster {project.servers} (")


@pytest.mark.usefixtures("connected")
def test_forbidden_hazard_applies_to_bootstrap_server(project: Project) -> None:
    project.topic("t", retention="7d")
    project.apply("topics").needs(0)
    project.topic("t", retention="1d")
    forbidding = {"client": {"bootstrap.servers": NOWHERE}, "forbid": ["retention-cut"]}
    project.config(clusters={"dev": {"client": {"bootstrap.servers": NOWHERE}}, "prod": forbidding})
    allow = ("--allow", "destructive", "--bootstrap-server", project.servers)
    done = project.run("plan", "topics", *allow)
    assert "retention-cut is forbidden" in done.out
    assert "`forbid:` in kafkaform.yaml" in done.words
    project.apply("topics", *allow).needs(1)
    assert project.live()["t"]["retention.ms"] == "604800000"
    project.config(clusters={"dev": {"client": {"bootstrap.servers": NOWHERE}}})
    assert "forbidden" not in project.run("plan", "topics", *allow).both
