"""The TCP ports of a development cluster, on the loopback interface."""

from __future__ import annotations

import random
import socket

from kafkaform.core.errors import DevClusterError
from kafkaform.core.wording import counted

HOST = "127.0.0.1"
_HIGHEST = 65535
# Below the ephemeral ports of Linux and macOS: an outgoing connection could take one of those before a start.
_FREE_RANGE = range(20000, 32000)


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        # As Java does: a port whose last connections are still in TIME_WAIT is free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen(1)
        except OSError:
            return False
    return True


def find_free_ports(count: int, *, avoid: frozenset[int] = frozenset()) -> tuple[int, ...]:
    """Choose distinct free ports at random, so that clusters started at the same time rarely collide.

    Raises:
        DevClusterError: There are not enough free ports.
    """
    chosen: list[int] = []
    for port in random.sample(_FREE_RANGE, len(_FREE_RANGE)):
        if len(chosen) == count:
            break
        if port not in avoid and is_free(port):
            chosen.append(port)
    if len(chosen) < count:
        raise DevClusterError(
            f"fewer than {count} of the ports {_FREE_RANGE.start}-{_FREE_RANGE.stop - 1} are free",
            hint="stop processes that listen on these ports",
        )
    return tuple(chosen)


def check_consecutive_ports(first: int, count: int) -> tuple[int, ...]:
    """Return the ports from `first` on, one for each broker, if all of them are free.

    Raises:
        DevClusterError: One of them is in use, not permitted to this account, or does not exist.
    """
    ports = tuple(range(first, first + count))
    if first < 1 or ports[-1] > _HIGHEST:
        raise DevClusterError(
            f"{counted(count, 'broker')} from port {first} on would need ports above {_HIGHEST}",
            hint="choose a lower --port",
        )
    for port in ports:
        if not is_free(port):
            raise DevClusterError(
                f"port {port} on {HOST} is in use, or not permitted to this account",
                hint=f"choose another --port, or find the process: `lsof -nP -iTCP:{port} -sTCP:LISTEN`",
            )
    return ports
