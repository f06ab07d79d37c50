"""The jars of Apache Kafka: pinned by hash, downloaded once into the user's cache folder.

The mirror and the network need not be trusted: a jar whose SHA-256 is not the pinned one is not kept. What
is in the cache is complete, as each jar gets its name by one rename.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from kafkaform.core.errors import JavaError
from kafkaform.core.files import CACHE_VARIABLE, get_cache_directory, hold_lock, replace
from kafkaform.core.progress import Progress, silent
from kafkaform.core.units import rounded_size
from kafkaform.core.values import Value
from kafkaform.devcluster.releases import KAFKA_VERSION

if TYPE_CHECKING:
    from urllib.request import Request

MAVEN_VARIABLE = "KAFKAFORM_MAVEN_URL"
PINS = Path(__file__).with_name("pins.json")
"""Written by scripts/pin_kafka_jars.py."""

_CONNECTIONS = 8
_TIMEOUT_S = 60


class Jar(Value):
    """A pinned jar.

    Attributes:
        path: The path in a Maven repository.
        sha256: The SHA-256 of its content.
        size: The size in bytes.
    """

    path: str
    sha256: str
    size: int

    @property
    def name(self) -> str:
        """The name of the file, which no other pinned jar has."""
        return self.path.rpartition("/")[2]


def fetch_kafka_classpath(version: str = KAFKA_VERSION, *, progress: Progress = silent) -> list[Path]:
    """Return the jars of a broker; download those that are not in the cache.

    Args:
        version: A pinned release of Apache Kafka.
        progress: Called before a download.

    Raises:
        JavaError: A jar is not in the cache and cannot be downloaded.
    """
    folder = get_cache_directory() / "jars"
    pins = json.loads(PINS.read_text("utf-8"))
    jars = [Jar(path, pin["sha256"], pin["size"]) for path, pin in pins.items() if version in pin["kafka"]]
    if _find_missing(jars, folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Another process may download the same jars: wait, and look again.
            with hold_lock(folder / "lock", progress=progress):
                if missing := _find_missing(jars, folder):
                    size = rounded_size(sum(jar.size for jar in missing))
                    progress(f"downloading Apache Kafka {version} into {folder} (only once: {size})")
                    with ThreadPoolExecutor(_CONNECTIONS) as pool:
                        list(pool.map(partial(download, folder=folder), missing))
        except OSError as error:
            raise JavaError(
                f"cannot keep the jars of Apache Kafka in {folder}: {error.strerror}",
                hint=f"set {CACHE_VARIABLE} to a directory that can be written to",
            ) from error
    return [folder / jar.name for jar in jars]


def get_repository() -> str:
    """Return the address of a Maven repository: KAFKAFORM_MAVEN_URL, or Maven Central.

    Raises:
        JavaError: The variable is not set, and the library that knows Maven Central is not installed.
    """
    if own := os.environ.get(MAVEN_VARIABLE):
        return own
    try:
        from maven_artifact import Resolver
    except ImportError:
        raise JavaError(
            "the jars of Apache Kafka are not in the cache, and maven-artifact is not installed",
            hint=f"`pip install 'kafkaform[local]'`, or set {MAVEN_VARIABLE} to a Maven repository",
        ) from None
    return str(Resolver.default().base)


def _find_missing(jars: list[Jar], folder: Path) -> list[Jar]:
    # Sizes, not hashes: a full disk or an interrupted copy changes them, and hashing every jar would take a
    # part of every start.
    return [jar for jar in jars if _get_size(folder / jar.name) != jar.size]


def _get_size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def download(jar: Jar, folder: Path) -> None:
    """Download a pinned file into a folder; raises JavaError if it cannot be, or is another file."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import urlopen

    host, request = _make_request(jar.path)
    try:
        # Not `send_request`: a mirror may redirect, be a folder (file://), or be behind a proxy for http.
        with urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310 - the user gives the URL
            # A server that is not the right one may send without end.
            content = response.read(jar.size + 1)
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()
        reason = getattr(error, "reason", None) or error
        raise JavaError(
            f"cannot download {jar.path} from {host}: {getattr(reason, 'strerror', None) or reason}",
            hint="check the network, which only the first start needs; to use a mirror, set"
            f" {MAVEN_VARIABLE}; to use a proxy, set HTTPS_PROXY",
        ) from error
    if sha256(content).hexdigest() != jar.sha256:
        raise JavaError(
            f"{jar.path} from {host} is not the file that is pinned by its SHA-256",
            hint=f"a proxy may have answered, or the download was cut; try again, or set {MAVEN_VARIABLE}",
        )
    replace(folder / jar.name, content)


def _make_request(path: str) -> tuple[str, Request]:
    """Return the repository's address for messages, without a password, and the request."""
    from base64 import b64encode
    from urllib.parse import unquote, urlsplit
    from urllib.request import Request

    try:
        base = urlsplit(get_repository())
        login, _, host = base.netloc.rpartition("@")
        address = base._replace(netloc=host).geturl().rstrip("/")
        request = Request(f"{address}/{path}")  # noqa: S310 - the user gives the URL
    except ValueError:
        # The value is not shown, nor the cause: it may contain a password.
        hint = "give one such as https://maven.example.com/central"
        raise JavaError(f"{MAVEN_VARIABLE} is not a URL", hint=hint) from None
    if login:
        # A mirror may redirect to a store of another owner, which must not get the password.
        request.add_unredirected_header(
            "Authorization", f"Basic {b64encode(unquote(login).encode()).decode()}"
        )
    return address, request
