"""``BlobStore``: store large values by the hash of their content.

A blob is written (temporary file, fsync, rename) before the line that names it, so a crash leaves
at most an unused blob. Each read verifies the hash. A name is always 64 hex digits, so a reference
can't lead out of the folder.
"""

from __future__ import annotations

import os
import re

from sessiontree.errors import PersistenceError
from sessiontree.model.ids import sha256_hex
from sessiontree.storage.base import SessionStorage, StrPath

REF_PREFIX = "blob:sha256:"
USERS_FILE = "session-dirs"
"""In the agent folder: folders elsewhere whose sessions refer to its blobs, one a line."""
_REF = re.compile(r"blob:sha256:([0-9a-f]{64})")


def parse_ref(value: object) -> str | None:
    """Return the hash in a blob reference; None if the value is not exactly one."""
    if not isinstance(value, str):
        return None
    match = _REF.fullmatch(value)
    return match.group(1) if match else None


class BlobStore:
    """The blobs of one agent folder; ``fallbacks`` are other folders to read from.

    ``user`` is the folder of the session that blobs are stored for. If it is outside the agent's
    own sessions, ``put`` records it beside the store, so that garbage collection searches it for
    references too.
    """

    def __init__(
        self,
        folder: StrPath,
        storage: SessionStorage,
        fallbacks: tuple[StrPath, ...] = (),
        user: StrPath | None = None,
    ) -> None:
        self.folder = os.fspath(folder)
        self._storage = storage
        self._fallbacks = tuple(os.fspath(fallback) for fallback in fallbacks)
        self._user = os.fspath(user) if user is not None else None

    @property
    def has_fallbacks(self) -> bool:
        return bool(self._fallbacks)

    def put(self, data: bytes) -> str:
        """Store ``data`` and return its reference; an existing blob is not rewritten.

        An existing blob is touched: garbage collection spares young blobs, and the line that names
        this one is not written yet. Raises PersistenceError.
        """
        digest = sha256_hex(data)
        path = os.path.join(self.folder, digest)
        try:
            self._note_user()
            if self._read(path, digest) is None or not self._touch(path):
                self._storage.ensure_dir(self.folder)
                self._storage.write_atomic(path, data)
        except OSError as error:
            raise PersistenceError.from_os_error(self.folder, error) from error
        return REF_PREFIX + digest

    def _note_user(self) -> None:
        user, self._user = self._user, None
        agent_dir = os.path.dirname(self.folder)
        own = os.path.join(agent_dir, "sessions") + os.sep
        if user is None or "\n" in user or (user + os.sep).startswith(own):
            return
        registry = os.path.join(agent_dir, USERS_FILE)
        line = os.fsencode(user) + b"\n"
        try:
            if line in self._storage.read(registry).splitlines(keepends=True):
                return
        except FileNotFoundError:
            self._storage.ensure_dir(agent_dir)
        writer = self._storage.open_writer(registry)
        try:
            writer.write_line(line)
        finally:
            writer.close()

    def _touch(self, path: str) -> bool:
        """Touch a blob; False if another process has just removed it."""
        try:
            self._storage.touch(path)
        except FileNotFoundError:
            return False
        except OSError:
            pass  # a blob we may read but not touch is still there
        return True

    def get(self, ref: str) -> bytes | None:
        """Read the content a reference names; None if missing, damaged, or not a reference."""
        digest = parse_ref(ref)
        if digest is None:
            return None
        for folder in (self.folder, *self._fallbacks):
            data = self._read(os.path.join(folder, digest), digest)
            if data is not None:
                return data
        return None

    def _read(self, path: str, digest: str) -> bytes | None:
        try:
            data = self._storage.read(path)
        except OSError:
            return None
        return data if sha256_hex(data) == digest else None
