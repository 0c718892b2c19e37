"""Rights and times of files, as far as the system lets us give them.

Not every file system has them (vfat, some shares and mounts), and some keep them to the owner. What
is written is what matters: a refusal is noted, so that it can be told, and the work goes on. A file
that is refused its rights keeps those it was made with: it is private.
"""

from __future__ import annotations

import errno
import os
import shutil

_REFUSALS = frozenset(
    code
    for name in ("EPERM", "EACCES", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL")
    if (code := getattr(errno, name, None)) is not None
)
_MOST_NOTES = 100
_notes: dict[str, str] = {}


def is_refusal(error: OSError) -> bool:
    """Whether the system does not let us, rather than failing."""
    return error.errno in _REFUSALS


def give_rights(file: str, mode: int, name: str) -> None:
    """Give a file its mode; a refusal is noted under the name that the file is going to have."""
    try:
        os.chmod(file, mode)
    except OSError as error:
        if not is_refusal(error):
            raise
        if len(_notes) < _MOST_NOTES:
            _notes[name] = error.strerror or str(error)


def take_refusal(name: str) -> str | None:
    """Why the file of this name was refused its rights, if it was; told once."""
    return _notes.pop(os.path.realpath(name), None) or _notes.pop(name, None)


def copy_stat(source: str, target: str) -> None:
    """Give a copy the rights and times of what it was made of, as far as it can have them."""
    try:
        shutil.copystat(source, target, follow_symlinks=False)
    except OSError as error:
        if not is_refusal(error):
            raise
