"""A session's log without secrets: the same entries, each written anew.

Long texts and images are put back before secrets are looked for, and stored again afterwards, so
that none hides in a blob. What could not be read of the file is left out: it cannot be searched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from sessiontree.core.trimming import trim
from sessiontree.export.redact import Redactor
from sessiontree.model import codec
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header
from sessiontree.profiles import Dialect
from sessiontree.stores.files.document import SessionDocument


class RedactedLog:
    """What a redacted copy of a document consists of; ``document`` was read with its blobs."""

    def __init__(self, document: SessionDocument, dialect: Dialect, redactor: Redactor) -> None:
        self._document = document
        self._dialect = dialect
        self._redactor = redactor
        self._with_blobs: list[Entry] = []
        self.header: Header = redactor.redact_value(dict(document.header))

    def lines(self) -> Iterator[bytes]:
        """The file, line by line."""
        slot = self._document.slot
        if slot is not None:
            title = self._redactor.redact_text(slot.title)
            yield msgspec.structs.replace(slot, title=title, line=b"").encode()
        yield codec.encode(self.header) + b"\n"
        for entry in self._document.tree.entries:
            trimmed = trim(self._redactor.redact_value(entry.decode()), self._dialect)
            if trimmed.blobs:
                self._with_blobs.append(entry)
            yield trimmed.line + b"\n"

    def blobs(self) -> Iterator[tuple[str, bytes]]:
        """Hash and content of what the lines name, once they are written.

        Made a second time: all of them together may not fit into memory.
        """
        again = Redactor()
        seen: set[str] = set()
        for entry in self._with_blobs:
            for blob in trim(again.redact_value(entry.decode()), self._dialect).blobs:
                digest = hashlib.sha256(blob).hexdigest()
                if digest not in seen:
                    seen.add(digest)
                    yield digest, blob

    def redact_path(self, path: str) -> str:
        """The path of a file of the session within the bundle."""
        return self._redactor.redact_path(path)

    def redact_file(self, data: bytes) -> bytes | None:
        """A file that belongs to the session, if it is text; None if it can't be searched."""
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return None
        return self._redactor.redact_text(text).encode("utf-8")
