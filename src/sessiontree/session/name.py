"""A session's name: one rule for what it is, and how it is given."""

from __future__ import annotations

from sessiontree.session.live import LiveSession
from sessiontree.stores.identity import clean_name


def rename_live(session: LiveSession, name: str) -> None:
    """Give an open session a name; an empty one clears it."""
    clean = clean_name(name)
    if session.log.dialect == "pi":
        session.append("session_info", {"name": clean})
        return
    session.log.write_header({"title": clean or None, "titleSource": "user" if clean else None})
    if not clean and session.name is not None:
        session.append("session_info", {"name": ""})  # a name in pi's words, which counts too
