"""Whether anybody listens at the address of a Spark master, before Spark asks for minutes."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spark_validation.errors import SparkUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

_ANSWER_S = 10.0
_CONNECT_PORT = 15002
_KINDS = "local[N], spark://host:port, yarn, or k8s://https://host:port"
_LOCAL = re.compile(r"local(\[(\d+|\*)(,\d+)?\]|-cluster\[.*\])?")


def check_master(url: str) -> None:
    """Look at a master's URL, and for somebody at its address.

    Raises:
        SparkUnavailable: It is no URL of a master, or nobody listens there.
    """
    if url == "yarn" or _LOCAL.fullmatch(url):
        return
    if url.startswith("spark://"):
        addresses = [_address(f"spark://{one}", 7077) for one in url.removeprefix("spark://").split(",")]
    elif url.startswith("k8s://"):
        api = url.removeprefix("k8s://")
        addresses = [_address(api if "://" in api else f"https://{api}", 443)]
    else:
        raise SparkUnavailable(f"{url!r} is no Spark master", hint=f"give {_KINDS}")
    if any(address is None for address in addresses):
        raise SparkUnavailable(f"{url!r} is no Spark master", hint=f"give {_KINDS}")
    _reach([address for address in addresses if address], f"the Spark master {url}")


def check_remote(url: str) -> None:
    """The same for a Spark Connect URL; a token in it is never repeated.

    Raises:
        SparkUnavailable: It is no such URL, or nobody listens there.
    """
    address = _address(url, _CONNECT_PORT) if url.startswith("sc://") else None
    if address is None:
        raise SparkUnavailable("--remote is no Spark Connect URL", hint="give sc://host:port")
    _reach([address], f"the Spark Connect server at {address[0]}:{address[1]}")


def _address(url: str, port: int) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or port
    except ValueError:
        return None
    return (host, port) if host else None


def _reach(addresses: Iterable[tuple[str, int]], what: str) -> None:
    why = ""
    for address in addresses:
        try:
            socket.create_connection(address, timeout=_ANSWER_S).close()
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return
    raise SparkUnavailable(f"{what} cannot be reached: {why}", hint="check its address, and that it runs")
