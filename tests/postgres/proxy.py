"""A TCP proxy before a server, which cuts, delays and swallows what a test wants it to."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

_MOST_BYTES = 1 << 16


class Proxy:
    """Forwards connections to a port. ``swallow`` and ``cut`` count the answers or calls to go."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.delay_s = 0.0
        self._lock = threading.Lock()
        self._swallow = 0
        self._cut = 0
        self.swallowed = 0
        self.calls = 0
        """How many calls came since ``fail_call``: pipelines count once."""
        self._failing = -1
        self._is_answer_lost = False
        self._doomed: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow_answers(self, count: int) -> None:
        """The next so many answers get lost, and their connections with them."""
        with self._lock:
            self._swallow += count

    def cut_calls(self, count: int) -> None:
        """The next so many calls get lost before the server hears of them."""
        with self._lock:
            self._cut += count

    def fail_call(self, number: int, *, is_answer_lost: bool = False) -> None:
        """Lose the call of this number, counted from here, or the answer to it; -1 for none."""
        with self._lock:
            self.calls = 0
            self._failing = number
            self._is_answer_lost = is_answer_lost

    def cut_all(self) -> None:
        """End every connection there is."""
        for each in self._open:
            _close(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open += [client, server]
                for source, target, is_answer in ((client, server, False), (server, client, True)):
                    threading.Thread(
                        target=self._forward, args=(source, target, is_answer), daemon=True
                    ).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        is_first = True
        client = None if is_answer else _Client()
        with contextlib.suppress(OSError):
            while data := source.recv(_MOST_BYTES):
                if client is not None:
                    data = client.take(data)
                if source in self._doomed or self._is_lost(client, target):
                    break
                # the greeting of a connection is let pass: what is to fail are statements
                if not is_first and self._shall_fail(is_answer, data):
                    break
                is_first = False
                if self.delay_s:
                    time.sleep(self.delay_s / 2)
                target.sendall(data)
        _close(source)
        _close(target)

    def _shall_fail(self, is_answer: bool, data: bytes) -> bool:
        with self._lock:
            if is_answer and self._swallow and _is_of_append(data):
                self._swallow -= 1
                self.swallowed += 1
                return True
            if not is_answer and self._cut and b"st_append" in data:
                self._cut -= 1
                return True
        return False

    def _is_lost(self, client: _Client | None, server: socket.socket) -> bool:
        """Whether what a client just ended is the call that is to be lost, or lacks its answer."""
        if client is None or not client.ended:
            return False
        with self._lock:
            first, self.calls = self.calls, self.calls + client.ended
            client.ended = 0
            if not first <= self._failing < self.calls:
                return False
            if self._is_answer_lost:
                self._doomed.add(server)
            return not self._is_answer_lost

    def close(self) -> None:
        """Stop listening, and end every connection."""
        _close(self._listener)
        self.cut_all()


class _Client:
    """What a client sends, kept together until a call is whole: a query, or all before a Sync."""

    def __init__(self) -> None:
        self._left = b""
        self._has_begun = False
        self.ended = 0

    def take(self, data: bytes) -> bytes:
        """Give back as much as may go on to the server."""
        data = self._left + data
        at = whole = 0
        while at + 5 <= len(data):
            kind = data[at : at + 1] if self._has_begun or data[at] else b""
            size = int.from_bytes(data[at + len(kind) : at + len(kind) + 4]) + len(kind)
            if at + size > len(data):
                break
            at += size
            self._has_begun = bool(kind)
            self.ended += kind in (b"Q", b"S")
            if kind in (b"", b"Q", b"S", b"H", b"X", b"p"):
                whole = at
        self._left = data[whole:]
        return data[:whole]


def _is_of_append(data: bytes) -> bool:
    """Whether an answer is that of an append: its verdict stands in it."""
    return b"verdict" in data


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextlib.contextmanager
def proxied(url: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before the server of a URL, and the URL that leads through it."""
    parts = urlsplit(url)
    assert parts.port is not None
    proxy = Proxy(parts.port)
    try:
        host = parts.netloc.rpartition(":")[0]
        yield proxy, urlunsplit(parts._replace(netloc=f"{host}:{proxy.port}"))
    finally:
        proxy.close()
