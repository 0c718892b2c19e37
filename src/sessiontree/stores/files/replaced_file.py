"""What becomes of a session's entries when its file turns out to be another one.

Entries go on being the objects they were, with what was changed in them; what only the old file
held stays, as long as it is known. Reads lines, never writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field

from sessiontree.core.tree import SessionTree, adopt_orphans
from sessiontree.core.trimming import trim
from sessiontree.errors import PersistenceError
from sessiontree.model import codec
from sessiontree.model.entries import Entry
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Dialect

# Any JSON may stand where a line was overwritten, or none.
_UNREADABLE = (PersistenceError, ValueError, TypeError, AttributeError)


@dataclass(slots=True)
class Succession:
    """How a new tree followed an old one.

    ``foreign`` counts the entries that only the new file holds; ``homeless`` are those that only
    the old one held: in the tree, and still to be written.
    """

    foreign: int = 0
    homeless: list[Entry] = field(default_factory=list)
    warnings: list[SessionWarning] = field(default_factory=list)


def succeed(
    old: SessionTree, new: SessionTree, dialect: Dialect, *, is_old_intact: bool
) -> Succession:
    """Put the entries of ``old`` into ``new``, which was read from the file that is there now.

    ``is_old_intact`` says that the lines of the old file are what they were.
    """
    done = Succession()
    given_way = 0
    for index, found in enumerate(new.entries):
        held = old.by_id.get(found.id)
        if held is None:
            done.foreign += 1
        elif held is not found:
            given_way += _move_over(held, found, dialect, is_old_intact)
            new.entries[index] = new.by_id[found.id] = held
    missing = [entry for entry in old.entries if entry.id not in new.by_id]
    done.homeless, instead = keep_known(missing)
    for entry in done.homeless:
        new.add(entry)
    new.forget_indexes()
    _carry_orphans(old, new, {entry.id for entry in done.homeless})
    adopt_orphans(new, [lost for lost in new.orphans if lost in new.by_id], done.warnings)
    if new.leaf_id is not None and new.leaf_id not in new.by_id:
        new.leaf_id = instead.get(new.leaf_id) or new.last_id
    if given_way:
        who = "changed" if is_old_intact else "read, and perhaps changed,"
        done.warnings.append(
            SessionWarning(f"{given_way} entries {who} here were changed by another program, too")
        )
    if instead:
        done.warnings.append(
            SessionWarning(f"{len(instead)} entries were overwritten by another program")
        )
    return done


def _carry_orphans(old: SessionTree, new: SessionTree, moved: set[str]) -> None:
    """What some of the entries that moved wait for, they go on waiting for."""
    for lost, children in old.orphans.items():
        if waiting := [child_id for child_id in children if child_id in moved]:
            new.orphans.setdefault(lost, []).extend(waiting)


def keep_known(entries: Iterable[Entry]) -> tuple[list[Entry], dict[str | None, str | None]]:
    """The entries that are still known, joined where some are lost; who is above each of those."""
    kept: list[Entry] = []
    instead: dict[str | None, str | None] = {}
    for entry in entries:
        parent_id = instead.get(entry.parent_id, entry.parent_id)
        if not _is_known(entry):
            instead[entry.id] = parent_id
            continue
        if parent_id != entry.parent_id:
            entry.place(entry.id, parent_id)
        kept.append(entry)
    return kept, instead


def _is_known(entry: Entry) -> bool:
    """Whether an entry can still be written: by its line, else by what is in memory of it."""
    with contextlib.suppress(*_UNREADABLE):
        raw = entry.raw()
        if raw is None or _is_line_of(entry, raw):
            return True
    if not entry.is_loaded:
        return False
    if entry.cached is None:
        entry.cached = {
            "type": entry.type,
            "id": entry.id,
            "parentId": entry.parent_id,
            "timestamp": entry.timestamp,
            "message": entry.message,
        }
        entry.message = None
    entry.source = None
    return True


def _is_line_of(entry: Entry, raw: bytes) -> bool:
    """Whether this is still the entry's line; one that got another id here tells by the rest."""
    said = Entry.from_wire(codec.decode(raw))
    return (
        said.type == entry.type
        and said.timestamp == entry.timestamp
        and (entry.is_changed or said.id == entry.id)
    )


def _move_over(held: Entry, found: Entry, dialect: Dialect, is_old_intact: bool) -> bool:
    """Let the object that somebody may hold stand for a line that was read again.

    What was decoded, and perhaps changed, stays if the line says what it did. If not, somebody else
    has changed it and theirs counts; whether something of ours may have had to give way is given.
    """
    is_kept, gives_way = _compare(held, found, dialect, is_old_intact)
    was_changed = held.is_changed
    held.type, held.timestamp, held.parent_id = found.type, found.timestamp, found.parent_id
    if found.source is not None:
        held.attach(found.source, found.offset, found.length)
    if not is_kept:
        held.release()
    if was_changed or found.is_changed:
        held.place(found.id, found.parent_id)
        held.is_changed = found.is_changed
    return gives_way


def _compare(held: Entry, found: Entry, dialect: Dialect, is_old_intact: bool) -> tuple[bool, bool]:
    """Whether what was decoded of an entry still holds; else whether it may be a change of ours."""
    if not held.is_loaded:
        return False, False
    if is_old_intact:
        with contextlib.suppress(*_UNREADABLE):
            is_kept = held.raw() == found.raw() or (
                codec.encode(held.decode()) == codec.encode(found.decode())
            )
            return is_kept, not is_kept and held.is_edited()
    # nobody knows what the old line said
    with contextlib.suppress(*_UNREADABLE):
        said = found.decode()
        known = {**said, "message": held.message} if held.cached is None else held.cached
        if codec.encode(known) == codec.encode(said) or trim(known, dialect).line == found.raw():
            return True, False
    return False, True
