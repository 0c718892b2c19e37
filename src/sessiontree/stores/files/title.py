"""A session file's title: in the slot before the header, changed in place, or in the header.

The place is chosen while the file is locked and caught up with: another program may have rewritten
it since, with a slot or without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from sessiontree.model.header import TitleSlot, apply_title_slot
from sessiontree.model.ids import format_timestamp
from sessiontree.model.lines import SessionWarning
from sessiontree.stores.files.document import SessionDocument

if TYPE_CHECKING:
    from sessiontree.stores.files.log import FileLog


def set_title(log: FileLog, title: str) -> None:
    """Write the title, an empty one clears it; inside ``settle``."""
    document = log.document
    if document is None or document.slot is None:
        _set_in_header(log, title)
    else:
        _set_in_slot(log, document, document.slot, title)


def _set_in_header(log: FileLog, title: str) -> None:
    source = "user" if title else None
    log.change_header(log.rewrite, {"title": title or None, "titleSource": source})


def _set_in_slot(log: FileLog, document: SessionDocument, slot: TitleSlot, title: str) -> None:
    made = msgspec.structs.replace(
        slot,
        title=title,
        source="user" if title else None,
        updated_at=format_timestamp(log.store.clock()),
        line=b"",
    ).sealed()
    if made.title != title:
        cut = f"the name was cut to the {len(made.title)} characters there is room for"
        log.warn(SessionWarning(cut))
    if slot.is_in_place:
        # the header line keeps its old title until a rewrite; readers believe the slot
        log.overwrite_slot(made)
        apply_title_slot(log.header, made)
        return
    document.slot = made
    try:
        _set_in_header(log, made.title)
    except BaseException:
        document.slot = slot
        raise
