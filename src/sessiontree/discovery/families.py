"""Group sessions that were made of one another: forks, resumed sessions, imports, conversions.

Three things relate two sessions: one names the other as its parent; one says that it was imported
or converted from the other; or both begin with the same message. A first message of pi's family has
a short id that two sessions may share by chance, so there it counts only if a session that begins
so says that it was made of another one.

Pure: works on what summaries and headers say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sessiontree.discovery.catalogue.summary import Summary
from sessiontree.discovery.paths import parse_session_file_name


class Kin(msgspec.Struct, frozen=True, gc=False):
    """The relations that one session states.

    ``parents`` are ids. ``has_unique_first``: its first message's id is like no other's.
    ``is_converted``: an import or a conversion made it.
    """

    id: str
    parents: tuple[str, ...] = ()
    first: str | None = None
    has_unique_first: bool = False
    is_converted: bool = False

    @property
    def is_made(self) -> bool:
        """Whether it says that it was made of another session."""
        return bool(self.parents)


def kin_of(summary: Summary, session_id: str, *, is_own: bool) -> Kin:
    """Read a session's relations from its summary; ``is_own``: it is one of pi's family."""
    parents = [summary.parent_session, origin_id(summary.origin)]
    named = tuple(id_of(parent) for parent in parents if parent)
    return Kin(session_id, named, summary.first, not is_own, summary.origin is not None)


def kin_of_header(header: Mapping[str, Any], first: str | None) -> Kin:
    """Read a session's relations from its header and its first entry, as a summary names it."""
    parents = [header.get("parentSession")]
    for name in ("importedFrom", "convertedFrom"):
        told = header.get(name)
        parents.append(told.get("sessionId") if isinstance(told, dict) else None)
    named = tuple(id_of(parent) for parent in parents if isinstance(parent, str) and parent)
    return Kin(str(header.get("id", "")), named, first)


def origin_id(origin: str | None) -> str | None:
    """The id in a summary's ``origin``."""
    return origin.partition(":")[2] or None if origin else None


def id_of(parent: str) -> str:
    """The id of a session that is named by its id or by its file."""
    named = parse_session_file_name(parent.replace("\\", "/").rpartition("/")[2])
    return named[1] if named else parent


class Families:
    """The sessions in question, grouped by relation."""

    def __init__(self, sessions: Sequence[Kin]) -> None:
        self._above: dict[tuple[str, str], tuple[str, str]] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        copied = {kin.first for kin in sessions if kin.is_made and kin.first}
        for kin in sessions:
            own = ("session", kin.id)
            for parent in kin.parents:
                self._join(own, ("session", parent))
            # What was between two copies may have been removed: both still begin alike.
            if kin.first and (kin.has_unique_first or kin.first in copied):
                self._join(own, ("message", kin.first))
        for kin in sessions:
            root = self.of(kin)
            self._sizes[root] = self._sizes.get(root, 0) + 1

    def of(self, kin: Kin) -> tuple[str, str]:
        """The representative of the session's family."""
        return self._find(("session", kin.id))

    def is_alone(self, kin: Kin) -> bool:
        """Whether no other session is related to this one."""
        return self._sizes[self.of(kin)] == 1

    def groups(self, sessions: Iterable[Kin]) -> dict[tuple[str, str], list[Kin]]:
        """These sessions by family, in their order."""
        found: dict[tuple[str, str], list[Kin]] = {}
        for kin in sessions:
            found.setdefault(self.of(kin), []).append(kin)
        return found

    def _find(self, key: tuple[str, str]) -> tuple[str, str]:
        above = self._above
        root = key
        while (found := above.get(root, root)) != root:
            root = found
        while key != root:
            above[key], key = root, above[key]
        return root

    def _join(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        top, below = self._find(one), self._find(other)
        if top != below:
            self._above[below] = top
