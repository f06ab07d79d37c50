"""Command lines that cannot be meant: refused with exit code 64, and the option that is wrong is named."""

from pathlib import Path

import pytest

from tests.support.cli.project import Project, run_in_process

DEAD = "127.0.0.1:1"
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
    project = Project(tmp_path, DEAD, "")
    project.topic("a")
    if line.startswith(_OF_CLUSTERS):
        clusters = {
            name: {"environment": name, "client": {"bootstrap.servers": DEAD}, "labels": {"r": "eu"}}
            for name in ("dev", "prod")
        }
        project.config(environments=["dev", "prod"], clusters=clusters)
    call = project.run(*line.removesuffix(" --given").split(), given="kind: Topic").needs(64)
    assert WRONG[line] in " ".join(call.err.split())
    assert call.out == ""
    assert (call.err.count("Error: "), "\x1b" in call.err) == (1, False)


@pytest.mark.parametrize("line", WITHOUT_ADDRESS)
def test_missing_configuration_is_named(tmp_path: Path, line: str) -> None:
    Project(tmp_path, "", "").topic("a")
    call = run_in_process(*line.split(), cwd=tmp_path).needs(64)
    assert WITHOUT_ADDRESS[line] in " ".join(call.err.split())
