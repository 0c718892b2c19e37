"""Put kept sessions back where their agents find them; never over anything that differs."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass, field

from sessiontree.discovery.kept import kept_dir
from sessiontree.discovery.kept.index import open_index
from sessiontree.discovery.kept.manifests import Manifest
from sessiontree.discovery.kept.reading import KeptReader, find_chunks, find_version
from sessiontree.errors import PersistenceError, SessionNotFoundError, SessionTreeError
from sessiontree.storage.atomic import write_all
from sessiontree.storage.base import read_chunks
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.packs import PackFolder
from sessiontree.storage.regular import open_for_reading

_COMPARED_BYTES = 1 << 20
_DATABASES = (".db", ".sqlite", ".sqlite3")


class RestoreRefusedError(SessionTreeError):
    """Another file is where the session would go, or the place can't be written."""


@dataclass(slots=True)
class Restored:
    """The files that a restore wrote, and those that were there already."""

    written: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)


def restore_session(path: str, *, version: int = 0) -> Restored:
    """Put a kept session, its parts and its files back.

    First every place is checked; only then is anything written. A file that is restored counts as
    just changed, so that its agent does not delete it at once. Raises SessionNotFoundError,
    RestoreRefusedError, PersistenceError.
    """
    manifests = _find(path, version)
    _refuse_database(path)
    done = Restored()
    try:
        for manifest in manifests:
            (done.present if _is_there(manifest) else done.written).append(manifest.name)
        for manifest in manifests:
            if manifest.name in done.written:
                _write(manifest)
    except OSError as error:
        raise PersistenceError.from_os_error(path, error) from error
    return done


def _find(path: str, version: int) -> list[Manifest]:
    with open_index() as index:
        found = find_version(index, path, version) if index is not None else None
        if index is None or found is None:
            raise SessionNotFoundError(path, f"No kept copy of {path}.")
        return [found, *index.belongings(path)]


def _refuse_database(path: str) -> None:
    folder = os.path.dirname(path)
    if os.path.isfile(folder) or folder.endswith(_DATABASES):
        raise RestoreRefusedError(
            f"{os.path.basename(folder)} is a database of its agent, which nothing is written to; "
            "show, export and import read the copy"
        )


def _is_there(manifest: Manifest) -> bool:
    """Whether the very same file is there. Raises RestoreRefusedError for another one."""
    if not os.path.lexists(manifest.name):
        return False
    try:
        with open_for_reading(manifest.name) as file, contextlib.closing(_open(manifest)) as kept:
            at = 0
            for chunk in read_chunks(kept, 0, manifest.size, _COMPARED_BYTES):
                if file.read(len(chunk)) != chunk:
                    break
                at += len(chunk)
            if at == manifest.size and not file.read(1):
                return True
    except IsADirectoryError:
        pass
    raise RestoreRefusedError(
        f"{manifest.name} exists and differs from the copy; move it away first"
    )


def _open(manifest: Manifest) -> KeptReader:
    return KeptReader(manifest, find_chunks(manifest), PackFolder(kept_dir()))


def _write(manifest: Manifest) -> None:
    """Write a file under a name that nothing has."""
    folder = os.path.dirname(manifest.name)
    FileSessionStorage().ensure_dir(folder)
    number, temp = tempfile.mkstemp(prefix=".restored-", dir=folder)
    try:
        try:
            with contextlib.closing(_open(manifest)) as kept:
                for chunk in read_chunks(kept, 0, manifest.size, _COMPARED_BYTES):
                    write_all(number, chunk)
            os.fsync(number)
        finally:
            os.close(number)
        _publish(temp, manifest.name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temp)
    FileSessionStorage().sync_dir(folder)


def _publish(temp: str, path: str) -> None:
    """Give the file its name, unless something has it by now."""
    try:
        os.link(temp, path)
    except FileExistsError:
        raise RestoreRefusedError(f"{path} exists by now; nothing was written to it") from None
    except OSError:  # a file system without hard links
        if os.path.lexists(path):
            raise RestoreRefusedError(f"{path} exists by now; nothing was written to it") from None
        os.rename(temp, path)
