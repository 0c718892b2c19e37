"""A session's name, as its dialect keeps one: an entry, the title slot in place, or the header.

Where the name goes is decided with the file held and caught up with: another program may have
written it anew since, with a slot or without one.
"""

from __future__ import annotations

import re

import msgspec

from sessiontree.model.header import TitleSlot, apply_title_slot
from sessiontree.model.ids import format_timestamp
from sessiontree.model.lines import SessionWarning
from sessiontree.session.live import LiveSession
from sessiontree.stores.files.document import SessionDocument
from sessiontree.stores.files.log import SessionLog

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def rename_live(session: LiveSession, name: str) -> None:
    """Give an open session a name; an empty one clears it."""
    clean = " ".join(_CONTROL.sub(" ", name).split())
    if session.log.dialect == "pi":
        session.append("session_info", {"name": clean})
        return
    session.catch_up(lambda: _rename_held(session, clean))
    if not clean and session.name is not None:
        session.append("session_info", {"name": ""})  # a name in pi's words, which counts too


def _rename_held(session: LiveSession, title: str) -> None:
    document = session.log.document
    if document is None or document.slot is None:
        _rename_in_header(session, title)
    else:
        _rename_in_slot(session, document, document.slot, title)


def _rename_in_header(session: LiveSession, title: str) -> None:
    source = "user" if title else None
    session.write_header(session.write_anew, title=title or None, titleSource=source)


def _rename_in_slot(
    session: LiveSession, document: SessionDocument, slot: TitleSlot, title: str
) -> None:
    made = msgspec.structs.replace(
        slot,
        title=title,
        source="user" if title else None,
        updated_at=format_timestamp(session.place.clock()),
        line=b"",
    ).sealed()
    if made.title != title:
        cut = f"the name was cut to the {len(made.title)} characters there is room for"
        session.warn(SessionWarning(cut))
    if slot.is_in_place and isinstance(session.log, SessionLog):
        # the header line keeps its old title until a rewrite; readers believe the slot
        session.log.overwrite_slot(made)
        apply_title_slot(session.header, made)
        return
    document.slot = made
    try:
        _rename_in_header(session, made.title)
    except BaseException:
        document.slot = slot
        raise
