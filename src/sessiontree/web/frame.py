"""The frame of the viewer's pages: head, bar, and the login pages. Pure.

Styles and scripts are files of ours, named by a hash of their content, so that a browser may keep
them. No page has a script or a style of its own: the policy (``gate``) allows none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from sessiontree.export.html.document import asset
from sessiontree.export.html.markup import attribute, text

if TYPE_CHECKING:
    from sessiontree.web.access import Access, Visitor

_SHARED = frozenset(("talk.css", "talk.js"))
ASSETS = frozenset(
    (*_SHARED, "view.css", "theme.js", "view.js", "list.js", "session.js", "picture.js", "usage.js")
)
_PLACES = (("", "Sessions"), ("usage", "Usage"), ("trash", "Trash"))


@cache
def read_asset(name: str) -> str:
    """A script or style sheet; those that exported pages have, too, are theirs."""
    if name in _SHARED:
        return asset(name)
    folder = resources.files("sessiontree.web").joinpath("assets")
    return folder.joinpath(name).read_text("utf-8")


@cache
def asset_path(name: str) -> str:
    """The path of an asset below the viewer's root; it changes with the content."""
    digest = hashlib.sha256(read_asset(name).encode()).hexdigest()[:12]
    return f"/assets/{digest}/{name}"


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame of one visitor's pages."""

    root: str
    visitor: Visitor

    def url(self, path: str) -> str:
        """The address of a page of ours, as an attribute's value."""
        return attribute(f"{self.root}/{path}")

    def page(
        self,
        title: str,
        main: str,
        *,
        current: str | None = None,
        scripts: tuple[str, ...] = (),
        classes: str = "",
    ) -> str:
        """A page with the bar on top."""
        body = (
            '<a class="skip" href="#main">Skip to the content</a>\n'
            f'<header id="bar" class="site">{self._places(current)}'
            f"{self._who()}{theme_button()}</header>\n"
            f'<main id="main" tabindex="-1">{main}</main>\n'
        )
        return self.bare_page(title, body, scripts=("view.js", *scripts), classes=classes)

    def bare_page(
        self, title: str, body: str, *, scripts: tuple[str, ...] = (), classes: str = ""
    ) -> str:
        """A page with its own bar."""
        token = f'<meta name="form-token" content="{attribute(self.visitor.form_token)}">\n'
        root = f'<meta name="root" content="{attribute(self.root)}">\n'
        tags = "".join(
            f'<script src="{self.root}{asset_path(name)}" defer></script>\n' for name in scripts
        )
        return document(self.root, title, body, head=f"{token}{root}{tags}", classes=classes)

    def waiting_page(self, done: int, total: int) -> str:
        """The page to show while sessions are read for the first time; it reloads itself."""
        told = f"{done:,} of {total:,}" if total else "a moment"
        bar = f'<progress max="{total}" value="{done}">{told}</progress>' if total else ""
        return message_page(
            self.root,
            "Reading your sessions",
            f"{bar}<p>{told}. From now on this takes only a moment.</p>",
            '<meta http-equiv="refresh" content="1">\n',
        )

    def _places(self, current: str | None) -> str:
        links = "".join(
            f'<a href="{self.url(path)}"{_current(path == current)}>{name}</a>'
            for path, name in _PLACES
        )
        return f'<nav class="places" aria-label="Pages">{links}</nav>'

    def _who(self) -> str:
        name = f'<span class="who">{text(self.visitor.name)}</span>' if self.visitor.name else ""
        rights = "" if self.visitor.can_write else '<span class="who">read only</span>'
        return f'<span class="room"></span>{name}{rights}'

    def form_token(self) -> str:
        """The hidden field that every form needs."""
        return f'<input type="hidden" name="token" value="{attribute(self.visitor.form_token)}">'


def document(root: str, title: str, body: str, *, head: str = "", classes: str = "") -> str:
    """A whole page with our styles."""
    named = f' class="{classes}"' if classes else ""
    return (
        f'<!doctype html>\n<html lang="en"{named}><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n"
        f'<script src="{root}{asset_path("theme.js")}"></script>\n'
        f'<link rel="stylesheet" href="{root}{asset_path("talk.css")}">\n'
        f'<link rel="stylesheet" href="{root}{asset_path("view.css")}">\n'
        f'<link rel="icon" href="data:,">\n{head}</head>\n<body>\n{body}</body></html>\n'
    )


def message_page(root: str, title: str, message: str, head: str = "") -> str:
    """A page with one message, which is markup."""
    body = f'<main id="main" class="message"><h1>{text(title)}</h1>{message}</main>\n'
    return document(root, f"{title} · Sessiontree", body, head=head)


def entrance_page(access: Access, told: str) -> str:
    """The page for visitors who are not in yet: how to get in."""
    if access.wants == "password":
        warning = f'<p class="failed" role="alert">{text(told)}</p>' if told else ""
        return message_page(
            access.root,
            "Sessions",
            f'{warning}<form method="post" action="{attribute(access.root)}/login" class="login">'
            '<label for="password">Password</label>'
            '<input type="password" id="password" name="password" autocomplete="current-password" '
            'required autofocus><button type="submit">Log in</button></form>',
        )
    what = {
        "link": "<p>Open the address that <code>sessiontree view</code> printed. "
        "It is valid until that command ends.</p>",
        "proxy": "<p>Log in where you usually do. This server takes visitors from there only.</p>",
    }[access.wants]
    return message_page(access.root, "You are not logged in", what)


def theme_button() -> str:
    """Switches between light and dark."""
    return '<button type="button" id="theme" aria-label="Switch between light and dark">◐</button>'


def _current(is_current: bool) -> str:
    return ' aria-current="page"' if is_current else ""
