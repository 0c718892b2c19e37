"""The colours of the program, by what they mean. Pure: hex values and Rich styles, no widget.

Two palettes of our own, dark and light, and others made of given colours. Text is readable on every
background it is used on: a test checks each pair against the usual contrast ratio for small text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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


def choose_palette(environ: Mapping[str, str]) -> Palette:
    """Choose dark, unless ``SESSIONTREE_THEME`` or the terminal's ``COLORFGBG`` says light."""
    wanted = wanted_theme(environ)
    if wanted in ("dark", "light"):
        return LIGHT if wanted == "light" else DARK
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if ground in ("7", "15") else DARK


def wanted_theme(environ: Mapping[str, str]) -> str:
    """The theme that the user asked for; ``auto`` if none."""
    return environ.get("SESSIONTREE_THEME", "").strip().casefold() or "auto"


# -- palettes of others' colours -----------------------------------------------------------------

_READABLE = 4.5
"""The usual contrast ratio for small text (WCAG AA)."""
_ROOMY = 7.5
_STEPS = [step / 20 for step in range(21)]


def adapt_palette(name: str, is_dark: bool, colours: Mapping[str, str]) -> Palette:
    """Make a palette of colours that may be hard to read: they change until text is readable.

    ``colours`` has all fields but ``muted`` and ``faint``, as ``#rrggbb``. Text goes towards white
    or black, then the grounds towards the background, which leaves the other colours room to stay
    themselves, then these towards white or black as well, each only as far as it must.
    """
    ground, ink = colours["background"], "#ffffff" if is_dark else "#000000"
    grounds = {key: colours[key] for key in ("background", "surface", "panel")}
    text = _nearest(colours["foreground"], ink, grounds.values(), _STEPS[:11])
    roomy = max(_READABLE, min(_ROOMY, 0.75 * _contrast(text, ground)))
    for key, colour in grounds.items():
        mixes = [_mix(colour, ground, part) for part in _STEPS]
        grounds[key] = next((one for one in mixes if _contrast(text, one) >= roomy), ground)
    words = {
        key: _nearest(colours[key], ink, grounds.values())
        for key in ("accent", "secondary", "success", "warning", "error")
    }
    muted = _nearest(_mix(text, ground, 0.35), text, grounds.values())
    faint = _mix(text, ground, 0.7)
    return Palette(name, is_dark, foreground=text, muted=muted, faint=faint, **grounds, **words)


def _nearest(
    colour: str, towards: str, grounds: Iterable[str], steps: Sequence[float] = _STEPS
) -> str:
    """The colour, mixed with another as little as makes it readable on these grounds."""
    under = list(grounds)
    mixes = [_mix(colour, towards, part) for part in steps]
    return next(
        (mix for mix in mixes if min(_contrast(mix, one) for one in under) >= _READABLE), mixes[-1]
    )


def _mix(one: str, other: str, part: float) -> str:
    mixed = (round(a + (b - a) * part) for a, b in zip(_rgb(one), _rgb(other), strict=True))
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _contrast(one: str, other: str) -> float:
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in _rgb(colour))
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
