"""Textual themes made of the palettes, and the base class of all apps. Knows no screen."""

from __future__ import annotations

import os
from importlib import resources
from typing import Any, TypeVar

from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver
from textual.theme import Theme

from sessiontree.tui.palette import DARK, PALETTES, Palette, choose_palette
from sessiontree.tui.thrift import Thrift

Result = TypeVar("Result")


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


def thrifty_driver() -> type[Driver] | None:
    """Textual's driver for this system, made to send only what changes; None where it has none."""
    try:
        from textual.drivers.linux_driver import LinuxDriver
    except ImportError:  # no Unix
        return None

    class ThriftyDriver(LinuxDriver):
        """Sends a terminal only the differences."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.thrift = Thrift()

        def write(self, data: str) -> None:
            """Send what ``data`` changes."""
            size = self._app.size
            if size != self.thrift.size:
                self.thrift.resize(*size)
            super().write(self.thrift.squeeze(data))

    return ThriftyDriver


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
        self.theme = (palette or choose_palette(dict(os.environ))).name

    def on_resize(self) -> None:
        """Send everything again: a terminal may rearrange what it shows, whatever its new size."""
        thrift = getattr(self._driver, "thrift", None)
        if thrift is not None:
            thrift.forget()

    @property
    def palette(self) -> Palette:
        """The colours in force."""
        return PALETTES.get(self.theme, DARK)


def palette_of(node: DOMNode) -> Palette:
    """The colours in force where this node is shown."""
    return PALETTES.get(node.app.theme, DARK)
