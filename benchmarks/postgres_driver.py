"""Processes of the group ``postgres``: ``python -m benchmarks.postgres_driver OP '{…}'``.

``append``   N messages to one session, then read back; prints what ``postgres_rivals`` prints
``insert``   the same by a bare INSERT
``writers``  threads, each on a session of its own, for some seconds; prints appends per second
``proxy``    stands before a server and holds back what goes each way, until it is ended
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sessiontree import SessionManager

_WARMED = 5
_USAGE = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2, "cost": {}}
ANSWER: dict[str, Any] = {
    "role": "assistant",
    "content": [{"type": "text", "text": "yes"}],
    "timestamp": 0,
    "provider": "bench",
    "model": "bench",
    "api": "bench",
    "usage": _USAGE,
    "stopReason": "stop",
}


def message(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text, "timestamp": int(time.time() * 1000)}


def begin(url: Any, cwd: str = "/work/bench") -> SessionManager:
    """A session that has begun: a question and its answer."""
    session = SessionManager.create(cwd, storage=url)
    session.append_message(message("question"))
    session.append_message(ANSWER)
    return session


def append(url: str, count: int, text: str) -> dict[str, Any]:
    with begin(url) as session:
        for _ in range(_WARMED):
            session.append_message(message(text))
        started = time.perf_counter()
        for _ in range(count):
            session.append_message(message(text))
        ms = (time.perf_counter() - started) * 1e3
        started = time.perf_counter()
        with SessionManager.open(session.ref, storage=url) as again:
            found = len(again.build_session_context().messages)
    assert found == count + _WARMED + 2, found
    return _told(ms, load_ms=(time.perf_counter() - started) * 1e3)


def insert(url: str, count: int, text: str) -> dict[str, Any]:
    import psycopg

    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        sql = "INSERT INTO floor (sid, seq, id, line) VALUES (%s, %s, %s, %b)"
        sid, line = time.time_ns(), text.encode()
        for seq in range(_WARMED):
            connection.execute(sql, (sid, seq, f"{seq:08x}", line))
        started = time.perf_counter()
        for seq in range(_WARMED, _WARMED + count):
            connection.execute(sql, (sid, seq, f"{seq:08x}", line))
        ms = (time.perf_counter() - started) * 1e3
        started = time.perf_counter()
        rows = connection.execute("SELECT line FROM floor WHERE sid = %s ORDER BY seq", (sid,))
        assert len(rows.fetchall()) == count + _WARMED
    return _told(ms, load_ms=(time.perf_counter() - started) * 1e3)


def writers(url: str, count: int, seconds: float, text: str) -> dict[str, Any]:
    """Threads of one process, which begin together when they are told to on standard input."""
    sessions = [begin(url) for _ in range(count)]
    print("ready", flush=True)
    sys.stdin.readline()
    until = time.perf_counter() + seconds
    done: list[int] = []

    def write(session: SessionManager) -> None:
        appended = 0
        while time.perf_counter() < until:
            session.append_message(message(text))
            appended += 1
        done.append(appended)

    threads = [threading.Thread(target=write, args=(session,)) for session in sessions]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed_s = time.perf_counter() - started
    assert len(done) == count, "a writer failed"
    return {"per_s": sum(done) / elapsed_s}


def proxy(port: int, delay_s: float) -> dict[str, Any]:
    from tests.postgres.proxy import Proxy

    made = Proxy(port)
    made.delay_s = delay_s
    print(made.port, flush=True)
    sys.stdin.read()  # until whoever started this is gone
    return {}


def _told(ms: float, **info: Any) -> dict[str, Any]:
    peak = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
    return {"ms": ms, "hwm_kb": int(peak), "info": info}


OPS: dict[str, Callable[..., dict[str, Any]]] = {
    "append": append,
    "insert": insert,
    "writers": writers,
    "proxy": proxy,
}


def main() -> None:
    op, given = sys.argv[1:3]
    print(json.dumps(OPS[op](**json.loads(given))))


if __name__ == "__main__":
    main()
