"""Temporary files: each bears the id of its process, so that those of the dead can be swept.

What is written to one, and when it takes the place of another file, is not known here.
"""

from __future__ import annotations

import contextlib
import os

TEMP_SUFFIX = ".tmp"


def make_temp_path(path: str) -> str:
    """A new hidden name beside a file, in the form that ``sweep_temp_files`` knows."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{os.getpid()}-{os.urandom(4).hex()}{TEMP_SUFFIX}")


def sweep_temp_files(folder: str, name: str) -> None:
    """Remove the temporary files that dead processes left beside ``name``."""
    prefix = f".{name}."
    with contextlib.suppress(OSError), os.scandir(folder) as listing:
        for item in listing:
            if not (item.name.startswith(prefix) and item.name.endswith(TEMP_SUFFIX)):
                continue
            owner, _, _ = item.name[len(prefix) :].partition("-")
            if owner.isdigit() and not is_process_alive(int(owner)):
                with contextlib.suppress(OSError):
                    os.unlink(item.path)


def is_process_alive(pid: int) -> bool:
    """Whether a process of this id runs; True when that cannot be told."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
