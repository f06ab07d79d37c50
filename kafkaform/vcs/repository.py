"""The Git repository of the manifests: the checked-out commit, and files at other commits.

Only Git's plumbing is called, which reads objects as they are: no hook, filter or conversion of a branch's
`.gitattributes` runs, and nothing is checked out. Files of the work tree are read and hashed here, because
Git would pass them through such filters.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from kafkaform.config.manifests.files import CONFIG_FILE, SUFFIXES
from kafkaform.core.errors import RepositoryError
from kafkaform.core.files import read_file
from kafkaform.core.git import describe_failure, run_git
from kafkaform.core.printable import clipped
from kafkaform.core.values import Value
from kafkaform.core.wording import DIRTY

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Iterator, Sequence


def build_read_error(folder: Path, process: subprocess.CompletedProcess[bytes]) -> RepositoryError:
    """Return the error for a failure of Git in a folder."""
    if b"safe.directory" in process.stderr:
        return RepositoryError(
            f"Git does not trust the repository in {clipped(str(folder), 200)}: another user owns it",
            hint="if you trust it: `git config --global --add safe.directory FOLDER`",
        )
    return RepositoryError(
        f"Git cannot read {clipped(str(folder), 200)}: {describe_failure(process)}",
        hint="run kafkaform in a clone of the repository that the manifests are in",
    )


_SUBMODULE = b"160000"
_NO_FILES = frozenset({b"120000", _SUBMODULE})  # 120000 is a symbolic link
_ROOT = PurePosixPath()


class Repository(Value):
    """A Git repository with a work tree.

    The paths that its methods take are single files, or folders, of which only manifests count (`*.yaml`,
    `*.yml`, not hidden, not kafkaform.yaml). They may be relative to the current folder.

    Attributes:
        root: The top folder of the work tree, absolute and without links.
        object_format: The hash of object ids: `sha1` or `sha256`.
    """

    root: Path
    object_format: str = "sha1"

    @classmethod
    def find(cls, folder: Path) -> Repository:
        """Find the repository that contains a folder.

        Raises:
            RepositoryError: There is none, Git does not trust its owner, or Git is not installed.
        """
        process = run_git(folder, "rev-parse", "--show-toplevel", "--show-object-format")
        if process.returncode != 0:
            raise build_read_error(folder, process)
        root, object_format = os.fsdecode(process.stdout).removesuffix("\n").rsplit("\n", 1)
        return cls(Path(root), object_format)

    def read_head(self) -> str:
        """Return the full id of the checked-out commit.

        Raises:
            RepositoryError: There is no commit yet.
        """
        return self.resolve("HEAD")

    def read_ref(self) -> str | None:
        """Return the checked-out branch, else the one ref that points at HEAD; None for none or several.

        A job that checks out a pull request has no branch, but `refs/remotes/pull/12/merge`.
        """
        branch = run_git(self.root, "symbolic-ref", "--quiet", "HEAD")
        # Actions check out a detached HEAD.
        if branch.returncode != 0:
            branch = run_git(self.root, "for-each-ref", "--points-at=HEAD", "--format=%(refname)")
        names = branch.stdout.decode("utf-8", "replace").split()
        return names[0] if len(names) == 1 else None

    def resolve(self, ref: str) -> str:
        """Return the full id of the commit that a branch, a tag or another revision names.

        Raises:
            RepositoryError: It names no commit of this repository.
        """
        process = None
        if ref and not ref.startswith("-") and ref.isprintable():
            # --end-of-options and the check before it: a ref must not be read as an option.
            question = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
            process = run_git(self.root, *question)
        if process is None or process.returncode != 0:
            raise RepositoryError(
                f"{_clip(ref)} is not a commit in the Git repository {_clip(self.root)}",
                hint="fetch it with `git fetch`; a shallow clone has only the newest commits",
            )
        return process.stdout.decode().strip()

    def find_merge_base(self, ref: str) -> str:
        """Return the newest common commit of HEAD and `ref`, where this branch began.

        Raises:
            RepositoryError: `ref` names no commit, or the repository has no common commit of the two.
        """
        process = run_git(self.root, "merge-base", self.resolve(ref), self.read_head())
        if process.returncode != 0:
            raise RepositoryError(
                f"HEAD and {_clip(ref)} have no commit in common in the Git repository {_clip(self.root)}",
                hint="a shallow clone lacks the history: `git fetch --unshallow` (in a GitHub "
                "workflow, fetch-depth: 0)",
            )
        return process.stdout.decode().strip()

    def count_commits(self, start: str, end: str) -> int:
        """Count the commits from one commit to another, without those of merged branches.

        Raises:
            RepositoryError: The history cannot be read.
        """
        # First parents only: a merged branch is one change, however many commits it has.
        process = run_git(self.root, "rev-list", "--count", "--first-parent", f"{start}..{end}", "--")
        if process.returncode != 0:
            raise build_read_error(self.root, process)
        return int(process.stdout)

    def relative_path(self, path: Path) -> PurePosixPath:
        """Return a path relative to the top folder; links are followed.

        Raises:
            RepositoryError: It is not in this repository.
        """
        try:
            return PurePosixPath(path.resolve().relative_to(self.root))
        except ValueError:
            raise RepositoryError(
                f"{_clip(path)} is not in the Git repository {_clip(self.root)}",
                hint="give paths in this repository, or run kafkaform in the repository that contains them",
            ) from None

    def export(self, ref: str, paths: Iterable[Path], into: Path) -> None:
        """Write the files of these paths, as they were at a commit, below the folder `into`.

        The file `path` is written to `into / relative_path(path)`. Paths that did not exist then are skipped.

        Raises:
            RepositoryError: There is no such commit, or it has entries that cannot be written safely.
        """
        entries = self._list_entries(self.resolve(ref), [self.relative_path(path) for path in paths])
        for path, content in zip(entries, self._read_contents([*entries.values()]), strict=True):
            try:
                (into / path).parent.mkdir(parents=True, exist_ok=True)
                (into / path).write_bytes(content)
            except OSError as error:
                raise RepositoryError(f"{_clip(path)} cannot be written: {error.strerror}") from error

    def find_changes(self, since: str, paths: Iterable[Path]) -> list[str]:
        """Return the files of these paths that were edited, added or removed since a commit, sorted.

        They are relative to the repository's top folder. Line ends are ignored.

        Raises:
            RepositoryError: There is no such commit, or it has entries that cannot be compared.
        """
        selected = [self.relative_path(path) for path in paths]
        then = self._list_entries(self.resolve(since), selected)
        now = {str(file) for path in selected for file in self._list_files(path)}
        return sorted(path for path in now | {*then} if not self._has_content(path, then.get(path)))

    def is_dirty(self, paths: Iterable[Path]) -> bool:
        """Return whether files of these paths differ from the checked-out commit."""
        return bool(self.find_changes("HEAD", paths))

    def describe(self, paths: Iterable[Path]) -> str:
        """Return the checked-out commit, followed by `-dirty` if files of these paths differ from it.

        Raises:
            RepositoryError: There is no commit, or these files cannot be compared with it.
        """
        return self.read_head() + (DIRTY if self.is_dirty(paths) else "")

    def _list_entries(self, commit: str, paths: Sequence[PurePosixPath]) -> dict[str, str]:
        """Return the object id of every file of these paths at a commit; links are followed."""
        # Without a path, ls-tree lists the whole tree.
        requested = [] if _ROOT in paths else list(map(str, paths))
        if not paths:
            return {}
        process = run_git(self.root, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *requested)
        if process.returncode != 0:
            raise build_read_error(self.root, process)
        entries: dict[str, str] = {}
        for line in filter(None, process.stdout.split(b"\0")):
            header, _, name = line.partition(b"\t")
            mode, _, object_id = header.split(b" ")
            path = PurePosixPath(os.fsdecode(name))
            is_file = mode not in _NO_FILES
            if not any(_is_selected(path, folder, is_file=is_file) for folder in paths):
                continue
            target = object_id.decode() if is_file else self._follow_link(path, commit, mode)
            if any(_is_selected(path, folder) for folder in paths):
                entries[str(path)] = target
        return entries

    def _follow_link(self, path: PurePosixPath, commit: str, mode: bytes) -> str:
        """Return the object id of the file that a link points to."""
        if mode == _SUBMODULE:
            raise _build_unreadable_error(path, commit, "is a submodule")
        # The protocol of cat-file has one name a line.
        if "\n" in str(path):
            raise _build_unreadable_error(path, commit, "is a symbolic link with a line break in its name")
        query = os.fsencode(f"{commit}:{path}\n")
        process = run_git(self.root, "cat-file", "--batch-check", "--follow-symlinks", given=query)
        match process.stdout.split():
            case [object_id, b"blob", _]:
                return object_id.decode()
            case [_, b"tree", _]:
                raise _build_unreadable_error(path, commit, "is a symbolic link to a directory")
            case _:
                raise _build_unreadable_error(
                    path, commit, "is a symbolic link whose target is not in the repository"
                )

    def _read_contents(self, object_ids: Sequence[str]) -> Iterator[bytes]:
        query = "".join(f"{object_id}\n" for object_id in object_ids).encode()
        process = run_git(self.root, "cat-file", "--batch", given=query)
        if process.returncode != 0:
            raise build_read_error(self.root, process)
        at = 0
        for object_id in object_ids:
            end = process.stdout.index(b"\n", at)
            header = process.stdout[at:end].split()
            if header[:2] != [object_id.encode(), b"blob"]:
                raise RepositoryError(
                    f"the Git repository {_clip(self.root)} lacks the object {object_id}",
                    hint="`git fsck` lists what else is missing; `git fetch` may restore it",
                )
            at = end + 1 + int(header[2]) + 1
            yield process.stdout[end + 1 : at - 1]

    def _list_files(self, path: PurePosixPath) -> Iterator[PurePosixPath]:
        """Yield the files of a path in the work tree; a link to a folder counts as a file."""
        if not (self.root / path).is_dir():
            if os.path.lexists(self.root / path):
                yield path
            return
        for folder, folders, files in os.walk(self.root / path, onerror=_raise_read_error):
            here = PurePosixPath(folder).relative_to(self.root)
            links = [name for name in folders if Path(folder, name).is_symlink()]
            # In place: os.walk then skips hidden folders, such as .git.
            folders[:] = [name for name in folders if _is_selected(here / name, path, is_file=False)]
            yield from (here / name for name in links if _is_selected(here / name, path, is_file=False))
            yield from (here / name for name in files if _is_selected(here / name, path))

    def _has_content(self, path: str, object_id: str | None) -> bool:
        """Return whether a file of the work tree has the content of an object."""
        try:
            content = read_file(self.root / path)
        except (FileNotFoundError, IsADirectoryError):
            return False
        except OSError as error:
            raise RepositoryError(f"{_clip(path)} cannot be read: {error.strerror}") from error
        # Checkouts on Windows have CRLF, which Git converts back: neither form is a change.
        return object_id in {self._object_id(content), self._object_id(content.replace(b"\r\n", b"\n"))}

    def _object_id(self, content: bytes) -> str:
        header = b"blob %d\0" % len(content)
        return hashlib.new(self.object_format, header + content, usedforsecurity=False).hexdigest()


def _is_selected(path: PurePosixPath, selected: PurePosixPath, *, is_file: bool = True) -> bool:
    """Return whether a selected path contains a manifest, or a folder or link that may contain some."""
    if path == selected:
        return True
    # A forged tree may contain `..`, which counts as hidden, or absolute paths, which are not relative.
    if not path.is_relative_to(selected) or any(
        part.startswith(".") for part in path.relative_to(selected).parts
    ):
        return False
    return not is_file or (path.suffix in SUFFIXES and path.name != CONFIG_FILE)


def _build_unreadable_error(path: PurePosixPath, commit: str, why: str) -> RepositoryError:
    return RepositoryError(
        f"{_clip(path)} at commit {commit[:12]} {why}",
        hint="replace it with a regular file: at other commits, only files in the repository can be read",
    )


def _clip(name: object) -> str:
    return clipped(str(name), 200)


def _raise_read_error(error: OSError) -> None:
    raise RepositoryError(f"{_clip(error.filename)} cannot be read: {error.strerror}") from error
