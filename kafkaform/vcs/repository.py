"""The Git repository that manifests are in: what is checked out, and how its files were at another commit.

Only Git's plumbing is called, which reads objects as they are: no hook, filter or conversion runs that a
branch's `.gitattributes` asks for, and nothing is checked out. Files of the work tree are read here and
compared by their object ids, because Git would pass them through such filters.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from kafkaform.config.manifests.files import CONFIG_FILE, SUFFIXES
from kafkaform.core.errors import RepositoryError
from kafkaform.core.printable import clipped
from kafkaform.core.wording import DIRTY

if TYPE_CHECKING:
    from collections.abc import (
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )


_TIMEOUT_S = 60  # a partial clone fetches what it has not


# A hook's environment names the repository of that hook; the folder that is asked about decides here.
_ELSEWHERE = frozenset(
    {
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_COMMON_DIR",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_NAMESPACE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_WORK_TREE",
    }
)


def git(folder: Path, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a command of Git in a folder, and return whatever it came to.

    It neither asks for anything nor takes its repository from the environment.

    Raises:
        RepositoryError: There is no Git, or it does not come to an end.
    """
    try:
        return subprocess.run(
            ["git", "-C", os.fspath(folder), "--no-pager", *arguments],  # noqa: S607 - the user's own git
            input=given,
            capture_output=True,
            env=_environment(os.environ),
            timeout=_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise RepositoryError(f"git cannot be run: {error.strerror}", hint="install Git") from error
    except subprocess.TimeoutExpired:
        raise RepositoryError(
            f"git {arguments[0]} did not finish within {_TIMEOUT_S} s in {clipped(str(folder), 200)}",
            hint="run the same command by hand: it may be waiting for the network or a disk",
        ) from None


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in ours.items() if name not in _ELSEWHERE}
    return {
        **kept,
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }


def unreadable(folder: Path, answer: subprocess.CompletedProcess[bytes]) -> RepositoryError:
    """What to raise where Git failed in a folder."""
    told = answer.stderr.decode("utf-8", "replace")
    if "safe.directory" in told:
        return RepositoryError(
            f"Git does not trust the repository in {clipped(str(folder), 200)}: another user owns it",
            hint="if you trust it: git config --global --add safe.directory FOLDER",
        )
    first = next(iter(told.removeprefix("fatal: ").splitlines()), f"exit code {answer.returncode}")
    return RepositoryError(
        f"Git cannot read {clipped(str(folder), 200)}: {clipped(first, 200)}",
        hint="run kafkaform in a clone of the repository that the manifests are in",
    )


_SUBMODULE = b"160000"
_NO_FILES = frozenset({b"120000", _SUBMODULE})  # the former is a link
_ROOT = PurePosixPath()


