"""Choosing TCP ports on the loopback interface."""

from __future__ import annotations

import random
import socket

from kafkaform.core.errors import DevClusterError

HOST = "127.0.0.1"
_HIGHEST = 65535
# Below the ranges that Linux and macOS hand to outgoing connections, which could take a port in between.
_FREE_RANGE = range(20000, 32000)


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        # As Java does: a port whose last connections are still in TIME_WAIT is free.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
            listener.listen(1)
        except OSError:
            return False
    return True


def free_ports(count: int, *, avoid: frozenset[int] = frozenset()) -> tuple[int, ...]:
    """Different free ports, at random, so that clusters started at the same time hardly meet.

    Raises:
        DevClusterError: There are not that many.
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
            hint="stop what listens there",
        )
    return tuple(chosen)


def consecutive_ports(first: int, count: int) -> tuple[int, ...]:
    """The ports from `first` on, one a broker.

    Raises:
        DevClusterError: One of them is taken, may not be used by this account, or does not exist.
    """
    ports = tuple(range(first, first + count))
    if first < 1 or ports[-1] > _HIGHEST:
        raise DevClusterError(
            f"{count} brokers from port {first} on need ports beyond {_HIGHEST}", hint="choose a lower --port"
        )
    for port in ports:
        if not is_free(port):
            raise DevClusterError(
                f"port {port} on {HOST} is in use, or may not be used by this account",
                hint=f"choose another --port, or see who listens: lsof -nP -iTCP:{port} -sTCP:LISTEN",
            )
    return ports
