"""The colours of the program, by what they mean. Pure: hex values and Rich styles, no widget.

Two palettes, dark and light. Text is readable on every background it is used on: a test checks each
pair against the usual contrast ratio for small text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rich.style import Style


@dataclass(frozen=True)
class Palette:
    """Colours as hex values, and styles made of them."""

    name: str
    is_dark: bool
    background: str
    surface: str
    """Background of the user's prompts and of the editor."""
    panel: str
    """Background of code, dialogs and the selected line."""
    foreground: str
    muted: str
    """Text that matters less: times, counts, thinking."""
    faint: str
    """Rules and guides; never text."""
    accent: str
    secondary: str
    success: str
    warning: str
    error: str

    @cached_property
    def text(self) -> Style:
        return Style(color=self.foreground)

    @cached_property
    def strong(self) -> Style:
        return Style(color=self.foreground, bold=True)

    @cached_property
    def dim(self) -> Style:
        return Style(color=self.muted)

    @cached_property
    def thought(self) -> Style:
        return Style(color=self.muted, italic=True)

    @cached_property
    def rule(self) -> Style:
        return Style(color=self.faint)

    @cached_property
    def link(self) -> Style:
        return Style(color=self.accent, underline=True)

    @cached_property
    def mark(self) -> Style:
        """Search matches."""
        return Style(color=self.accent, bold=True)

    @cached_property
    def code(self) -> Style:
        return Style(color=self.secondary)

    @cached_property
    def code_ground(self) -> Style:
        return Style(color=self.foreground, bgcolor=self.panel)

    @cached_property
    def said(self) -> Style:
        """The user's prompts."""
        return Style(color=self.foreground, bgcolor=self.surface)

    @cached_property
    def chosen(self) -> Style:
        """Background of the line under the cursor."""
        return Style(bgcolor=self.panel)

    @cached_property
    def cursor(self) -> Style:
        """The choice that Enter takes."""
        return Style(color=self.background, bgcolor=self.accent, bold=True)

    def of(self, colour: str, *, bold: bool = False) -> Style:
        """Make a style in the colour of this field name."""
        return Style(color=getattr(self, colour), bold=bold or None)


DARK = Palette(
    "sessiontree-dark",
    True,
    background="#16181d",
    surface="#1e2128",
    panel="#262a33",
    foreground="#dcdfe4",
    muted="#9aa1ae",
    faint="#4a505c",
    accent="#82aaff",
    secondary="#c3a6ff",
    success="#93c47d",
    warning="#e0af68",
    error="#f0828a",
)

LIGHT = Palette(
    "sessiontree-light",
    False,
    background="#fcfbf8",
    surface="#f2f0ea",
    panel="#e8e5dd",
    foreground="#2a2c32",
    muted="#5d6270",
    faint="#b9b6ad",
    accent="#2456b8",
    secondary="#7140a8",
    success="#2f6b2a",
    warning="#80560a",
    error="#b02a22",
)


class TerminalPalette(Palette):
    """The terminal's own colours, for lines that scroll by on whatever ground it has."""

    @cached_property
    def text(self) -> Style:
        return Style()

    @cached_property
    def strong(self) -> Style:
        return Style(bold=True)

    @cached_property
    def code_ground(self) -> Style:
        return Style()

    @cached_property
    def dim(self) -> Style:
        return Style(dim=True)

    @cached_property
    def thought(self) -> Style:
        return Style(dim=True, italic=True)

    @cached_property
    def rule(self) -> Style:
        return Style(dim=True)


TERMINAL = TerminalPalette(
    "terminal",
    True,
    background="default",
    surface="default",
    panel="default",
    foreground="default",
    muted="default",
    faint="default",
    accent="cyan",
    secondary="magenta",
    success="green",
    warning="yellow",
    error="red",
)

PALETTES = {palette.name: palette for palette in (DARK, LIGHT)}


def choose_palette(environ: dict[str, str]) -> Palette:
    """Choose dark, unless ``SESSIONTREE_THEME`` or the terminal's ``COLORFGBG`` says light."""
    wanted = environ.get("SESSIONTREE_THEME", "").strip().casefold()
    if wanted in ("dark", "light"):
        return LIGHT if wanted == "light" else DARK
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if ground in ("7", "15") else DARK
