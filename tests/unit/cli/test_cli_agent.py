"""`kafkaform agent`: it applies what carries a signed plan, and nothing else."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.cli.agent import Team, build_team
from tests.support.cli.memory_program import Connected
from tests.support.cli.signing import write_keys
from tests.support.github.git_work import run_git

pytestmark = pytest.mark.usefixtures("connected")


@pytest.fixture
def team(servers: str, prefix: str, tmp_path: Path) -> Team:
    return build_team(servers, prefix, tmp_path)


def test_reviewed_plan_is_applied_once(team: Team, tmp_path: Path) -> None:
    clone = tmp_path / "kept"
    team.release(a=3)
    team.run("--directory", clone).needs(0)
    assert team.work.live()["a"]["partitions"] == 3
    entry = team.agent.run("history", f"Topic/{team.work.prefix}a", "--format", "json").json["changes"][0]
    assert (entry["ci"], entry["url"]) == ("agent", f"{team.origin}#main")
    assert entry["commit"] == run_git(team.work.folder, "rev-parse", "HEAD")
    # What somebody changes by hand is drift, which is not the agent's to undo.
    team.work.set_config("a", "retention.ms", "1234567")
    assert "is applied already" in team.run("--directory", clone).needs(0).err
    assert team.work.live()["a"]["retention.ms"] == "1234567"
    # The next commit, squashed or not, goes on from there.
    team.work.topic("a", partitions=6, keyed=False, config={"retention.ms": 1234567})
    team.release(b=1)
    team.run("--directory", clone).needs(0)
    assert {name: topic["partitions"] for name, topic in team.work.live().items()} == {"a": 6, "b": 1}
    assert "not a clone of the agent" in team.run("--directory", team.work.folder).needs(1).err


def test_untrusted_plans_are_not_applied(team: Team, tmp_path: Path) -> None:
    team.work.topic("a")
    team.publish("no plan")
    team.check_refusal("plans/prod.json: No such file or directory")
    team.plan("unsigned")
    team.push()
    team.check_refusal("the plan is not signed")
    stranger, public = write_keys(tmp_path, "stranger")
    # The branch does not choose whom the agent trusts.
    team.work.write("verify.pem", public.read_text())
    config = yaml.safe_load((team.work.folder / "kafkaform.yaml").read_text())
    config["clusters"]["prod"]["verifyKey"] = "verify.pem"
    team.work.write("kafkaform.yaml", yaml.safe_dump(config))
    team.plan(key=stranger)
    team.push()
    team.check_refusal("which is not trusted here")
    team.plan()
    file = team.work.folder / "plans" / "prod.json"
    document = json.loads(file.read_text())
    document["created_at"] = "2030-01-01T00:00:00Z"
    file.write_text(json.dumps(document))
    team.publish("forged")
    team.check_refusal("the signature does not match")


def test_unplanned_manifests_are_not_applied(team: Team) -> None:
    team.release(a=3)
    team.work.topic("a", partitions=4, keyed=False)
    team.work.topic("b")
    team.publish("not planned")
    team.check_refusal("the plan is not the one that was reviewed")
    # Nor once the plan itself is applied.
    run_git(team.work.folder, "reset", "-q", "--hard", "HEAD~1")
    team.push("--force")
    team.run().needs(0)
    team.work.topic("b")
    team.publish("not planned")
    team.check_refusal("the plan is not the one that was reviewed")


def test_replayed_earlier_plan_is_not_applied(team: Team, connected: Connected) -> None:
    team.release(a=3)
    team.run().needs(0)
    connected.delete_topic(f"{team.work.prefix}a")
    assert "is applied already" in team.run().needs(0).err
    manifest = team.work.folder / "topics" / "a.yaml"
    manifest.write_text(f"# edited\n{manifest.read_text()}")  # the same plan once more
    team.publish("somebody may push, but not sign")
    team.check_refusal("and these changed since")


def test_rewritten_branch_is_not_applied(team: Team) -> None:
    team.release(a=3)
    team.release(b=1)
    team.run().needs(0)
    run_git(team.work.folder, "reset", "-q", "--hard", "HEAD~2")
    team.work.topic("c")
    team.plan()
    team.push("--force")
    team.check_refusal("the branch was rewritten; nothing was applied")
    run_git(team.work.folder, "push", "-q", "origin", "HEAD:next")
    team.run("--branch", "next").needs(0)
    assert "c" in team.work.live()


def test_agent_needs_key_and_repository_without_credentials(team: Team) -> None:
    for account in ("user:s3cret", "t0ken"):
        repository = f"https://{account}@git.example/x.git"
        call = team.agent.run("agent", "--once", "--repository", repository).needs(64)
        assert "contains credentials" in call.err
        assert account.rpartition(":")[2] not in call.both
    assert "not a valid name" in team.run("--branch", "a:b").needs(64).err
    config = ("--config", team.work.folder / "kafkaform.yaml")
    assert "no key to verify" in team.run(*config).needs(64).err


@pytest.mark.parametrize(("partitions", "retention"), [(3, "1h"), (2, "7d")])
def test_held_back_change_fails_agent_until_resolved(
    connected: Connected, team: Team, partitions: int, retention: str
) -> None:
    team.work.topic("old", partitions=3, keyed=False, retention="7d")
    team.work.apply().needs(0)
    team.work.topic("old", partitions=partitions, keyed=False, retention=retention)
    team.release(new=1, code=1)
    assert "1 created" in team.run().needs(1).words
    for _ in range(2):
        call = team.run().needs(1)
        assert "its plan is applied already, except for what is held back" in call.words
        assert "Topic/x.old" in call.out
        assert "1 created" not in call.words
    connected.delete_topic("x.old")
    team.run().needs(1)  # now it would be created, which nobody reviewed
    team.work.apply("--target", "Topic/x.old").needs(0)
    assert "held back" not in team.run().needs(0).words


def test_plan_for_another_environment_is_refused(team: Team) -> None:
    team.release(new=1)
    prod = {"environment": "test", "client": {"bootstrap.servers": "127.0.0.1:1"}, "verifyKey": "verify.pem"}
    team.agent.config(clusters={"prod": prod}, environments=["prod", "test"])
    assert "environment prod, but cluster prod has environment test" in team.run().needs(1).said
