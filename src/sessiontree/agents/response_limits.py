"""Limits on what a provider may send: one event, and one whole response.

A server that never ends a line, or never ends at all, would fill the memory before anything of the
answer can be shown. `limit_responses` counts what arrives, unpacked, and ends the call with an
error. It works on the HTTP client that most of pydantic-ai's providers make for themselves; those
with a transport of their own (Bedrock, xAI) have their own limits.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any

from pydantic_ai.models import Model as ClientModel

from sessiontree.agents.failures import ModelCallError

MAX_EVENT_BYTES = 32 << 20
"""One event of a stream; the largest real ones hold an image."""
MAX_RESPONSE_BYTES = 256 << 20
"""All events of one answer, or the body of an error."""
_EVENT_END = re.compile(rb"\n\r?\n|\r\r")


class ResponseTooLargeError(ModelCallError):
    """The provider sent more than an answer can be."""


def limit_responses(client: ClientModel) -> bool:
    """Let every response to this client be counted; False if its provider has no HTTP client."""
    provider: Any = client.provider
    own = getattr(provider, "_own_http_client", None)
    make = getattr(provider, "_http_client_factory", None)
    if not hasattr(own, "event_hooks") or make is None:
        return False
    _add_hook(own)
    # The provider makes a new client for each run, of which this is the only notice.
    provider._http_client_factory = _hooked(make)  # noqa: SLF001 - there is no public way
    return True


def _hooked(make: Callable[[], Any]) -> Callable[[], Any]:
    def make_limited() -> Any:
        http_client = make()
        _add_hook(http_client)
        return http_client

    return make_limited


def _add_hook(http_client: Any) -> None:
    hooks = http_client.event_hooks
    http_client.event_hooks = {**hooks, "response": [*hooks.get("response", []), _count_response]}


async def _count_response(response: Any) -> None:
    read = response.aiter_bytes

    def read_counted(chunk_size: int | None = None) -> AsyncGenerator[bytes]:
        return count_bytes(read(chunk_size))

    response.aiter_bytes = read_counted


async def count_bytes(
    pieces: AsyncGenerator[bytes],
    *,
    max_event: int = MAX_EVENT_BYTES,
    max_response: int = MAX_RESPONSE_BYTES,
) -> AsyncGenerator[bytes]:
    """The same pieces, until there are too many. Raises ResponseTooLargeError."""
    total = event = 0
    before = b""
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            total += len(piece)
            # An empty line ends an event; it may lie across two pieces.
            ends = [found.end() for found in _EVENT_END.finditer(before + piece)]
            event = len(before) + len(piece) - ends[-1] if ends else event + len(piece)
            before = piece[-3:]
            if event > max_event:
                raise ResponseTooLargeError(_too_large("one event", max_event))
            if total > max_response:
                raise ResponseTooLargeError(_too_large("one answer", max_response))
            yield piece


def _too_large(what: str, limit: int) -> str:
    return f"The provider sent more than {limit >> 20} MB in {what}; the call was ended"
