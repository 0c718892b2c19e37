"""Where an imported session came from, and the ids that follow from it.

Written into the header (``importedFrom``) and, for every import that brought something, into one
``custom`` entry. Pure.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from sessiontree.importers.records import get_text, spell_time
from sessiontree.model.ids import new_session_id, new_uuid7
from sessiontree.profiles import Dialect

HEADER_KEY = "importedFrom"
ENTRY_TYPE = "sessiontree.import"


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
