"""The gate of the viewer: checks of each request, and the headers of each answer.

In this order: ``Host`` is ours, and ``Origin`` if there is one (see ``serving.guard``); the path is
below ours; the visitor is known (``access``); no other site asks for it; and a change
comes by POST, from a page of ours, by a visitor who may write. The token in a page's forms is
checked where they are read.

Every answer, errors too, forbids scripts, styles and connections other than ours, frames, sniffing,
caching and referrers. Pure ASGI.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import parse_qs, quote

from sessiontree.export.html.markup import attribute
from sessiontree.serving.guard import App, Receive, Send, header_of, is_here, refuse
from sessiontree.web import frame
from sessiontree.web.access import Access, Visitor

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types sessiontree"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # Not "no-referrer": browsers would then send no origin with our own forms.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
_LOOKS = ("GET", "HEAD")
_MOST_BODY = 64 * 1024
_BODY_S = 15.0
_OTHER_SITES = ("cross-site", "same-site")


class Gate:
    """Lets a request through to the app, or answers it."""

    def __init__(self, app: App, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._pass(scope, receive, _with_headers(send))

    async def _pass(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        access = self._access
        path = str(scope["path"])
        if not is_here(scope, access.hosts):
            await refuse(send, 403, "This is not an address of this viewer.")
            return
        if path != access.root and not path.startswith(f"{access.root}/"):
            await refuse(send, 404, "Open the address that sessiontree view printed.")
            return
        scope = {**scope, "root_path": access.root, "visitor": access.identify(scope)}
        inner = path.removeprefix(access.root)
        if inner.startswith("/assets/"):
            await self._app(scope, receive, send)
        elif inner == "/login" and scope["method"] == "POST":
            await self._log_in(scope, receive, send)
        elif access.wants == "link" and (token := _token_of(scope)) is not None:
            await self._enter(scope, send, token)
        elif scope["visitor"] is None:
            await self._ask(scope, send)
        else:
            await self._pass_visitor(scope, receive, send)

    async def _pass_visitor(
        self, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        visitor: Visitor = scope["visitor"]
        is_look = scope["method"] in _LOOKS
        if is_look and _is_of_another_site(scope):
            await refuse(send, 403, "Another site may not ask for this.")
        elif is_look:
            await self._app(scope, receive, send)
        elif scope["method"] != "POST" or header_of(scope, b"origin") is None:
            await refuse(send, 403, "Changes come by POST, from a page of this viewer.")
        elif not visitor.can_write:
            await refuse(send, 403, "You may only look.")
        else:
            await self._app(scope, receive, send)

    # -- coming in -------------------------------------------------------------------------

    async def _enter(self, scope: MutableMapping[str, Any], send: Send, token: str) -> None:
        """Exchange the link's token for a cookie, and leave the address that has it.

        Not by a redirect: a browser sends a strict cookie only if the last page was ours.
        """
        cookie = self._access.admit(token)
        if cookie is None and scope["visitor"] is None:
            await self._ask(scope, send)
            return
        target = attribute(quote(str(scope["path"]), safe="/"))
        page = frame.message_page(
            self._access.root,
            "Opening…",
            f'<p><a href="{target}">Continue</a></p>',
            f'<meta http-equiv="refresh" content="0;url={target}">',
        )
        more = ((b"set-cookie", cookie.encode()),) if cookie else ()
        await _send_page(send, 200, page, *more)

    async def _log_in(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if self._access.wants != "password" or header_of(scope, b"origin") is None:
            await refuse(send, 403, "There is no login here.")
            return
        given = parse_qs((await read_body(receive)).decode("utf-8", "replace"))
        cookie = self._access.admit(given.get("password", [""])[0])
        if cookie is None:
            await self._ask(scope, send, "That was not it, or there were too many tries.")
            return
        root = self._access.root
        more = ((b"set-cookie", cookie.encode()), (b"location", f"{root}/".encode()))
        await _send_page(send, 303, "", *more)

    async def _ask(self, scope: MutableMapping[str, Any], send: Send, told: str = "") -> None:
        """Say how to get in."""
        is_page = "text/html" in (header_of(scope, b"accept") or "")
        if not is_page:
            await refuse(send, 401, "Open the viewer again: it does not know you.")
        else:
            await _send_page(send, 401, frame.entrance_page(self._access, told))


def _token_of(scope: MutableMapping[str, Any]) -> str | None:
    query = parse_qs(bytes(scope.get("query_string", b"")).decode("latin-1"))
    return query.get("token", [None])[0]


def _is_of_another_site(scope: MutableMapping[str, Any]) -> bool:
    """Whether a page of another site (or port) loads this, other than by a link to a page."""
    site, mode = header_of(scope, b"sec-fetch-site"), header_of(scope, b"sec-fetch-mode")
    return site in _OTHER_SITES and mode != "navigate"


async def read_body(receive: Receive) -> bytes:
    """The whole body of a request; empty if it is larger than any form of ours, or slower."""
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return b""
                size += len(message.get("body", b""))
                if size > _MOST_BODY:
                    return b""
                pieces.append(message.get("body", b""))
                if not message.get("more_body"):
                    return b"".join(pieces)
    except TimeoutError:
        return b""


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            named = {name.lower() for name, _ in given}
            given += [each for each in HEADERS if each[0] not in named]
            if b"cache-control" not in named:
                given.append((b"cache-control", b"no-store"))
            message = {**message, "headers": given}
        await send(message)

    return sending


async def _send_page(send: Send, status: int, page: str, *more: tuple[bytes, bytes]) -> None:
    body = page.encode()
    kind = (b"content-type", b"text/html; charset=utf-8")
    length = (b"content-length", str(len(body)).encode())
    start = {"type": "http.response.start", "status": status, "headers": [kind, length, *more]}
    await send(start)
    await send({"type": "http.response.body", "body": body})
