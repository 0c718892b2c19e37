"""A server that speaks OpenAI's chat language, on loopback, and answers as a test tells it to."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

Answer = Callable[["Connection"], Awaitable[None]]


class Connection:
    """One request to the server, and the way back."""

    def __init__(
        self, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.body = body
        self._reader = reader
        self._writer = writer

    async def send_json(self, status: str, body: object, **headers: str) -> None:
        payload = json.dumps(body).encode()
        await self._head(
            status, "application/json", {**headers, "Content-Length": str(len(payload))}
        )
        self._writer.write(payload)
        await self._writer.drain()

    async def open_stream(self, status: str = "200 OK") -> None:
        await self._head(status, "text/event-stream", {"Transfer-Encoding": "chunked"})

    async def raw(self, data: bytes) -> None:
        """A part of a stream that need not be an event."""
        await self._data(data)

    async def chunk(self, delta: dict[str, Any], finish: str | None = None) -> None:
        await self._event(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "test-model",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            }
        )

    async def close_stream(self, usage: dict[str, Any] | None = None) -> None:
        if usage is not None:
            await self._event(
                {
                    "id": "chatcmpl-1",
                    "object": "chat.completion.chunk",
                    "created": 1,
                    "model": "test-model",
                    "choices": [],
                    "usage": usage,
                }
            )
        await self._data(b"data: [DONE]\n\n")
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def drop(self) -> None:
        """Cut the connection without a word."""
        self._writer.transport.abort()

    async def end_quietly(self) -> None:
        """End the stream as HTTP wants it, but without saying why the answer ends."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def until_client_leaves(self) -> None:
        async with asyncio.timeout(20):
            assert await self._reader.read() == b""

    async def _event(self, value: object) -> None:
        await self._data(f"data: {json.dumps(value)}\n\n".encode())

    async def _data(self, data: bytes) -> None:
        self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self._writer.drain()

    async def _head(self, status: str, kind: str, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await self._writer.drain()


class ChatServer:
    """Answers one request after the other with its script."""

    def __init__(self) -> None:
        self.script: list[Answer] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return server

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                body = json.loads(await reader.readexactly(int(length.group(1)) if length else 0))
                key = re.search(rb"authorization: Bearer (\S+)", head, re.IGNORECASE)
                self.keys.append(key.group(1).decode() if key else "")
                assert head.startswith(b"POST /v1/chat/completions ")
                self.requests.append(body)
                answer = self.script.pop(0) if self.script else says("(script at its end)")
                await answer(Connection(body, reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)


USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 100,
    "total_tokens": 1100,
    "prompt_tokens_details": {"cached_tokens": 400},
}


def says(*pieces: str, finish: str = "stop", thinks: tuple[str, ...] = ()) -> Answer:
    async def answer(connection: Connection) -> None:
        await connection.open_stream()
        for piece in thinks:
            await connection.chunk({"reasoning_content": piece})
        for piece in pieces:
            await connection.chunk({"role": "assistant", "content": piece})
        await connection.chunk({}, finish)
        await connection.close_stream(USAGE)

    return answer


def calls(*made: tuple[str, str, str]) -> Answer:
    """Tool calls (id, name, arguments as JSON), the arguments in two pieces."""

    async def answer(connection: Connection) -> None:
        await connection.open_stream()
        for index, (call_id, name, arguments) in enumerate(made):
            function = {"name": name, "arguments": arguments[:5]}
            call = {"index": index, "id": call_id, "type": "function", "function": function}
            await connection.chunk({"tool_calls": [call]})
        for index, (_, _, arguments) in enumerate(made):
            rest = {"index": index, "function": {"arguments": arguments[5:]}}
            await connection.chunk({"tool_calls": [rest]})
        await connection.chunk({}, "tool_calls")
        await connection.close_stream(USAGE)

    return answer


def fails(status: str, message: str, code: str | None = None, **headers: str) -> Answer:
    async def answer(connection: Connection) -> None:
        error = {"message": message, "type": "error", "code": code}
        await connection.send_json(status, {"error": error}, **headers)

    return answer


def breaks_off(*pieces: str, quietly: bool = False) -> Answer:
    async def answer(connection: Connection) -> None:
        await connection.open_stream()
        for piece in pieces:
            await connection.chunk({"content": piece})
        if quietly:
            await connection.end_quietly()
        else:
            await connection.drop()

    return answer
