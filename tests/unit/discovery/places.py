"""Session files at known places with known times, for the tests of discovery."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from tests.samples import Wire, assistant, header, message, user, write

_numbers = itertools.count(1)


def session_name(session_id: str, timestamp: str = "2026-02-16T10-20-30-000Z") -> str:
    return f"{timestamp}_{session_id}.jsonl"


def put(
    folder: Path,
    *entries: Wire | bytes,
    session_id: str | None = None,
    name: str | None = None,
    mtime: float | None = None,
    **fields: object,
) -> Path:
    """A session file with this header and these entries, last written at ``mtime``."""
    chosen = session_id or f"{next(_numbers):016x}"
    file = folder / (name or session_name(chosen))
    write(file, header(id=chosen, **fields), *entries)
    if mtime is not None:
        os.utime(file, (mtime, mtime))
    return file


def talk(*texts: str, start: str = "a") -> list[Wire]:
    """A conversation: user and model in turn, ids as agents make them."""
    made: list[Wire] = []
    parent: str | None = None
    for number, text in enumerate(texts):
        entry_id = f"{start}{number:07x}"
        content = user(text) if number % 2 == 0 else assistant(text)
        made.append(message(entry_id, parent, content))
        parent = entry_id
    return made
