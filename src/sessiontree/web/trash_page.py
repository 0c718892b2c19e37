"""The page of the trash: removed sessions, each with a button to restore it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sessiontree.export.html.markup import attribute, text
from sessiontree.text.words import clean_line, shorten
from sessiontree.web.changes import Trashed
from sessiontree.web.frame import Frame
from sessiontree.web.listing import count, draw_project, time_of


def draw_trash(frame: Frame, found: Sequence[Trashed], restored: str, now: datetime) -> str:
    """The page. ``restored`` is the key of a session that has just come back."""
    told = "" if not restored else (
        '<p class="lead" role="status">Restored. '
        f'<a href="{frame.url(f"s/{restored}")}">Open the session</a></p>'
    )  # fmt: skip
    rows = "".join(_draw(frame, each, now) for each in found)
    listed = f'<ol id="sessions" class="trash">{rows}</ol>' if found else (
        '<div id="nothing"><h2>The trash is empty</h2>'
        "<p>Sessions that you remove wait here until <code>sessiontree gc</code> deletes them.</p>"
        "</div>"
    )  # fmt: skip
    main = f'<h1>Trash</h1><p class="lead">{count(len(found), "session")}</p>{told}{listed}'
    return frame.page("Trash", main, current="trash", classes="plain")


def _draw(frame: Frame, trashed: Trashed, now: datetime) -> str:
    item = trashed.item
    name = shorten(clean_line(item.title), 300) or item.session_id
    facts = (
        f'<span class="agent">{text(trashed.agent)}</span>'
        f"{draw_project(item.cwd)}{_removed(item.removed_at, now)}"
    )
    button = "" if not frame.visitor.can_write else (
        f'<form method="post" action="{frame.url(f"trash/{trashed.key}/restore")}">'
        f'{frame.form_token()}<input type="hidden" name="back" value="1">'
        f'<button type="submit" aria-label="Restore {attribute(name)}">Restore</button></form>'
    )  # fmt: skip
    return (
        f'<li class="session"><div><span class="name" dir="auto">{text(name)}</span>'
        f'<p class="facts">{facts}</p></div>{button}</li>\n'
    )


def _removed(removed_at: str, now: datetime) -> str:
    try:
        moment = datetime.fromisoformat(removed_at).astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return f"<span>removed {time_of(moment, now)}</span>"
