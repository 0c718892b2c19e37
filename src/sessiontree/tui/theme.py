"""Textual themes made of the palettes, and the base class of all apps. Knows no screen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, TypeVar

from textual.app import App
from textual.dom import DOMNode
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES, Theme

from sessiontree.tui.driver import thrifty_driver
from sessiontree.tui.palette import (
    DARK,
    PALETTES,
    Palette,
    adapt_palette,
    choose_palette,
    wanted_theme,
)

Result = TypeVar("Result")


OWN_THEMES = ("auto", "dark", "light")


def theme_names() -> tuple[str, ...]:
    """All themes a user can choose: ours, then Textual's.

    Not the two that leave the colours to the terminal: text may be unreadable there.
    """
    return (*OWN_THEMES, *(name for name in BUILTIN_THEMES if not name.startswith("ansi-")))


def find_palette(name: str, environ: Mapping[str, str]) -> Palette | None:
    """The colours of a theme; None if it is unknown."""
    if name in OWN_THEMES:
        return choose_palette({**environ, "SESSIONTREE_THEME": name})
    return _adapted(name) if name in theme_names() else None


def palette_in_force(environ: Mapping[str, str]) -> Palette:
    """The colours of the theme that the user asked for; our own if it is unknown."""
    return find_palette(wanted_theme(environ), environ) or choose_palette(environ)


@cache
def _adapted(name: str) -> Palette | None:
    theme = BUILTIN_THEMES.get(name)
    if theme is None:
        return None
    made = theme.to_color_system().generate()
    fields = ("background", "surface", "panel", "foreground", "secondary")
    colours = {key: made[key] for key in (*fields, "success", "warning", "error")}
    return adapt_palette(name, theme.dark, {**colours, "accent": made["primary"]})


def make_theme(palette: Palette) -> Theme:
    """Make the Textual theme of a palette."""
    return Theme(
        name=palette.name,
        primary=palette.accent,
        secondary=palette.secondary,
        accent=palette.accent,
        success=palette.success,
        warning=palette.warning,
        error=palette.error,
        foreground=palette.foreground,
        background=palette.background,
        surface=palette.surface,
        panel=palette.panel,
        dark=palette.is_dark,
        variables={
            "muted": palette.muted,
            "faint": palette.faint,
            "border": palette.accent,
            "border-blurred": palette.faint,
            "screen-selection-background": palette.accent,
            "screen-selection-foreground": palette.background,
            "input-cursor-background": palette.foreground,
            "input-cursor-foreground": palette.background,
            "input-selection-background": f"{palette.accent} 35%",
            "scrollbar": palette.panel,
            "scrollbar-hover": palette.faint,
            "scrollbar-active": palette.muted,
            "scrollbar-background": palette.background,
            "scrollbar-background-hover": palette.background,
            "scrollbar-background-active": palette.background,
            "scrollbar-corner-color": palette.background,
        },
    )


class ThemedApp(App[Result]):
    """An app in our colours, without Textual's own extras."""

    ENABLE_COMMAND_PALETTE = False
    CSS = resources.files("sessiontree.tui").joinpath("styles.tcss").read_text("utf-8")

    def __init__(self, palette: Palette | None = None) -> None:
        super().__init__(driver_class=thrifty_driver())
        # Animated scrolling is harder to follow than an immediate jump.
        self.animation_level = "none"
        for known in PALETTES.values():
            self.register_theme(make_theme(known))
        self.theme_wish = wanted_theme(os.environ)
        """The theme that the user asked for; it may not exist."""
        self.use_palette(palette or palette_in_force(os.environ))

    def use_palette(self, palette: Palette) -> None:
        """Draw everything in these colours."""
        self.register_theme(make_theme(palette))
        self.theme = palette.name

    def on_resize(self) -> None:
        """Send everything again: a terminal may rearrange what it shows, whatever its new size."""
        thrift = getattr(self._driver, "thrift", None)
        if thrift is not None:
            thrift.forget()

    @property
    def palette(self) -> Palette:
        """The colours in force."""
        return _palette_named(self.theme)


def begin_at_size(screen: Screen[Any]) -> None:
    """Give a screen the classes of its size before its first layout.

    Textual gives them after it, so that the screen would be drawn twice.
    """
    width, height = screen.app.size
    for size, breakpoints in (
        (width, screen.HORIZONTAL_BREAKPOINTS),
        (height, screen.VERTICAL_BREAKPOINTS),
    ):
        names = [name for least, name in sorted(breakpoints or ()) if least <= size]
        if names:
            screen.add_class(names[-1])
    screen.set_class(is_line_slow(os.environ), "-far")


def is_line_slow(environ: Mapping[str, str]) -> bool:
    """Tell if each kilobyte may take time to reach the terminal: what the user says, or ssh."""
    wish = environ.get("SESSIONTREE_SLOW_LINE", "").strip().casefold()
    if wish in ("on", "off"):
        return wish == "on"
    return any(environ.get(name) for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"))


def palette_of(node: DOMNode) -> Palette:
    """The colours in force where this node is shown."""
    return _palette_named(node.app.theme)


@cache
def _palette_named(theme: str) -> Palette:
    return PALETTES.get(theme) or _adapted(theme) or DARK
