"""Listen on this machine and serve until the user stops it."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

from sessiontree.errors import SessionTreeError

REQUEST_S = 15.0
"""Seconds that a client may take to send a request; otherwise it could occupy all connections."""


class PortError(SessionTreeError):
    """A server can't listen there."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. Raises PortError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns Nagle's delay off only where it sees that it is TCP: 40 ms an answer otherwise.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(128)
    except OSError as error:
        made.close()
        reason = error.strerror or os.strerror(error.errno or 0) or str(error)
        raise PortError(f"Can't listen on {host}:{port}: {reason}") from None
    return made


def serve(app: Any, listening: socket.socket) -> None:
    """Answer requests until Ctrl+C or SIGTERM. Nothing is logged: addresses hold tokens."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    config.load()
    config.http_protocol_class = type("HurriedProtocol", (_Hurry, config.http_protocol_class), {})
    uvicorn.Server(config).run(sockets=[listening])


class _Hurry:
    """Closes a connection that is open for long without a whole request; uvicorn waits forever.

    Goes before uvicorn's protocol, whose ``cycle`` is the request that is being answered.
    """

    cycle: Any = None
    transport: Any = None
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)  # type: ignore[misc]
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)  # type: ignore[misc]
        self._wait()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)  # type: ignore[misc]
        self._stop()

    def _wait(self) -> None:
        """Wait for a request from now on, unless one is being answered or waited for."""
        if self._is_answering():
            self._stop()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(REQUEST_S, self._close)

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _close(self) -> None:
        self._timer = None
        if not self._is_answering():
            self.transport.close()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
