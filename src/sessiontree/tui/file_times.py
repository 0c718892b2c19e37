"""The time of a session's file, kept over changes that are no work on the session.

Listings and ``--continue`` go by it: whoever only names a session must not make it the newest one.
Caches of listings look at more than this time, so that they see the change all the same.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


def read_time(path: str | None) -> int | None:
    """When the file was last worked on, in nanoseconds; None if there is none yet."""
    if path is None:
        return None
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def put_time(path: str | None, time_ns: int | None) -> None:
    """Say that it was last worked on then; a file that refuses keeps the time of the change."""
    if path is not None and time_ns is not None:
        with contextlib.suppress(OSError):
            os.utime(path, ns=(time_ns, time_ns))


@contextlib.contextmanager
def kept_time(path: str) -> Iterator[None]:
    """Whatever succeeds inside leaves the file's time as it was."""
    before = read_time(path)
    yield
    put_time(path, before)
