"""A file of another Git repository, pinned to a commit."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from kafkaform.core.errors import InvalidInput, Problem, RepositoryError
from kafkaform.core.files import get_cache_directory, read_file
from kafkaform.core.files import replace as replace_file
from kafkaform.core.git import CREDENTIALS, describe_failure, has_credentials, run_git
from kafkaform.core.printable import clipped
from kafkaform.core.values import Value, replace
from kafkaform.core.wording import quoted, short_commit

if TYPE_CHECKING:
    from collections.abc import Iterator

# No helper such as ext::, which runs a command, and nothing that Git could take for an option.
_ADDRESS = re.compile(r"(?:https|ssh)://[^-\s][^\s]*|[\w.]+@[\w.][\w.-]*:[^\s]+|(?:file://)?/[^\s]+")
_SHA1_DIGITS = 40
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class PinnedFile(Value):
    """A file of a Git repository, as it is at a commit.

    Attributes:
        repository: The address of the repository, without credentials.
        commit: The full id of the commit.
        path: The path of the file in the repository.
    """

    repository: str
    commit: str
    path: str

    def __str__(self) -> str:
        return f"{self.path}@{short_commit(self.commit)}"

    def find_problems(self) -> Iterator[tuple[str, str, str]]:
        """Yield the name of each invalid attribute, what is wrong with it, and a hint."""
        if has_credentials(self.repository):
            yield "repository", *CREDENTIALS
        elif not _ADDRESS.fullmatch(self.repository):
            hint = "write https://HOST/PATH, ssh://USER@HOST/PATH, USER@HOST:PATH or an absolute path"
            yield "repository", f"{quoted(self.repository)} is not the address of a repository", hint
        if not _COMMIT.fullmatch(self.commit):
            # A branch or a tag can be moved, and what it names would change without a review.
            hint = "write all 40 digits that `git rev-parse` prints"
            yield "commit", f"{quoted(self.commit)} is not the full id of a commit", hint
        if not self.path or not self.path.isprintable():
            yield "path", f"{quoted(self.path)} is not the path of a file", "write it from the top folder"

    def is_same_file(self, other: object) -> bool:
        """Return whether another one is the same file of the same repository, perhaps at another commit."""
        return isinstance(other, PinnedFile) and other == replace(self, commit=other.commit)

    def read(self) -> bytes:
        """Return the content; fetch the commit if this is the first time.

        Raises:
            InvalidInput: The commit cannot be fetched, or has no such file; without a location.
        """
        return _read(self)


@cache
def _read(file: PinnedFile) -> bytes:
    key = sha256(f"{file.repository}\n{file.commit}\n{file.path}".encode()).hexdigest()
    cached = get_cache_directory() / "profiles" / f"{key}.yaml"
    with suppress(OSError):  # it is the first time, or there is no such folder
        return read_file(cached)
    try:
        with TemporaryDirectory(prefix="kafkaform-") as folder:
            content = _fetch(file, Path(folder))
    except RepositoryError as error:
        raise InvalidInput([Problem(error.message, None, error.hint)]) from error
    # A container may have no folder to write to: then each run fetches.
    with suppress(OSError):
        cached.parent.mkdir(parents=True, exist_ok=True)
        replace_file(cached, content)
    return content


def _fetch(file: PinnedFile, folder: Path) -> bytes:
    shown = f"{short_commit(file.commit)} of {clipped(file.repository, 200)}"
    object_format = "sha1" if len(file.commit) == _SHA1_DIGITS else "sha256"
    for arguments in (
        ("init", "--quiet", "--bare", "--template=", f"--object-format={object_format}"),
        ("fetch", "--quiet", "--depth=1", "--no-tags", "--end-of-options", file.repository, file.commit),
    ):
        process = run_git(folder, *arguments)
        if process.returncode != 0:
            raise RepositoryError(
                f"cannot fetch {shown}: {describe_failure(process)}",
                hint="check the address, the commit, and the access of this account: git ls-remote URL",
            )
    query = f"{file.commit}:{file.path}\n".encode()
    process = run_git(folder, "cat-file", "--batch", "--follow-symlinks", given=query)
    header, _, content = process.stdout.partition(b"\n")
    if not re.fullmatch(rb"[0-9a-f]+ blob [0-9]+", header):
        raise RepositoryError(
            f"there is no file {quoted(file.path)} in {shown}", hint="write its path from the top folder"
        )
    return content.removesuffix(b"\n")
