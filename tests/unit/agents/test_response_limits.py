"""A response without end is cut off before it fills the memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

import pytest

from sessiontree.agents.clients import make_client
from sessiontree.agents.response_limits import (
    ResponseTooLargeError,
    count_bytes,
    limit_responses,
)
from sessiontree.runtime.models import Model


async def _pieces(items: Iterable[bytes], taken: list[bytes]) -> AsyncGenerator[bytes]:
    for item in items:
        taken.append(item)
        yield item


async def _pass(*items: bytes, max_event: int = 10, max_response: int = 100) -> bytes:
    counted = count_bytes(_pieces(items, []), max_event=max_event, max_response=max_response)
    return b"".join([piece async for piece in counted])


@pytest.mark.parametrize(
    "items",
    [
        [b"data: 1\n\n"] * 11,
        [b"data: 1\r\n", b"\r\n"] * 9,
        [b"data: 1\n", b"\n"] * 11,
        [b"d: 1\n\nd: 2\n\n"] * 8,
        [b"1234567890"],
    ],
)
async def test_events_within_the_limit_pass_as_they_are(items: list[bytes]) -> None:
    assert await _pass(*items) == b"".join(items)


@pytest.mark.parametrize(
    "items",
    [
        [b"12345678901"],
        [b"d: 1\n\n", b"123456", b"123456"],
        [b"d: 1\n", b"d: 2\n", b"d: 3\n"],
        [b"d: 1\n\n12345678901"],
    ],
)
async def test_one_event_that_is_too_large_is_an_error(items: list[bytes]) -> None:
    with pytest.raises(ResponseTooLargeError, match="in one event"):
        await _pass(*items)


async def test_an_answer_that_never_ends_is_an_error_as_soon_as_it_is_too_large() -> None:
    taken: list[bytes] = []
    endless = (b"data: %d\n\n" % number for number in range(10**9))
    counted = count_bytes(_pieces(endless, taken), max_response=1000)
    with pytest.raises(ResponseTooLargeError, match="in one answer"):
        async for _ in counted:
            pass
    assert 1000 < sum(map(len, taken)) < 1020


@pytest.mark.parametrize(
    ("ref", "environ"),
    [
        ("openai/gpt-5", {"OPENAI_API_KEY": "k"}),
        ("anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_KEY": "k"}),
        ("google/gemini-2.5-pro", {"GOOGLE_API_KEY": "k"}),
        ("gateway/some", {"GATEWAY_BASE_URL": "http://127.0.0.1:9/v1", "GATEWAY_API_KEY": "k"}),
    ],
)
async def test_the_clients_of_all_usual_providers_are_limited(
    ref: str, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    provider, _, model_id = ref.partition("/")
    client = make_client(Model(provider, model_id), environ)
    assert limit_responses(client)
