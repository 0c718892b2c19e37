"""Listen on this machine and serve until the user stops it."""

from __future__ import annotations

import os
import socket
from typing import Any

from sessiontree.errors import SessionTreeError


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
    uvicorn.Server(config).run(sockets=[listening])
