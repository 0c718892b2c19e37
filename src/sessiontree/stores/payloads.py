"""Read entries from any store's lines, and put externalised values back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from sessiontree.core import trimming
from sessiontree.model.entries import WireEntry
from sessiontree.model.lines import SessionWarning

GetBlob = Callable[[str], bytes | None]
"""Returns the content that a blob reference names; None if it is not available."""


class Payloads:
    """Gives entries their bytes, and their blobs.

    ``missing`` holds the references that could not be followed so far, ``edited`` the texts that
    were not what their blob was cut to, as (entry id, pointer).
    """

    def __init__(self, get_blob: GetBlob | None) -> None:
        self.missing: dict[str, None] = {}
        self.edited: dict[tuple[str, str], None] = {}
        self._get_blob = get_blob

    @abstractmethod
    def read_line(self, offset: int, length: int) -> bytes:
        """Read the bytes of one entry's JSON text, or of several with newlines between."""

    def restore(self, data: WireEntry, line: bytes) -> WireEntry:
        if self._get_blob is None or self.is_plain(line):
            return data

        def note_edited(edited: trimming.EditedText) -> None:
            self.edited.setdefault((str(data.get("id")), edited.pointer))

        return trimming.restore(data, self._get_blob, self._note_missing, note_edited)

    def _note_missing(self, missing: trimming.MissingBlob) -> None:
        self.missing.setdefault(missing.ref)

    def warn_of_missing(self) -> list[SessionWarning]:
        """A report of the references that could not be followed so far."""
        return [
            SessionWarning(f"{ref} is missing or damaged in the blob store") for ref in self.missing
        ]

    def warn_of_edited(self) -> list[SessionWarning]:
        """A report of the texts that have been found changed so far."""
        return [
            SessionWarning(
                f"entry {entry_id}: the text at {pointer} was changed after it was cut; "
                "it counts as it stands"
            )
            for entry_id, pointer in self.edited
        ]

    def take_notes(self, before: Payloads) -> None:
        """Take over the notes of the source that this one replaces."""
        self.missing, self.edited = before.missing, before.edited

    def is_plain(self, block: bytes) -> bool:
        return not trimming.may_need_restore(block)

    def fetch_blob(self, ref: str) -> bytes | None:
        found = self._get_blob(ref) if self._get_blob is not None else None
        if found is None:
            self.missing.setdefault(ref)
        return found
