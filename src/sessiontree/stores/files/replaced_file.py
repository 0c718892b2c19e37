"""Merge the entries in memory with a file that another program replaced. Reads, never writes.

Another program wrote a new file under the session's name (or new bytes into the old file). In
memory there is the old tree, whose entry objects callers may hold and may have changed; on disk
there is the new one. `merge_replaced` makes the new tree the session's, under these rules:

- **In both files**: the object from memory stays, now with the new line. If the line says what it
  said before, changes made here stay. If it says something else, the other program has changed the
  entry: its version counts, and a warning counts the entries where a change of ours may have lost.
- **Only in the new file**: the entry is foreign.
- **Only in the old file, and still known** (its line can be read, or its data is in memory): the
  entry is added to the new tree and returned as ``missing``, for the log to append.
- **Only in the old file, and not known any more** (its bytes were overwritten): the entry is lost,
  and a warning says so. Its children move to the nearest known ancestor.

The leaf stays where it was; if that entry is lost, it moves to the nearest known ancestor.

A crash in between loses nothing more: the new file is as the other program wrote it, and what is
``missing`` was never in it. ``is_old_intact`` is false when the very bytes of the old file were
overwritten: then an old line can't be compared, and only what is decoded in memory counts.
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

# An overwritten line may now be any JSON, or none.
_UNREADABLE = (PersistenceError, ValueError, TypeError, AttributeError)


@dataclass(slots=True)
class Merge:
    """The result of a merge.

    ``foreign`` counts the entries that only the new file holds. ``missing`` are those that only the
    old one held: they are in the tree, and the log still has to write them.
    """

    foreign: int = 0
    missing: list[Entry] = field(default_factory=list)
    warnings: list[SessionWarning] = field(default_factory=list)


def merge_replaced(
    old: SessionTree, new: SessionTree, dialect: Dialect, *, is_old_intact: bool
) -> Merge:
    """Put the entries of ``old`` into ``new``, which was read from the present file.

    ``is_old_intact`` says that the lines of the old file can still be read as they were.
    """
    done = Merge()
    overruled = 0
    for index, found in enumerate(new.entries):
        held = old.by_id.get(found.id)
        if held is None:
            done.foreign += 1
        elif held is not found:
            overruled += _take_line(held, found, dialect, is_old_intact)
            new.entries[index] = new.by_id[found.id] = held
    only_old = [entry for entry in old.entries if entry.id not in new.by_id]
    done.missing, stand_ins = keep_known(only_old)
    for entry in done.missing:
        new.add(entry)
    new.forget_indexes()
    _carry_orphans(old, new, {entry.id for entry in done.missing})
    adopt_orphans(new, [lost for lost in new.orphans if lost in new.by_id], done.warnings)
    if new.leaf_id is not None and new.leaf_id not in new.by_id:
        new.leaf_id = stand_ins.get(new.leaf_id) or new.last_id
    if overruled:
        who = "changed" if is_old_intact else "read, and perhaps changed,"
        done.warnings.append(
            SessionWarning(f"{overruled} entries {who} here were changed by another program, too")
        )
    if stand_ins:
        done.warnings.append(
            SessionWarning(f"{len(stand_ins)} entries were overwritten by another program")
        )
    return done


def _carry_orphans(old: SessionTree, new: SessionTree, moved: set[str]) -> None:
    """Entries that moved to the new tree keep waiting for the parents that they lack."""
    for lost, children in old.orphans.items():
        if waiting := [child_id for child_id in children if child_id in moved]:
            new.orphans.setdefault(lost, []).extend(waiting)


def keep_known(entries: Iterable[Entry]) -> tuple[list[Entry], dict[str | None, str | None]]:
    """Return the entries that are still known, and for each lost one the ancestor that stands
    in."""
    kept: list[Entry] = []
    stand_ins: dict[str | None, str | None] = {}
    for entry in entries:
        parent_id = stand_ins.get(entry.parent_id, entry.parent_id)
        if not _is_known(entry):
            stand_ins[entry.id] = parent_id
            continue
        if parent_id != entry.parent_id:
            entry.place(entry.id, parent_id)
        kept.append(entry)
    return kept, stand_ins


def _is_known(entry: Entry) -> bool:
    """Whether an entry can still be written: from its line, or from memory."""
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
    """Whether this is still the entry's line; an entry with a new id is recognized by the rest."""
    said = Entry.from_wire(codec.decode(raw))
    return (
        said.type == entry.type
        and said.timestamp == entry.timestamp
        and (entry.is_changed or said.id == entry.id)
    )


def _take_line(held: Entry, found: Entry, dialect: Dialect, is_old_intact: bool) -> bool:
    """Attach the object that callers may hold to the line in the new file.

    What was decoded, and perhaps changed, stays if the line says what it said. If not, another
    program has changed it and its version counts. Returns whether a change of ours may be lost.
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
    """Tell if the decoded data is still valid, and if not, whether it may hold our changes."""
    if not held.is_loaded:
        return False, False
    is_edited = True
    if is_old_intact:
        with contextlib.suppress(*_UNREADABLE):
            if held.raw() == found.raw() or (
                codec.encode(held.decode()) == codec.encode(found.decode())
            ):
                return True, False
            is_edited = held.is_edited()
    # Compare with what is in memory: the old line can't be read any more, or says something else.
    with contextlib.suppress(*_UNREADABLE):
        said = found.decode()
        known = {**said, "message": held.message} if held.cached is None else held.cached
        if codec.encode(known) == codec.encode(said) or trim(known, dialect).line == found.raw():
            return True, False
    return False, is_edited
