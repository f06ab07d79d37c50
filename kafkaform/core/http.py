"""HTTP requests: TLS is verified, redirects are not followed, and time and size are limited."""

from __future__ import annotations

from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread, local
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from kafkaform.core.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from ssl import SSLContext
    from urllib.request import Request

_T = TypeVar("_T")
_MAX_RESPONSE_BYTES = 1 << 24
"""The most bytes of a response."""
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class HttpResponse(Value):
    """A response, whatever its status; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def is_safe(url: str) -> bool:
    """Return whether traffic to a URL is safe from others: it uses TLS, or stays on this machine."""
    # Plain http is for tests on this machine: any other host would receive secrets unencrypted.
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises ValueError for a port that is not a number
    except ValueError:
        return False
    if parts.scheme == "http":
        return parts.hostname in _LOOPBACK
    return parts.scheme == "https" and parts.hostname is not None


def send_request(
    method: str,
    url: str,
    timeout_s: float,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    tls: SSLContext | None = None,
    largest: int = _MAX_RESPONSE_BYTES,
) -> HttpResponse:
    """Send a request by http or https.

    Args:
        method: The method, such as POST.
        url: The address. A redirect is returned as it is, so that secrets go only to this address.
        timeout_s: The maximum time for the whole response.
        tls: The settings of TLS; None for those of the system, with verification.
        largest: The most bytes of the response.

    Raises:
        OSError: It cannot be sent, or there is no valid response; the message does not quote the request.
    """
    from http.client import HTTPException
    from urllib.request import Request

    request = Request(url, body, dict(headers or {}), method=method)  # noqa: S310 - `_exchange` has no other schemes
    try:
        return call_within(timeout_s, lambda: _exchange(request, timeout_s, tls, largest))
    except (OSError, HTTPException, ValueError) as error:  # ValueError: an invalid host name
        reason = getattr(error, "reason", None) or error
        text = " ".join(str(getattr(reason, "strerror", None) or reason).replace("\0", " ").split())
        # Without the cause, which would show the request with its secrets.
        raise OSError(text or "timed out") from None


class _Caller:
    """A thread that makes the calls of one other thread, until that ends."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        Thread(target=_make_calls, args=(self._calls,), daemon=True).start()

    def __del__(self) -> None:
        self._calls.put(None)

    def submit(self, call: Callable[[], _T]) -> Future[_T]:
        """Pass a call to the thread, and return its result to come."""
        result: Future[_T] = Future()
        self._calls.put((result, call))
        return result


def _make_calls(calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]) -> None:
    while (job := calls.get()) is not None:
        result, call = job
        try:
            result.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
            result.set_exception(error)
        del job, result, call  # until the next call, nothing keeps them


_callers = local()


def call_within(timeout_s: float, call: Callable[[], _T]) -> _T:
    """Return the result of a call that exchanges a request and a response.

    In a thread, because the timeout of a socket starts anew with every byte. The thread is kept, as starting
    one took a fifth of the time of reading a subject from a registry on the same machine.

    Raises:
        TimeoutError: There is no result in time.
    """
    caller: _Caller | None = getattr(_callers, "caller", None)
    if caller is None:
        caller = _callers.caller = _Caller()
    try:
        return caller.submit(call).result(timeout_s)
    except TimeoutError:
        _callers.caller = None  # it may be busy for long
        raise


def _exchange(request: Request, timeout_s: float, tls: SSLContext | None, largest: int) -> HttpResponse:
    from urllib import request as library

    opener = library.OpenerDirector()
    # No others: urllib's own opener also reads files, and follows redirects.
    for handler in (
        # Plain http is for this machine or a trusted network, which http_proxy would leave.
        library.ProxyHandler({} if request.type == "http" else None),
        library.UnknownHandler(),
        library.HTTPHandler(),
        library.HTTPSHandler(context=tls),
    ):
        opener.add_handler(handler)
    with opener.open(request, timeout=timeout_s) as response:
        body = response.read(largest + 1)
        headers = {name.lower(): value for name, value in response.headers.items()}
    if len(body) > largest:
        raise OSError(f"the answer is larger than {largest:,} bytes")
    return HttpResponse(response.status, headers, body)
