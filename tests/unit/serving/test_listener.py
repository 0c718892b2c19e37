"""The socket that servers listen on."""

from __future__ import annotations

import asyncio
import socket

import pytest

from sessiontree.serving.listener import PortError, listen


async def test_answers_do_not_wait_for_acknowledgements() -> None:
    """With Nagle's algorithm each answer of two packets would take 40 ms longer."""
    is_undelayed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        is_undelayed.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listening = listen("127.0.0.1", 0)
    async with await asyncio.start_server(serve, sock=listening):
        _, writer = await asyncio.open_connection(*listening.getsockname())
        assert await asyncio.wait_for(is_undelayed, 10)
        writer.close()


def test_a_port_that_is_taken_is_an_error_in_words() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortError, match=rf"Can't listen on 127\.0\.0\.1:{port}: Address"):
            listen("127.0.0.1", port)
