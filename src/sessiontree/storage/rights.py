"""Set modes and times of files, as far as the file system allows.

Some file systems (vfat, some shares and mounts) have no modes, or reserve them to the owner. The
content matters more: a refusal is recorded for a warning and the work continues. A file whose mode
was refused keeps the mode it was made with, which is private.
"""

from __future__ import annotations

import errno
import os

_REFUSALS = frozenset(
    code
    for name in ("EPERM", "EACCES", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL")
    if (code := getattr(errno, name, None)) is not None
)
_MOST_NOTES = 100
_notes: dict[str, str] = {}


def is_refusal(error: OSError) -> bool:
    """Whether the error means that the system does not allow it, rather than a failure."""
    return error.errno in _REFUSALS


def give_rights(file: str, mode: int, name: str) -> None:
    """Set a file's mode; record a refusal under the file's final name."""
    try:
        os.chmod(file, mode)
    except OSError as error:
        if not is_refusal(error):
            raise
        if len(_notes) < _MOST_NOTES:
            _notes[name] = error.strerror or str(error)


def take_refusal(name: str) -> str | None:
    """Return and clear the recorded refusal for this file name, if any."""
    return _notes.pop(os.path.realpath(name), None) or _notes.pop(name, None)


def copy_stat(source: str, target: str) -> None:
    """Give a copy the mode and times of its original, as far as possible."""
    import shutil  # only here: it is large, and commands start quicker without

    try:
        shutil.copystat(source, target, follow_symlinks=False)
    except OSError as error:
        if not is_refusal(error):
            raise
