"""Check each request to a server on this machine before anything else sees it.

Any page in the user's browser can send requests to a loopback port, and any name can be made to
point there. So three things are asked of each request: its ``Host`` is an address that the server
listens on (a rebound name is refused), its ``Origin``, where it has one, is the server itself (a
page of somebody else is refused), and it has the secret. Pure ASGI; needs no extra.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Container, Iterable, MutableMapping
from typing import Any

_MOST_DIGITS = 5
"""Of a port."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


def loopback_hosts(port: int) -> frozenset[str]:
    """The values of ``Host`` that a server on a loopback port accepts."""
    names = ("127.0.0.1", "localhost", "[::1]")
    return frozenset(f"{name}:{port}" for name in names) | (
        frozenset(names) if port == 80 else frozenset()
    )


def header_of(scope: MutableMapping[str, Any], name: bytes) -> str | None:
    """A header's value; None without it, and for one that comes twice."""
    found = [value for key, value in scope.get("headers", ()) if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else None


class NetworkHosts(Container[str]):
    """The values of ``Host`` for a server that others reach: these names, and any address.

    A page can point a name of its own to this machine, but not an address: that is always asked for
    as what it is. So addresses are let through, and of names only those that the user gave.
    """

    def __init__(self, port: int, names: Iterable[str] = ()) -> None:
        self._port = port
        self._names = frozenset(name.lower() for name in names)

    def __contains__(self, host: object) -> bool:
        if not isinstance(host, str):
            return False
        if host in self._names:
            return True
        name, mark, port = host.rpartition(":")
        if not mark or not port.isdecimal() or len(port) > _MOST_DIGITS:
            name, port = host, "80"
        return int(port) == self._port and (name in self._names or _is_address(name))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def is_here(scope: MutableMapping[str, Any], hosts: Container[str]) -> bool:
    """Whether ``Host`` is ours, and ``Origin``, if there is one."""
    host = header_of(scope, b"host")
    if host is None or host.lower() not in hosts:
        return False
    if not any(key == b"origin" for key, _ in scope.get("headers", ())):
        return True
    scheme, mark, rest = (header_of(scope, b"origin") or "").lower().partition("://")
    return bool(mark) and scheme in ("http", "https") and rest in hosts


def is_same(given: str | None, secret: str) -> bool:
    """Compare with a secret in constant time."""
    return given is not None and hmac.compare_digest(given.encode("utf-8", "replace"),
                                                     secret.encode())  # fmt: skip


async def refuse(send: Send, status: int, text: str, *more: tuple[bytes, bytes]) -> None:
    """Answer with one line of plain text."""
    body = f"{text}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
        *more,
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class BearerGuard:
    """Lets through what has ``Authorization: Bearer TOKEN`` and comes from here."""

    def __init__(self, app: App, token: str, hosts: Iterable[str]) -> None:
        self._app = app
        self._token = token
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            return
        elif not is_here(scope, self._hosts):
            await refuse(send, 403, "Only this machine may ask, by 127.0.0.1 or localhost.")
        elif not is_same(_bearer(scope), self._token):
            wants = (b"www-authenticate", b"Bearer")
            await refuse(send, 401, "Send the token: Authorization: Bearer TOKEN", wants)
        else:
            await self._app(scope, receive, send)


def _bearer(scope: MutableMapping[str, Any]) -> str | None:
    kind, _, token = (header_of(scope, b"authorization") or "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None