@dataclass(frozen=True, slots=True)
class Repository:
    """A Git repository with a work tree.

    Paths that are asked about are folders, of which the manifests count (`*.yaml`, `*.yml`, not hidden, not
    kafkaform.yaml), or single files. They may be relative to the current folder.

    Attributes:
        root: The top folder of the work tree, absolute and without links.
        object_format: The hash that names objects: `sha1` or `sha256`.
    """

    root: Path
    object_format: str = "sha1"

    @classmethod
    def at(cls, folder: Path) -> Repository:
        """The repository that a folder is in.

        Raises:
            RepositoryError: There is none, Git does not trust its owner, or there is no Git.
        """
        answer = git(folder, "rev-parse", "--show-toplevel", "--show-object-format")
        if answer.returncode != 0:
            raise unreadable(folder, answer)
        root, object_format = os.fsdecode(answer.stdout).removesuffix("\n").rsplit("\n", 1)
        return cls(Path(root), object_format)

    def head(self) -> str:
        """The commit that is checked out, in full.

        Raises:
            RepositoryError: There is no commit yet.
        """
        return self.resolve("HEAD")

    def ref(self) -> str | None:
        """The branch that is checked out, else the one ref that HEAD is; None if there is none, or several.

        A job that checks out a pull request has no branch, but `refs/remotes/pull/12/merge`.
        """
        branch = git(self.root, "symbolic-ref", "--quiet", "HEAD")
        if branch.returncode != 0:
            branch = git(self.root, "for-each-ref", "--points-at=HEAD", "--format=%(refname)")
        names = branch.stdout.decode("utf-8", "replace").split()
        return names[0] if len(names) == 1 else None

    def resolve(self, ref: str) -> str:
        """The commit, in full, that a branch, a tag or any other of Git's names for one stands for.

        Raises:
            RepositoryError: It names no commit that is here.
        """
        answer = None
        if ref and not ref.startswith("-") and ref.isprintable():
            question = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
            answer = git(self.root, *question)
        if answer is None or answer.returncode != 0:
            raise RepositoryError(
                f"{_named(ref)} is not a commit in the Git repository {_named(self.root)}",
                hint="fetch it with git fetch; a shallow clone has only the newest commits",
            )
        return answer.stdout.decode().strip()

    def merge_base(self, ref: str) -> str:
        """The newest commit that both HEAD and `ref` come from: where this branch began.

        Raises:
            RepositoryError: `ref` names no commit, or the two have no commit in common here.
        """
        answer = git(self.root, "merge-base", self.resolve(ref), self.head())
        if answer.returncode != 0:
            raise RepositoryError(
                f"HEAD and {_named(ref)} have no commit in common in the Git repository {_named(self.root)}",
                hint="a shallow clone lacks the history: git fetch --unshallow (in a GitHub "
                "workflow, fetch-depth: 0)",
            )
        return answer.stdout.decode().strip()

    def count_commits(self, start: str, end: str) -> int:
        """Count the commits on the way from one commit to another, those of merged branches not included.

        Raises:
            RepositoryError: The history cannot be read.
        """
        answer = git(self.root, "rev-list", "--count", "--first-parent", f"{start}..{end}", "--")
        if answer.returncode != 0:
            raise unreadable(self.root, answer)
        return int(answer.stdout)

    def inside(self, path: Path) -> PurePosixPath:
        """A path relative to the top folder; links are followed.

        Raises:
            RepositoryError: It is not in this repository.
        """
        try:
            return PurePosixPath(path.resolve().relative_to(self.root))
        except ValueError:
            raise RepositoryError(
                f"{_named(path)} is not in the Git repository {_named(self.root)}",
                hint="give paths in this repository, or run kafkaform in the repository that contains them",
            ) from None

    def export(self, ref: str, paths: Iterable[Path], into: Path) -> None:
        """Write the files of these paths, as they were at a commit, below a folder.

        They are where they are below the repository's top folder: that of `path` at `into / inside(path)`.
        Of a path that did not exist then, nothing is written.

        Raises:
            RepositoryError: There is no such commit, or it holds what cannot be written safely.
        """
        entries = self._entries(self.resolve(ref), [self.inside(path) for path in paths])
        for path, content in zip(entries, self._contents([*entries.values()]), strict=True):
            try:
                (into / path).parent.mkdir(parents=True, exist_ok=True)
                (into / path).write_bytes(content)
            except OSError as error:
                raise RepositoryError(f"{_named(path)} cannot be written: {error.strerror}") from error

    def changed(self, since: str, paths: Iterable[Path]) -> list[str]:
        """The files of these paths that are not as a commit has them: edited, added or gone; sorted.

        Relative to the repository's top folder. Line ends do not count.

        Raises:
            RepositoryError: There is no such commit, or it holds what cannot be compared.
        """
        looked_at = [self.inside(path) for path in paths]
        then = self._entries(self.resolve(since), looked_at)
        now = {str(file) for path in looked_at for file in self._files(path)}
        return sorted(path for path in now | {*then} if not self._is_as(path, then.get(path)))

    def is_dirty(self, paths: Iterable[Path]) -> bool:
        """Whether files of these paths are not as the commit that is checked out has them."""
        return bool(self.changed("HEAD", paths))

    def describe(self, paths: Iterable[Path]) -> str:
        """The commit that is checked out, with `-dirty` behind it where files of these paths differ from it.

        Raises:
            RepositoryError: There is no commit, or these files cannot be compared with it.
        """
        return self.head() + (DIRTY if self.is_dirty(paths) else "")

    def _entries(self, commit: str, paths: Sequence[PurePosixPath]) -> dict[str, str]:
        """The object id of every file of these paths at a commit, links followed."""
        asked = [] if _ROOT in paths else list(map(str, paths))
        if not paths:
            return {}
        answer = git(self.root, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *asked)
        if answer.returncode != 0:
            raise unreadable(self.root, answer)
        found: dict[str, str] = {}
        for line in filter(None, answer.stdout.split(b"\0")):
            about, _, name = line.partition(b"\t")
            mode, _, object_id = about.split(b" ")
            path = PurePosixPath(os.fsdecode(name))
            is_file = mode not in _NO_FILES
            if not any(_counts(path, folder, is_file=is_file) for folder in paths):
                continue
            target = object_id.decode() if is_file else self._behind(path, commit, mode)
            if any(_counts(path, folder) for folder in paths):
                found[str(path)] = target
        return found

    def _behind(self, path: PurePosixPath, commit: str, mode: bytes) -> str:
        """The object id of the file that a link leads to."""
        if mode == _SUBMODULE:
            raise _unfit(path, commit, "is a submodule")
        if "\n" in str(path):
            raise _unfit(path, commit, "is a symbolic link with a line break in its name")
        asked = os.fsencode(f"{commit}:{path}\n")
        answer = git(self.root, "cat-file", "--batch-check", "--follow-symlinks", given=asked)
        match answer.stdout.split():
            case [object_id, b"blob", _]:
                return object_id.decode()
            case [_, b"tree", _]:
                raise _unfit(path, commit, "is a symbolic link to a directory")
            case _:
                raise _unfit(path, commit, "is a symbolic link whose target is not in the repository")

    def _contents(self, object_ids: Sequence[str]) -> Iterator[bytes]:
        """The contents of files, in order."""
        asked = "".join(f"{object_id}\n" for object_id in object_ids).encode()
        answer = git(self.root, "cat-file", "--batch", given=asked)
        if answer.returncode != 0:
            raise unreadable(self.root, answer)
        at = 0
        for object_id in object_ids:
            end = answer.stdout.index(b"\n", at)
            about = answer.stdout[at:end].split()
            if about[:2] != [object_id.encode(), b"blob"]:
                raise RepositoryError(
                    f"the Git repository {_named(self.root)} lacks the object {object_id}",
                    hint="git fsck lists what else is missing; git fetch may restore it",
                )
            at = end + 1 + int(about[2]) + 1
            yield answer.stdout[end + 1 : at - 1]

    def _files(self, path: PurePosixPath) -> Iterator[PurePosixPath]:
        """The files of a path in the work tree; of a link to a folder, the link."""
        if not (self.root / path).is_dir():
            if os.path.lexists(self.root / path):
                yield path
            return
        for folder, folders, files in os.walk(self.root / path, onerror=_raise):
            here = PurePosixPath(folder).relative_to(self.root)
            links = [name for name in folders if Path(folder, name).is_symlink()]
            folders[:] = [name for name in folders if _counts(here / name, path, is_file=False)]
            yield from (here / name for name in links if _counts(here / name, path, is_file=False))
            yield from (here / name for name in files if _counts(here / name, path))

    def _is_as(self, path: str, object_id: str | None) -> bool:
        """Whether a file of the work tree has the content of an object."""
        try:
            content = (self.root / path).read_bytes()
        except (FileNotFoundError, IsADirectoryError):
            return False
        except OSError as error:
            raise RepositoryError(f"{_named(path)} cannot be read: {error.strerror}") from error
        return object_id in {self._object_id(content), self._object_id(content.replace(b"\r\n", b"\n"))}

    def _object_id(self, content: bytes) -> str:
        header = b"blob %d\0" % len(content)
        return hashlib.new(self.object_format, header + content, usedforsecurity=False).hexdigest()


def _counts(path: PurePosixPath, asked: PurePosixPath, *, is_file: bool = True) -> bool:
    """Whether something is a manifest of a path that is asked about, or (no file) may hold some."""
    if path == asked:
        return True
    # What a forged tree calls `..` is hidden too, and an absolute path is relative to none.
    if not path.is_relative_to(asked) or any(part.startswith(".") for part in path.relative_to(asked).parts):
        return False
    return not is_file or (path.suffix in SUFFIXES and path.name != CONFIG_FILE)


def _unfit(path: PurePosixPath, commit: str, why: str) -> RepositoryError:
    return RepositoryError(
        f"{_named(path)} at commit {commit[:12]} {why}",
        hint="replace it with a regular file: for another commit, only files in the repository are read",
    )


def _named(what: object) -> str:
    return clipped(str(what), 200)


def _raise(error: OSError) -> None:
    raise RepositoryError(f"{_named(error.filename)} cannot be read: {error.strerror}") from error
