"""A PostgreSQL server of the tests' own, for one run of the tests: started once, shared, stopped.

The cluster lies in a folder below the system's temporary one. PostgreSQL refuses to run as root, so
there it runs as ``postgres``. All workers of a run share it; a watchdog stops it when the last of
them is gone, killed ones too. Without a server installed the tests fail and say what to install.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

_USER = "postgres"
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
_SETTINGS = (
    "max_connections=200",
    "shared_buffers='64MB'",
    "listen_addresses='127.0.0.1'",
    "logging_collector=off",
    "autovacuum_naptime='5min'",
    "max_wal_size='4GB'",
)
_IN_BACKGROUND = '"$0" "$1" "$2" </dev/null >/dev/null 2>&1 &'


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its folder, and where it listens."""

    folder: Path
    port: int

    def url(self, database: str = "postgres", user: str = _USER, password: str = "") -> str:
        """The URL of a database, over TCP."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/{database}"

    def execute(self, sql: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run a statement as the superuser."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description is not None else []

    def stop(self, how: str = "immediate") -> None:
        """Stop it: ``immediate`` is what a crash is."""
        run_as_user(
            [tool("pg_ctl"), "stop", "-D", str(self.folder / "data"), "-m", how, "-w"],
            check=False,
        )

    def start(self) -> None:
        """Start it again, and wait until it answers."""
        log = self.folder / "log"
        data = self.folder / "data"
        run_as_user([tool("pg_ctl"), "start", "-D", str(data), "-l", str(log), "-w", "-t", "60"])


def tool(name: str) -> str:
    """The path of a program of PostgreSQL's; the tests fail without it."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    path = found[-1] if found else shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if path is None:
        raise RuntimeError(f"the tests need {name}: apt-get install postgresql pgbouncer")
    return path


def run_as_user(command: list[str], *, check: bool = True) -> None:
    """Run a program as a user that is not root."""
    done = subprocess.run(
        as_user(command), capture_output=True, text=True, check=False, cwd=tempfile.gettempdir()
    )
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def as_user(command: list[str]) -> list[str]:
    """The command as a user that is not root runs it."""
    if os.getuid() != 0:
        return command
    return ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups", *command]


def free_port() -> int:
    """A TCP port that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def make_server(folder: Path, *, is_durable: bool = False) -> Server:
    """A new cluster, running."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    if os.getuid() == 0:
        user = pwd.getpwnam(_USER)
        os.chown(folder, user.pw_uid, user.pw_gid)
    data = folder / "data"
    run_as_user(
        [tool("initdb"), "-D", str(data), "-U", _USER, "-A", "trust", "-E", "UTF8", "--no-sync"]
    )
    server = Server(folder, free_port())
    lines = [
        *_SETTINGS,
        *(() if is_durable else _FAST),
        f"port={server.port}",
        f"unix_socket_directories='{folder}'",
    ]
    settings = data / "postgresql.conf"
    settings.write_text(settings.read_text() + "\n".join(lines) + "\n")
    server.start()
    return server


@contextlib.contextmanager
def own_server(*, is_durable: bool = False) -> Iterator[Server]:
    """A server that nobody shares, for tests that stop it."""
    folder = Path(tempfile.mkdtemp(prefix="sessiontree-pg-"))
    server = make_server(folder, is_durable=is_durable)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def shared_server(run_id: str) -> Server:
    """The server of this run of the tests, started by whoever needs it first."""
    folder = Path(tempfile.gettempdir()) / f"sessiontree-pg-run-{run_id}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (folder / f"user-{os.getpid()}").touch()
        noted = folder / "port"
        if noted.exists():
            return Server(folder, int(noted.read_text()))
        server = make_server(folder)
        from sessiontree.stores.postgres.schema import upgrade
        from sessiontree.stores.postgres.store import PostgresStore

        server.execute("CREATE DATABASE st_template")
        store = PostgresStore(server.url("st_template"))
        upgrade(store.database, is_init=True)
        store.close()
        # by a shell that ends at once: nobody here waits for the watchdog
        subprocess.run(
            ["sh", "-c", _IN_BACKGROUND, sys.executable, __file__, str(folder)],
            start_new_session=True,
            check=True,
        )
        noted.write_text(str(server.port))
        return server


def _watch(folder: Path) -> None:
    """Stop the server of a folder once none of its users is alive."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while any(_is_alive(int(each.name[5:])) for each in folder.glob("user-*")):
        time.sleep(0.5)
    Server(folder, 0).stop()
    shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
