import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkaform.core.errors import RepositoryError
from kafkaform.vcs.repository import Repository
from tests.support.github.git_work import Work
from tests.support.plans.strategies import examples

Temporary = pytest.TempPathFactory
TOPICS = [Path("topics")]
CONFIG = Path("kafkaform.yaml")


@pytest.fixture(scope="module", autouse=True)
def alone(tmp_path_factory: Temporary) -> Iterator[None]:
    """Git without the configuration of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path_factory.getbasetemp()))
        yield


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.chdir(tmp_path)
    return Work(tmp_path)


def export(work: Work, *paths: Path, commit: str = "HEAD") -> dict[str, bytes]:
    out = work.folder / ".out"
    work.repository.export(commit, paths or TOPICS, out)
    return read_files(out)


def read_files(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@pytest.mark.parametrize(
    "ref", ["", "nothing", "-x", "--all", "--output=owned", "HEAD^{tree}", "a\0b", "HEAD\n--all", "\x1b[2J"]
)
def test_unknown_commit_is_refused(work: Work, ref: str) -> None:
    work.commit()
    with pytest.raises(RepositoryError, match="is not a commit") as caught:
        work.repository.resolve(ref)
    assert caught.value.message.isprintable()
    assert "git fetch" in str(caught.value.hint)
    assert not (work.folder / "owned").exists()


def test_missing_or_bare_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match="not a git repository") as caught:
        Repository.find(tmp_path)
    assert str(tmp_path) in caught.value.message
    Work(tmp_path, "--bare")
    with pytest.raises(RepositoryError, match="work tree"):
        Repository.find(tmp_path)


def test_missing_git_is_an_error(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RepositoryError, match="git cannot be run") as caught:
        Repository.find(work.folder)
    assert caught.value.hint == "install Git"


def test_repository_of_another_owner_is_refused(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    work.commit()
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(RepositoryError, match="another user owns it") as caught:
        Repository.find(work.folder)
    assert "safe.directory" in str(caught.value.hint)


def test_git_has_a_timeout(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    work.write("bin/git", "#!/bin/sh\nexec sleep 60\n")
    (work.folder / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{work.folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("kafkaform.core.git._TIMEOUT_S", 0.1)
    with pytest.raises(RepositoryError, match=r"did not finish within 0\.1 s"):
        Repository.find(work.folder)


def test_git_variables_of_hook_are_ignored(
    work: Work, tmp_path_factory: Temporary, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = work.commit()
    second = Work(tmp_path_factory.mktemp("other"))
    second.commit(**{"x.yaml": "another repository"})
    monkeypatch.setenv("GIT_DIR", str(second.folder / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(second.folder))
    assert work.repository.read_head() == here


def test_merge_base_is_found(work: Work) -> None:
    first = work.commit()
    work.git("switch", "-q", "-c", "branch")
    work.commit(**{"topics/mine.yaml": "mine"})
    work.git("switch", "-q", "main")
    theirs = work.commit(**{"topics/theirs.yaml": "theirs"})
    work.git("switch", "-q", "branch")
    assert work.repository.find_merge_base("main") == first
    work.git("merge", "-q", "main")
    assert work.repository.find_merge_base("main") == theirs


def test_shallow_clone_has_no_merge_base(work: Work, tmp_path_factory: Temporary) -> None:
    for _ in range(2):
        work.commit()
    work.git("branch", "side", "HEAD~1")
    clone = tmp_path_factory.mktemp("clone")
    work.git("clone", "-q", "--depth=1", "--no-single-branch", f"file://{work.folder}", str(clone))
    with pytest.raises(RepositoryError, match="no commit in common") as caught:
        Repository.find(clone).find_merge_base("origin/side")
    assert "fetch-depth: 0" in str(caught.value.hint)


def test_export_writes_files_of_commit(work: Work) -> None:
    then = {
        "topics/a.yaml": b"a: 1\r\n",
        "topics/deep/b.yml": b"\xff\x00 not text \n",
        "topics/empty.yaml": b"",
        "topics/sp ace\t\xe4.yaml": b"odd name",
        "kafkaform.yaml": b"config",
    }
    others = ("topics/kafkaform.yaml", "topics/.hidden.yaml", "topics/readme.md", "x.yaml")
    for path, content in {**then, **dict.fromkeys(others, b"n")}.items():
        work.write(path, content)
    commit = work.commit()
    work.git("rm", "-rqf", "topics")
    work.commit(**{"topics/a.yaml": "a: 2", "topics/new.yaml": "new"})
    assert export(work, *TOPICS, CONFIG, commit=commit) == then
    assert read_files(work.folder / "topics") == {"a.yaml": b"a: 2", "new.yaml": b"new"}


@pytest.mark.parametrize(
    ("paths", "expected"), [([""], "ab"), (["t", ""], "ab"), (["t/b.yaml"], "b"), (["missing"], ""), ([], "")]
)
def test_export_selects_given_paths(work: Work, paths: list[str], expected: str) -> None:
    work.commit(**{"a.yaml": "a", "t/b.yaml": "b"})
    work.repository.export("HEAD", [*map(Path, paths)], work.folder / ".out")
    files = {"a": ("a.yaml", b"a"), "b": ("t/b.yaml", b"b")}
    assert read_files(work.folder / ".out") == dict(files[name] for name in expected)


def test_path_outside_repository_is_refused(work: Work) -> None:
    work.commit()
    with pytest.raises(RepositoryError, match=r"^\.\. is not in the Git repository "):
        work.repository.find_changes("HEAD", [Path("..")])


def test_path_is_not_treated_as_pattern(work: Work) -> None:
    work.commit(**{"topics/a.yaml": "a", ":(glob)**/a.yaml": "odd", "t*/c.yaml": "c"})
    assert export(work, Path(":(glob)**"), Path("t*")) == {":(glob)**/a.yaml": b"odd", "t*/c.yaml": b"c"}


def test_no_program_of_a_branch_is_run(work: Work) -> None:
    """Attributes come with a branch; the filters that they name may be configured here (as LFS is)."""
    marker, program = work.folder / "ran", work.folder / "evil"
    work.write("evil", f'#!/bin/sh\necho "$0 $*" >> {marker}\ncat\n')
    program.chmod(0o755)
    work.write(".gitattributes", "* filter=evil diff=evil merge=evil text eol=crlf ident export-subst\n")
    first = work.commit(**{"topics/a.yaml": "a: $Id$ $Format:%H$\n"})
    work.commit(**{"topics/a.yaml": "b\n"})
    for key in ("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv"):
        work.git("config", key, str(program))
    for key in ("diff.evil.command", "core.fsmonitor", "core.pager", "diff.external", "core.sshCommand"):
        work.git("config", key, str(program))
    for hook in (work.folder / ".git" / "hooks").glob("*.sample"):
        hook.with_suffix("").write_text(f"#!{program}\n")
        hook.with_suffix("").chmod(0o755)
    work.write("topics/a.yaml", "c\n")
    assert export(work, commit=first) == {"topics/a.yaml": b"a: $Id$ $Format:%H$\n"}
    assert work.repository.find_changes(first, TOPICS) == ["topics/a.yaml"]
    assert work.repository.describe(TOPICS).endswith("-dirty")
    work.repository.find_merge_base(first)
    assert not marker.exists()
    work.git("status")
    assert marker.exists(), "this test would see nothing"


def test_replaced_git_object_is_ignored(work: Work) -> None:
    work.commit(**{"topics/a.yaml": "real"})
    real = work.git("rev-parse", "HEAD:topics/a.yaml")
    work.write(".other", "forged")
    work.git("replace", real, work.git("hash-object", "-w", ".other"))
    assert export(work) == {"topics/a.yaml": b"real"}


def test_links_are_exported_as_files_of_own_commit(work: Work) -> None:
    work.commit(**{"shared/a.yaml": "then"})
    (work.folder / "topics").mkdir()
    for name in ("a.yaml", "README"):
        (work.folder / "topics" / name).symlink_to("../shared/a.yaml")
    commit = work.commit()
    work.commit(**{"shared/a.yaml": "now"})
    assert export(work, commit=commit) == {"topics/a.yaml": b"then"}
    assert not (work.folder / ".out/topics/a.yaml").is_symlink()
    assert work.repository.find_changes(commit, TOPICS) == ["topics/a.yaml"]
    assert not work.repository.is_dirty(TOPICS)


@pytest.mark.parametrize(
    "target", ["/etc/hostname", "../../outside.yaml", "missing.yaml", "../shared", "a.yaml"]
)
def test_link_leading_outside_is_refused(work: Work, target: str) -> None:
    work.write("shared/b.yaml", "b")
    (work.folder / "topics").mkdir()
    (work.folder / "topics" / "a.yaml").symlink_to(target)
    work.commit()
    with pytest.raises(RepositoryError, match=r"topics/a.yaml at commit [0-9a-f]{12} is a symbolic link"):
        export(work)
    assert not (work.folder / ".out").exists()
    with pytest.raises(RepositoryError):
        work.repository.find_changes("HEAD", TOPICS)


def test_submodule_is_refused(work: Work, tmp_path_factory: Temporary) -> None:
    second = Work(tmp_path_factory.mktemp("other"))
    second.commit(**{"a.yaml": "a"})
    work.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(second.folder), "topics/sub")
    work.commit()
    with pytest.raises(RepositoryError, match=r"topics/sub at commit .* is a submodule"):
        export(work)


@pytest.mark.parametrize("name", ["..", ".", "", "/", "../..", ".git"])
def test_forged_file_name_does_not_leave_folder(work: Work, name: str) -> None:
    """Git itself checks names when it checks out, not when it fetches."""
    commit = commit_forged(work, b"40000 topics", b"40000 " + name.encode(), b"100644 a.yaml")
    for path in (Path("topics"), Path()):
        with suppress(RepositoryError):
            work.repository.export(commit, [path], work.folder / ".out" / "in")
    assert {*read_files(work.folder / ".out")} <= {"in/topics/a.yaml"}
    assert not (work.folder / "a.yaml").exists()


def test_link_with_line_break_in_name_is_refused(work: Work) -> None:
    commit = commit_forged(work, b"40000 topics", b"120000 new\nline.yaml")
    with pytest.raises(RepositoryError, match="line break"):
        export(work, commit=commit)


def commit_forged(work: Work, *entries: bytes) -> str:
    """A commit of one file in folders of these modes and names."""
    inner = work.git("hash-object", "-w", "--stdin", given=b"forged")
    for entry in reversed(entries):
        tree = entry + b"\0" + bytes.fromhex(inner)
        inner = work.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", given=tree)
    return work.git("commit-tree", inner, "-m", "forged")


def test_unwritable_export_file_is_reported(work: Work) -> None:
    work.commit(**{"topics/a.yaml": "a"})
    work.write(".out/topics", "in the way")
    with pytest.raises(RepositoryError, match=r"topics/a\.yaml cannot be written: File exists"):
        export(work)


def test_missing_git_object_is_reported(work: Work) -> None:
    work.commit(**{"topics/a.yaml": "a"})
    blob = work.git("rev-parse", "HEAD:topics/a.yaml")
    (work.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(RepositoryError, match=f"lacks the object {blob}"):
        export(work)


def test_only_manifest_changes_since_commit_are_listed(work: Work) -> None:
    names = ("topics/same.yaml", "topics/edited.yaml", "topics/gone.yaml", "other/x.yaml")
    since = work.commit(**dict.fromkeys(names, "before"))
    (work.folder / "topics/gone.yaml").unlink()
    work.commit(**{"topics/edited.yaml": "edited", "topics/committed.yml": "c", "other/x.yaml": "y"})
    work.write(".gitignore", "ignored.yaml\n")
    work.write("topics/deep/untracked.yaml", "u")
    work.write("topics/ignored.yaml", "read all the same")
    for nothing in ("topics/readme.md", "topics/.a.yaml.swp", "topics/.git.yaml", "topics/kafkaform.yaml"):
        work.write(nothing, "of no account")
    changed = ("committed.yml", "deep/untracked.yaml", "edited.yaml", "gone.yaml", "ignored.yaml")
    assert work.repository.find_changes(since, TOPICS) == [f"topics/{name}" for name in changed]
    assert work.repository.find_changes(since, [CONFIG]) == []
    work.write("kafkaform.yaml", "c")
    assert work.repository.find_changes(since, [CONFIG]) == ["kafkaform.yaml"]


def test_other_content_makes_checkout_dirty(work: Work) -> None:
    """Not other line endings, and whatever the index says of it."""
    work.commit(**{"topics/a.yaml": "a: 1\nb: 2\n"})
    work.git("update-index", "--assume-unchanged", "topics/a.yaml")
    for content, dirty in (("a: 1\r\nb: 2\r\n", False), ("b", True)):
        work.write("topics/a.yaml", content)
        assert work.repository.is_dirty(TOPICS) is dirty


def test_folder_behind_link_counts_as_change(work: Work, tmp_path_factory: Temporary) -> None:
    work.commit(**{"topics/a.yaml": "a"})
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "b.yaml").write_text("b")
    (work.folder / "topics" / "more").symlink_to(elsewhere)
    assert work.repository.find_changes("HEAD", TOPICS) == ["topics/more"]


NAMES = st.from_regex(r"[a-z]{1,2}(/[a-z.]{1,2})?\.(yaml|yml|md)", fullmatch=True)


@given(st.dictionaries(NAMES, st.binary(max_size=20), max_size=6))
@settings(examples(0.4), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_exported_files_are_unchanged(tmp_path_factory: Temporary, files: dict[str, bytes]) -> None:
    """A law: in a fresh repository of exactly what was exported, nothing differs from the commit."""
    folder = tmp_path_factory.mktemp("law")
    work = Work(folder)
    for path, content in files.items():
        if not any(file.startswith(f"{path}/") for file in files):
            work.write(f"topics/{path}", content)
    commit = work.commit()
    repository, into = work.repository, tmp_path_factory.mktemp("into")
    assert repository.find_changes(commit, [folder / "topics"]) == []
    repository.export(commit, [folder / "topics"], into)
    assert read_files(into) == {
        path: content
        for path, content in read_files(folder).items()
        if path.startswith("topics/") and path.endswith(("yaml", "yml")) and "/." not in path
    }
