"""Which requests get through to a server on this machine."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest

from sessiontree.serving.guard import BearerGuard, Receive, Send, loopback_hosts

TOKEN = "a-token-of-twenty-characters"
GOOD = {"host": "127.0.0.1:8000", "authorization": f"Bearer {TOKEN}"}


async def ask(headers: list[tuple[str, str]]) -> int:
    """The status of an answer of a guarded server."""

    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    told: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        told.append(message)

    guard = BearerGuard(app, TOKEN, loopback_hosts(8000))
    spelled = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    await guard({"type": "http", "headers": spelled}, receive, send)
    return int(told[0]["status"])


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8000"}, 200),
        ({"host": "LOCALHOST:8000"}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"origin": "http://127.0.0.1:8000"}, 200),
        ({"host": "evil.example:8000"}, 403),
        ({"host": "127.0.0.1:9000"}, 403),
        ({"host": "127.0.0.1"}, 403),
        ({"host": None}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9000"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"authorization": None}, 401),
        ({"authorization": "Bearer"}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": f"Bearer {TOKEN}\xe9"}, 401),
    ],
)
async def test_host_origin_and_token_are_asked_of_each_request(
    changes: dict[str, str | None], status: int
) -> None:
    headers = {**GOOD, **changes}
    assert await ask([(k, v) for k, v in headers.items() if v is not None]) == status


@pytest.mark.parametrize("name", ["host", "origin", "authorization"])
async def test_what_comes_twice_is_refused(name: str) -> None:
    headers = [*GOOD.items(), ("origin", "http://127.0.0.1:8000")]
    twice = next(item for item in headers if item[0] == name)
    assert await ask([*headers, twice]) in (401, 403)
