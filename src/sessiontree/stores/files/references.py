"""Find the blobs that files refer to, by searching the bytes of files of any kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from sessiontree.errors import PersistenceError
from sessiontree.profiles import Profile
from sessiontree.storage.regular import open_for_reading
from sessiontree.stores.files.folders import files_with_references

_REF = re.compile(rb"blob:sha256:([0-9a-f]{64})")
_REF_BYTES = 12 + 64
_CHUNK = 1 << 20


def find_references(
    profile: Profile,
    folders: Iterable[str] = (),
    on_progress: Callable[[int, int], object] | None = None,
) -> set[str]:
    """Return the hashes of all blobs that any file names. Raises PersistenceError.

    ``on_progress`` hears of files read, and their number.
    """
    named: set[str] = set()
    files = list(files_with_references(profile, folders))
    for done, path in enumerate(files, 1):
        named |= references_in(path)
        if on_progress is not None:
            on_progress(done, len(files))
    return named


def references_in(path: str) -> set[str]:
    """Return the blob hashes that a file of any kind names. Raises PersistenceError."""
    found: set[str] = set()
    rest = b""
    try:
        with open_for_reading(path) as file:
            while chunk := file.read(_CHUNK):
                window = rest + chunk
                if b"blob:sha256:" in window:
                    found.update(digest.decode() for digest in _REF.findall(window))
                rest = window[-(_REF_BYTES - 1) :]
    except FileNotFoundError:
        pass
    except OSError as error:
        raise PersistenceError.from_os_error(path, error) from error
    return found
