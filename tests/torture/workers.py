"""Child processes that work on a session until somebody kills them.

A child is forked, so that it costs a millisecond and thousands can be killed. What it has been
told is done (an ``append`` that returned) it writes to a pipe at once: that is what must be found
afterwards.
"""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from sessiontree import SessionManager

Acknowledge = Callable[[str, Any], None]
Work = Callable[[random.Random, Acknowledge], None]


@dataclass(slots=True)
class Child:
    pid: int
    pipe: int
    received: bytearray = field(default_factory=bytearray)

    def kill(self) -> list[tuple[str, Any]]:
        """End the child at once; what it had been told is done."""
        os.kill(self.pid, signal.SIGKILL)
        return self.collect()

    def wait_for_word(self) -> None:
        """Return as soon as the child has acknowledged something."""
        self.received += os.read(self.pipe, 1 << 16)

    def collect(self) -> list[tuple[str, Any]]:
        """Wait for the end of the child; what it had been told is done."""
        received = self.received
        while chunk := os.read(self.pipe, 1 << 16):
            received += chunk
        os.close(self.pipe)
        _, status = os.waitpid(self.pid, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "a worker failed, see stderr"
        lines = bytes(received).split(b"\n")[:-1]  # a torn last line was not acknowledged
        return [tuple(json.loads(line)) for line in lines]


def start(work: Work, seed: int) -> Child:
    """Fork a child that does ``work``."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    code = 1
    try:
        os.close(reading)

        def acknowledge(key: str, value: Any) -> None:
            os.write(writing, json.dumps([key, value]).encode() + b"\n")

        work(random.Random(seed), acknowledge)
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        sys.stderr.flush()
        os._exit(code)


def collect(children: Iterable[Child]) -> list[list[tuple[str, Any]]]:
    """Wait for all of them at once, so that none waits on a full pipe; what each had been told."""
    with ThreadPoolExecutor(max_workers=32) as pool:
        return list(pool.map(Child.collect, children))


def pause(rng: random.Random) -> None:
    """Between nothing and a few dozen milliseconds, mostly short."""
    time.sleep(rng.expovariate(1 / 0.012))


def message(rng: random.Random) -> dict[str, Any]:
    roll = rng.random()
    if roll < 0.15:
        data = base64.b64encode(rng.randbytes(2_000)).decode()
        block = {"type": "image", "data": data, "mimeType": "image/png"}
        return {"role": "user", "content": [block], "timestamp": 1}
    role = "assistant" if roll < 0.6 else "user"
    text = "".join(rng.choice("abc é漢\n") for _ in range(rng.choice([5, 300, 9_000])))
    return {
        "role": role,
        "content": [{"type": "text", "text": text}],
        "provider": "p",
        "model": "m",
        "timestamp": 2,
    }


def work_on(session: SessionManager, rng: random.Random, acknowledge: Acknowledge) -> None:
    """Append, rename, rewrite, branch, compact, for ever."""
    while True:
        roll = rng.random()
        entries = session.get_entries()
        if roll < 0.8 or not entries:
            made = message(rng)
            acknowledge(session.append_message(made), made)
        elif roll < 0.84:
            session.set_session_name(f"name {rng.random()}")
        elif roll < 0.88:
            session.rewrite_entries()
        elif roll < 0.94:
            session.branch(rng.choice(entries).id)
        elif roll < 0.97:
            session.append_compaction("summary", rng.choice(entries).id, 1)
        else:
            session.flush()
