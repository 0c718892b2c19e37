"""The page of a session: an export that is live, with buttons to change the session. Pure.

The rows of the outline come with the page, articles when the browser is about to show them, and
what is new by asking every second.
"""

from __future__ import annotations

from sessiontree.export.html.document import frame_bottom, frame_top, started, title_of
from sessiontree.export.html.markup import attribute, json_block, text
from sessiontree.export.html.outline import facts_of
from sessiontree.web.changes import LONGEST
from sessiontree.web.frame import Frame
from sessiontree.web.listing import short_project
from sessiontree.web.reading import News, Reading

_REDACTED = "Download without secrets"


def draw_session(frame: Frame, reading: Reading, command: str | None) -> str:
    """The page. ``command`` is what resumes the session, if something does."""
    row, view = reading.row, reading.view
    title = title_of(view)
    can_write = frame.visitor.can_write and row.is_own
    facts = [row.agent, short_project(view.cwd), started(view.timestamp)]
    outline = facts_of(
        reading.rows,
        reading.leaf,
        source=f"{frame.root}/s/{row.key}",
        mark=reading.mark,
    )
    body = "".join(
        (
            frame_top(
                title, facts, _draw_actions(frame, reading, command, can_write), _back(frame)
            ),
            '<main id="talk" tabindex="-1"></main>\n',
            _without_scripts(frame.url(f"s/{row.key}/export.html")),
            frame_bottom(reading.messages, reading.usage, None, is_alone=False),
            _draw_dialogs(view.name or "", title) if can_write else "",
            '<script type="application/json" id="outline">',
            f"{json_block(outline)}</script>\n",
        )
    )
    return frame.bare_page(
        f"{title} · Sessiontree", body, scripts=("talk.js", "view.js", "session.js"),
        classes="session",
    )  # fmt: skip


def describe_news(news: News, title: str) -> dict[str, object]:
    """The additions, for the page's script."""
    return {
        "rows": news.rows,
        "from": news.start,
        "leaf": news.leaf,
        "labels": sorted(news.labels.items()),
        "mark": news.mark,
        "title": title,
        "isOther": news.is_other,
    }


def _without_scripts(export: str) -> str:
    return (
        '<noscript><p class="message">A session needs scripts to be shown here. '
        f'<a href="{export}">Download it as one page</a>, which works without.</p></noscript>\n'
    )


def _back(frame: Frame) -> str:
    return f'<a class="back" href="{frame.url("")}" aria-label="All sessions">‹</a>'


def _draw_actions(frame: Frame, reading: Reading, command: str | None, can_write: bool) -> str:
    here = f"s/{reading.row.key}"
    copy = "" if command is None else (
        f'<button type="button" id="copy" data-command="{attribute(command)}" '
        f'title="{attribute(command)}">Copy resume command</button>'
    )  # fmt: skip
    items = [
        f'<a href="{frame.url(f"{here}/tree")}">Tree as a picture</a>',
        f'<a href="{frame.url(f"{here}/compare")}">Compare two branches</a>',
        f'<a href="{frame.url(f"{here}/export.html")}" download>Download as one page</a>',
        f'<a href="{frame.url(f"{here}/export.html?redact=1")}" download>{_REDACTED}</a>',
    ]
    if can_write:
        items += [
            '<button type="button" data-dialog="rename">Rename…</button>',
            '<button type="button" data-dialog="label">Label the message here…</button>',
            '<button type="button" data-dialog="trash" class="danger">Move to the trash…</button>',
        ]
    return (
        f'<div class="actions">{copy}<details class="menu" id="more"><summary>More</summary>'
        f'<div class="items">{"".join(items)}</div></details></div>'
    )


def _draw_dialogs(name: str, title: str) -> str:
    return (
        _dialog(
            "rename", "Rename this session",
            f'<label for="name">Name</label><input id="name" name="name" maxlength="{LONGEST}" '
            f'value="{attribute(name)}" autocomplete="off"><p>Its agent shows the name, too. '
            "Without one, the first prompt stands for it.</p>", "Rename",
        )
        + _dialog(
            "label", "Label a message",
            '<p id="label-of" class="quote"></p><label for="label-text">Label</label>'
            f'<input id="label-text" name="label" maxlength="{LONGEST}" autocomplete="off">'
            '<input type="hidden" name="entry"><p>The tree shows labels. An empty one is '
            "removed.</p>", "Label",
        )
        + _dialog(
            "trash", "Move this session to the trash?",
            f'<p class="quote" dir="auto">{text(title)}</p><p>You can restore it from there.</p>',
            "Move to the trash",
        )
    )  # fmt: skip


def _dialog(name: str, title: str, body: str, act: str) -> str:
    return (
        f'<dialog id="{name}" aria-labelledby="{name}-title"><form data-action="{name}">'
        f'<h2 id="{name}-title">{title}</h2>{body}<p class="failed" role="alert" hidden></p>'
        '<div class="buttons"><button type="button" data-close>Cancel</button>'
        f'<button type="submit" class="main">{act}</button></div></form></dialog>\n'
    )
