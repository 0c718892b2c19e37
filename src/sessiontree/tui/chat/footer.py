"""The line below the editor: session, branch, model, thinking, mode, tokens, cost.

Reads the facts from a live session, and decides which of them to drop when the line gets narrow.
The drawing is pure; the widget only keeps the facts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text
from textual.widget import Widget

from sessiontree.runtime.compacting import estimate_session
from sessiontree.tui import safe_text
from sessiontree.tui.chat.session_reading import Branches, read_branches
from sessiontree.tui.palette import Palette
from sessiontree.tui.pickers.row_list import two_sided
from sessiontree.tui.pickers.session_rows import short_path
from sessiontree.tui.theme import palette_of

if TYPE_CHECKING:
    from sessiontree.runtime.agent_session import AgentSession


_GAP = " · "
_NAME_WEIGHT = 9
_PROJECT_WEIGHT = 1
_LEAST_NAME = 13
"""Columns of the session's name to keep before dropping anything but the project."""


@dataclass(frozen=True, slots=True)
class FooterFacts:
    """The facts that the footer shows."""

    session: str = ""
    project: str = ""
    branch: str = ""
    """Which of several branches; empty if there is only one."""
    model: str = ""
    is_offline: bool = False
    thinking: str = ""
    mode: str = ""
    tokens: int = 0
    window: int = 0
    cost: float = 0.0
    is_saved: bool = True
    unsaved: int = 0


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of the line; a narrow line drops the one with the lowest ``weight`` first."""

    text: Text
    weight: int
    is_left: bool


def draw_footer(facts: FooterFacts, width: int, palette: Palette) -> Text:
    """Draw the line: the session at the left, model and cost at the right."""
    pieces = [piece for piece in _all_pieces(facts, palette) if piece.text.plain]
    if _excess(pieces, width) > 0:
        pieces = [piece for piece in pieces if piece.weight != _PROJECT_WEIGHT] or pieces
    # A name may be cut; the other parts make sense only as a whole.
    spare = sum(_spare(piece) for piece in pieces)
    while len(pieces) > 1 and _excess(pieces, width) > spare:
        pieces.remove(min(pieces, key=lambda piece: piece.weight))
    pieces = [_shrunk(piece, _excess(pieces, width)) for piece in pieces]
    gap = Text(_GAP, palette.rule)
    left = gap.join(piece.text for piece in pieces if piece.is_left)
    right = gap.join(piece.text for piece in pieces if not piece.is_left)
    return two_sided(left, right, width)


def _all_pieces(facts: FooterFacts, palette: Palette) -> list[_Piece]:
    def left(text: str, style: Style, weight: int) -> _Piece:
        return _Piece(Text(safe_text.one_line(text), style), weight, True)

    def right(text: str, style: Style, weight: int) -> _Piece:
        return _Piece(Text(safe_text.one_line(text), style), weight, False)

    unsaved = f"{facts.unsaved} not saved" if facts.unsaved else ""
    thinking = f"thinking {facts.thinking}" if facts.thinking not in ("", "off") else ""
    cost = f"${facts.cost:.2f}" if facts.cost >= 0.005 else ""
    model = "offline agent" if facts.is_offline else facts.model
    model_style = palette.of("warning") if facts.is_offline else palette.dim
    return [
        left(facts.session, palette.text, _NAME_WEIGHT),
        left(facts.branch, palette.of("success"), 6),
        left(_mode_text(facts.mode), palette.of("warning"), 7),
        left(unsaved, palette.of("error"), 10),
        left("" if facts.is_saved else "kept nowhere", palette.of("warning"), 8),
        left(facts.project, palette.dim, _PROJECT_WEIGHT),
        right(model, model_style, 4),
        right(thinking, palette.dim, 2),
        right(_tokens_text(facts), palette.dim, 5),
        right(cost, palette.dim, 3),
    ]


def _excess(pieces: list[_Piece], width: int) -> int:
    """Count the missing columns."""
    return _length(pieces, True) + _length(pieces, False) + 2 - width


def _spare(piece: _Piece) -> int:
    """Count the columns that this part can give up."""
    return max(0, piece.text.cell_len - _LEAST_NAME) if piece.weight == _NAME_WEIGHT else 0


def _shrunk(piece: _Piece, excess: int) -> _Piece:
    less = min(excess, _spare(piece))
    if less <= 0:
        return piece
    text = piece.text.copy()
    text.truncate(text.cell_len - less, overflow="ellipsis")
    return replace(piece, text=text)


def _length(pieces: list[_Piece], is_left: bool) -> int:
    sizes = [piece.text.cell_len for piece in pieces if piece.is_left == is_left]
    return sum(sizes) + len(_GAP) * max(0, len(sizes) - 1)


def _mode_text(mode: str) -> str:
    return {"": "", "none": "", "plan": "plan mode", "plan_paused": "plan paused"}.get(
        mode, f"mode {mode}"
    )


def _tokens_text(facts: FooterFacts) -> str:
    if not facts.tokens:
        return ""
    if not facts.window:
        return short_number(facts.tokens)
    share = facts.tokens * 100 // facts.window
    return f"{short_number(facts.tokens)} of {short_number(facts.window)} ({share}%)"


def short_number(number: int) -> str:
    """``950``, ``12.3k``, ``1.2M``."""
    if number < 1_000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1_000:.1f}k".replace(".0k", "k")
    return f"{number / 1_000_000:.1f}M".replace(".0M", "M")


class Footer(Widget):
    """The footer as a widget."""

    DEFAULT_CSS = """
    Footer { height: 1; width: 1fr; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__(id="footer")
        self._facts = FooterFacts()

    @property
    def facts(self) -> FooterFacts:
        return self._facts

    def show(self, facts: FooterFacts) -> None:
        """Show these facts."""
        if facts != self._facts:
            self._facts = facts
            self.refresh()

    def render(self) -> Text:
        line = draw_footer(self._facts, self.content_size.width, palette_of(self))
        line.no_wrap = True
        return line


async def read_cost(session: AgentSession) -> float:
    """Add up the session's cost. It reads all entries: call it once a session, not each answer."""
    return (await session.stats()).usage.cost


async def read_figures(session: AgentSession, cost: float, *, is_offline: bool) -> FooterFacts:
    """Read the present facts from the session."""
    branches = await session.read(read_branches)
    tokens = (await session.read(estimate_session)).tokens
    model = session.model
    return FooterFacts(
        session=session.session_name or f"session {session.session_id[:8]}",
        project=short_path(session.cwd),
        branch=word_branch(branches),
        model=model.display_name if model is not None else "no model",
        is_offline=is_offline,
        thinking=session.thinking_level,
        mode=session.mode.name,
        tokens=tokens,
        window=model.context_window if model is not None else 0,
        cost=cost,
        is_saved=session.manager.is_persisted,
        unsaved=session.unsaved,
    )


def word_branch(branches: Branches) -> str:
    """Word the branch: ``branch 2 of 3`` and the nearest label; empty if there is only one."""
    words = []
    if branches.total > 1 and branches.current:
        words.append(f"branch {branches.current} of {branches.total}")
    elif not branches.current and not branches.is_empty:
        words.append("a new branch")
    if branches.label:
        words.append(f"[{branches.label}]")
    return " ".join(words)
