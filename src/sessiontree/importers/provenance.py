"""Where an imported session came from, what was imported, and the ids that follow from it.

Written into the header (``importedFrom``) and, for every import that brought something, into one
``custom`` entry. That entry also lists what the import wrote (the ledger), so that the next one can
tell an entry that has changed at its source from one that was changed here. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sessiontree.importers.records import get_text, spell_time
from sessiontree.model import codec
from sessiontree.model.entries import WireEntry
from sessiontree.model.ids import ENTRY_ID_LENGTH, new_session_id, new_uuid7
from sessiontree.profiles import Dialect

HEADER_KEY = "importedFrom"
ENTRY_TYPE = "sessiontree.import"
LEDGER_KEY = "entries"
TITLE_KEY = "title"
FILE_KEY = "file"

_HALF = ENTRY_ID_LENGTH


@dataclass(frozen=True, slots=True)
class Provenance:
    """One import: of which session, from which file with which content, and when."""

    agent: str
    session_id: str
    path: str
    content_hash: str
    imported_ms: int

    def to_wire(self) -> dict[str, Any]:
        """The object that stands in the header and in the entry."""
        return {
            "agent": self.agent,
            "sessionId": self.session_id,
            "path": self.path,
            "hash": f"sha256:{self.content_hash}",
            "when": spell_time(self.imported_ms),
        }


Ledger = dict[str, str]
"""For each imported entry, by its id, a digest of what it said; empty if that is not known."""


def make_ledger(entries: Iterable[WireEntry]) -> Ledger:
    """The digest of each entry as it is imported, its place included."""
    return {
        entry["id"]: hashlib.sha256(codec.encode(entry)).hexdigest()[:_HALF] for entry in entries
    }


def spell_ledger(ledger: Ledger) -> str:
    """The ledger as one string: ids and digests in turn, eight digits each."""
    return "".join(f"{entry_id}{digest}" for entry_id, digest in ledger.items())


def read_ledger(data: object) -> Ledger | None:
    """The ledger in the data of an import's entry; None if it has none."""
    text = get_text(data if isinstance(data, dict) else {}, LEDGER_KEY)
    if text is None:
        return None
    step = 2 * _HALF
    return {text[at : at + _HALF]: text[at + _HALF : at + step] for at in range(0, len(text), step)}


def is_import_of(origin: object, agent: str, session_id: str) -> bool:
    """Whether what a header or an entry says of a session's origin names this session."""
    found = origin if isinstance(origin, dict) else {}
    return get_text(found, "agent") == agent and get_text(found, "sessionId") == session_id


def derive_session_id(
    dialect: Dialect, agent: str, session_id: str, started_ms: int, attempt: int = 0
) -> str:
    """The id an imported session has here: the same each time, and ordered by its beginning.

    ``attempt`` gives the next one when another session has it.
    """
    seed = f"{agent}\x00{session_id}\x00{attempt}".encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(seed).digest()
    make = new_uuid7 if dialect == "pi" else new_session_id
    return make(started_ms, lambda length: digest[:length])
