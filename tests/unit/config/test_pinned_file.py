"""Profiles of another repository at a commit: what is fetched, kept and refused."""

import json
import shutil
from pathlib import Path

import pytest

from kafkaform.config import pinned_file
from kafkaform.config.settings import Settings, read_settings
from kafkaform.core.errors import InvalidInput
from tests.support.github.git_work import Work

HEAD = "apiVersion: kafkaform/v1\nkind: Config\n"
PROFILES = HEAD + "profiles: {events: {Topic: {partitions: 2}}}\n"
COMMIT = "0123456789" * 4
ADDRESS = "https://git.example.com/platform.git"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a folder without a repository, and an empty cache."""
    monkeypatch.setenv("KAFKAFORM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture
def platform(tmp_path: Path) -> Work:
    """Return the repository of the profiles."""
    (tmp_path / "platform").mkdir()
    return Work(tmp_path / "platform")


def write_config(
    repository: object, commit: str, path: str = "kafka/profiles.yaml", folder: str = ""
) -> Path:
    file = Path(folder, "kafkaform.yaml")
    source = {"repository": str(repository), "commit": commit, "path": path}
    file.write_text(f"{HEAD}profilesFrom: {json.dumps(source)}\n")
    return file


def list_problems(repository: object, commit: str, path: str = "kafka/profiles.yaml") -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        read_settings(write_config(repository, commit, path))
    return [str(problem) for problem in caught.value.problems]


def test_pinned_profiles_are_read_at_the_commit(platform: Work) -> None:
    pinned = platform.commit(**{"kafka/profiles.yaml": PROFILES})
    newer = platform.commit(**{"kafka/profiles.yaml": PROFILES.replace("events", "other")})
    assert [*read_settings(write_config(platform.folder, pinned)).profiles] == ["events"]
    assert [*read_settings(write_config(platform.folder, newer)).profiles] == ["other"]
    # Nothing is fetched again, in this process or in another one.
    shutil.rmtree(platform.folder)
    pinned_file._read.cache_clear()
    assert [*read_settings(write_config(platform.folder, pinned)).profiles] == ["events"]
    (problem,) = list_problems(platform.folder, COMMIT)
    assert problem.startswith(f"kafkaform.yaml:3:15: cannot fetch 012345678901 of {platform.folder}: ")


def test_pinned_profiles_are_read_without_a_cache(platform: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKAFORM_CACHE", "/dev/null")
    commit = platform.commit(**{"kafka/profiles.yaml": PROFILES})
    assert "events" in read_settings(write_config(platform.folder, commit)).profiles


def test_problem_in_pinned_profiles_is_located(platform: Work) -> None:
    commit = platform.commit(**{"p.yaml": f"{PROFILES}owns: [x]\n", "k.yaml": PROFILES.replace("par", "pra")})
    assert list_problems(platform.folder, commit, "p.yaml")[0].startswith(f"p.yaml@{commit[:12]}:4:1: ")
    assert "did you mean 'partitions'?" in list_problems(platform.folder, commit, "k.yaml")[0]
    for path in ("missing.yaml", "../p.yaml", "a blob b"):
        assert (
            f"there is no file '{path}' in {commit[:12]}" in list_problems(platform.folder, commit, path)[0]
        )


@pytest.mark.parametrize(
    ("repository", "commit", "part"),
    [
        ("https://bot:token@example.com/p.git", COMMIT, "credentials"),
        ("https://token@example.com/p.git", COMMIT, "credentials"),
        ("HTTPS://token@example.com/p.git", COMMIT, "credentials"),
        ("ssh://git:secret@example.com/p.git", COMMIT, "credentials"),
        ("ext::sh -c touch% x", COMMIT, "not the address of a repository"),
        ("--upload-pack=touch x", COMMIT, "not the address of a repository"),
        ("ssh://-oProxyCommand=x/p", COMMIT, "not the address of a repository"),
        ("http://example.com/p.git", COMMIT, "not the address of a repository"),
        ("../platform", COMMIT, "not the address of a repository"),
        (ADDRESS, "main", "not the full id of a commit"),
        (ADDRESS, COMMIT[:12], "not the full id of a commit"),
        (ADDRESS, COMMIT.upper().replace("0", "A"), "not the full id of a commit"),
    ],
)
def test_bad_pin_is_refused(repository: str, commit: str, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned_file, "run_git", lambda *_, **__: pytest.fail("Git was called"))
    (problem,) = list_problems(repository, commit)
    assert problem.startswith("kafkaform.yaml:3:")
    assert part in problem
    assert "secret" not in problem
    assert "token" not in problem


def test_untrusted_branch_changes_the_commit_alone(platform: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    first = platform.commit(**{"kafka/profiles.yaml": PROFILES, "secret.yaml": "password: x\n"})
    second = platform.commit(**{"kafka/profiles.yaml": PROFILES.replace("events", "other")})
    trusted = read_settings(write_config(platform.folder, first))
    branch = Path("branch")
    branch.mkdir()
    write_config(platform.folder, second, folder="branch")
    settings = trusted.read_branch_settings(branch)
    assert [*settings.profiles] == ["other"]
    assert settings.branch is not None
    assert settings.branch.sections == {"profilesFrom"}
    monkeypatch.setattr(pinned_file, "run_git", lambda *_, **__: pytest.fail("Git was called"))
    for repository, path in ((ADDRESS, "kafka/profiles.yaml"), (platform.folder, "secret.yaml")):
        write_config(repository, first, path, folder="branch")
        for base in (trusted, Settings(file="kafkaform.yaml")):
            with pytest.raises(InvalidInput) as caught:
                base.read_branch_settings(branch)
            (problem,) = caught.value.problems
            assert str(problem).startswith("kafkaform.yaml:3:15: the branch changes more than the commit")
