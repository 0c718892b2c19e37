"""The socket that servers listen on."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sessiontree.serving import listener
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


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server that answers ``yes`` after half a second, and waits no longer for a question."""
    monkeypatch.setattr(listener, "REQUEST_S", 0.3)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await asyncio.sleep(0.5)
            length = [(b"content-length", b"3")]
            await send({"type": "http.response.start", "status": 200, "headers": length})
            await send({"type": "http.response.body", "body": b"yes"})

    import uvicorn

    made: list[uvicorn.Server] = []
    run = uvicorn.Server.run

    def run_noted(self: uvicorn.Server, sockets: list[socket.socket]) -> None:
        made.append(self)
        run(self, sockets)

    monkeypatch.setattr(uvicorn.Server, "run", run_noted)
    listening = listen("127.0.0.1", 0)
    thread = threading.Thread(target=listener.serve, args=(app, listening))
    thread.start()
    yield listening.getsockname()[1]
    made[0].should_exit = True
    thread.join(10)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: "])
def test_who_never_asks_is_not_waited_for(port: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.sendall(sent)
        assert client.recv(100) == b""


def test_who_asks_is_answered_however_long_that_takes_and_may_ask_again(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        for _ in range(2):
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            answer = b""
            while not answer.endswith(b"yes"):
                answer += client.recv(1000)
        client.sendall(b"GET / HTTP/1.1\r\n")
        assert client.recv(100) == b""
