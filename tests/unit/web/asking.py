"""Ask the viewer as a browser would, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from sessiontree.scope import choose_scope
from sessiontree.serving.guard import App, loopback_hosts
from sessiontree.serving.sessions import ServedSessions
from sessiontree.web.access import Access, LinkAccess
from sessiontree.web.app import make_app

HOST = "127.0.0.1:8000"
ORIGIN = f"http://{HOST}"


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Asker:
    """A browser: it keeps the cookie, and says where it comes from."""

    app: App
    access: Access
    headers: dict[str, str] = field(default_factory=dict)
    root: str | None = None

    async def ask(
        self, path: str, method: str = "GET", body: bytes = b"", **headers: Any
    ) -> Answer:
        """The answer; a header given as None is left out, and ``_`` stands for a hyphen."""
        parts = urlsplit(path)
        given = {"host": HOST, "accept": "text/html", **self.headers}
        sent = {**given, **{name.replace("_", "-"): value for name, value in headers.items()}}
        scope = {
            "type": "http",
            "method": method,
            "path": (self.access.root if self.root is None else self.root) + parts.path,
            "query_string": parts.query.encode(),
            "headers": [
                (name.encode(), value.encode("latin-1"))
                for name, value in sent.items()
                if value is not None
            ],
        }
        told: list[MutableMapping[str, Any]] = []

        sent_body = iter([body])

        async def receive() -> dict[str, Any]:
            for piece in sent_body:
                return {"type": "http.request", "body": piece, "more_body": False}
            return await asyncio.Future()  # the browser waits for the answer

        async def send(message: MutableMapping[str, Any]) -> None:
            told.append(message)

        await self.app(scope, receive, send)
        start = told[0]
        found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        whole = b"".join(message.get("body", b"") for message in told[1:])
        return Answer(start["status"], found, whole)

    async def enter(self) -> None:
        """Exchange the link's token for a cookie, as the address that is printed does."""
        assert isinstance(self.access, LinkAccess)
        answer = await self.ask(f"/?token={self.access.token}")
        self.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]

    async def post(self, path: str, **fields: str) -> Answer:
        """Send a form of the viewer's own page."""
        page = (await self.ask("/")).text
        token = page.partition('name="form-token" content="')[2].partition('"')[0]
        return await self.send(path, token=token, **fields)

    async def send(self, path: str, **fields: str) -> Answer:
        """Send a form with just these fields."""
        return await self.ask(path, "POST", urlencode(fields).encode(), origin=ORIGIN)


def make_asker(access: Access | None = None, url: str | None = None) -> Asker:
    """A browser that is not in yet."""
    served = ServedSessions(choose_scope("/work/pi", url=url))
    chosen = access or LinkAccess(loopback_hosts(8000))
    return Asker(make_app(served, chosen), chosen)


async def enter() -> Asker:
    """A browser that came by the link."""
    asker = make_asker()
    await asker.enter()
    return asker
