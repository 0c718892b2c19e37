"""Steps from which the rules of the storage contract are built. Imports no pytest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from sessiontree.storage.base import SessionStorage

EVERY_BYTE = bytes(range(256))


class PathObject(os.PathLike[str]):
    """A path that is not a string, and equal to none."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return self._path


def fill(storage: SessionStorage, folder: str, **files: bytes) -> None:
    """A folder with these files in it."""
    storage.ensure_dir(folder)
    for name, data in files.items():
        storage.write_atomic(f"{folder}/{name}", data)


@contextmanager
def raises(kind: type[BaseException]) -> Iterator[None]:
    """AssertionError unless what is inside raises this."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
