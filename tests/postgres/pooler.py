"""pgbouncer before a server, in transaction mode: each transaction may be another connection's."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.postgres_server import Server, as_user, free_port, tool

CONNECTIONS = 3
"""How many it keeps to the server, for however many clients."""

_SETTINGS = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
logfile = {folder}/log
pidfile = {folder}/pid
"""


@contextlib.contextmanager
def pooled(server: Server) -> Iterator[Server]:
    """The server as clients of a pgbouncer see it."""
    folder = Path(tempfile.mkdtemp(prefix="sessiontree-pgbouncer-"))
    port = free_port()
    settings = _SETTINGS.format(server=server.port, port=port, folder=folder, size=CONNECTIONS)
    (folder / "ini").write_text(settings)
    (folder / "users").write_text('"postgres" ""\n')
    if os.getuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
    process = subprocess.Popen(
        as_user([tool("pgbouncer"), "-q", str(folder / "ini")]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
    )
    try:
        _wait_for(port, process)
        yield Server(folder, port)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        assert process.poll() is None, "pgbouncer ended at once"
        assert time.monotonic() < deadline
        time.sleep(0.02)
