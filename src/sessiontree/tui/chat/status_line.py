"""The line between conversation and editor: the present activity, else the latest notice.

Decides how long a notice stays. The clock is passed in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.text import Text
from textual.geometry import Size
from textual.widget import Widget

from sessiontree.tui import safe_text
from sessiontree.tui.chat.event_state import Narrator
from sessiontree.tui.palette import Palette
from sessiontree.tui.theme import palette_of
from sessiontree.tui.transcript.styled_text import wrap_text

_NOTICE_S = 12.0
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class StatusLine(Widget):
    """Show one thing at a time, on more lines only while it is long."""

    DEFAULT_CSS = """
    StatusLine { height: auto; min-height: 1; width: 1fr; }
    """

    def __init__(
        self, narrator: Narrator, clock: Callable[[], float], is_asking: Callable[[], bool]
    ) -> None:
        """``is_asking`` returns whether the agent waits for the user's answer."""
        super().__init__(id="status")
        self._narrator = narrator
        self._clock = clock
        self._is_asking = is_asking
        self._notice: tuple[str, bool] | None = None
        self._ends_at = 0.0
        self._then = ""
        self._work: list[tuple[str, float]] = []
        self._was_active = False
        self._height = 1

    @property
    def notice(self) -> str:
        """The latest notice, while it is shown."""
        return self._notice[0] if self._notice is not None else ""

    @property
    def is_busy(self) -> bool:
        """Whether the program itself is busy."""
        return bool(self._work)

    def say(
        self, text: str, *, is_bad: bool = False, for_s: float = _NOTICE_S, then: str = ""
    ) -> None:
        """Show one line for a while, and after it the line ``then``."""
        self._notice = (text, is_bad)
        self._ends_at = self._clock() + for_s
        self._then = then
        self._redraw()

    def unsay(self, text: str = "") -> None:
        """Take back this notice, or without a text any notice."""
        if self._notice is not None and text in ("", self._notice[0]):
            self._notice = None
            self._redraw()

    @contextlib.contextmanager
    def busy(self, word: str) -> Iterator[None]:
        """Show this word while the block runs."""
        work = (word, self._clock())
        self._work.append(work)
        try:
            yield
        finally:
            self._work.remove(work)
            self._redraw()

    def tick(self) -> None:
        """Update the line after time has passed."""
        if self._notice is not None and self._clock() >= self._ends_at:
            self.unsay()
            if self._then:
                self.say(self._then)
        is_active = self.is_busy or self._narrator.running_since is not None
        if is_active or self._was_active:
            self._redraw()
        self._was_active = is_active

    # -- drawing ---------------------------------------------------------------------------------

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        return max(1, len(self._draw_lines(width)))

    def _redraw(self) -> None:
        if not self.is_attached:
            return
        height = max(1, len(self._draw_lines(self.content_size.width or 80)))
        self.refresh(layout=height != self._height)
        self._height = height

    def render(self) -> Text:
        text = Text("\n").join(self._draw_lines(self.content_size.width))
        text.no_wrap = True
        return text

    def _draw_lines(self, width: int) -> list[Text]:
        since = self._narrator.running_since
        if since is not None and self._is_asking():
            activity = "Waiting for your answer"
        elif since is not None:
            activity = f"{self._narrator.doing or 'Working'} · Esc stops"
        else:
            activity, since = self._work[-1] if self._work else ("", 0.0)
        seconds = self._clock() - since
        # leave a small screen to the conversation
        most_lines = min(3, max(1, self.screen.size.height // 8))
        palette = palette_of(self)
        return draw_status(activity, seconds, self._notice, width, palette, most_lines)


def draw_status(
    activity: str,
    seconds: float,
    notice: tuple[str, bool] | None,
    width: int,
    palette: Palette,
    most_lines: int = 3,
) -> list[Text]:
    """Draw the activity, else the notice, wrapped to a few lines."""
    lines = wrap_text(_status_text(activity, seconds, notice, palette), width)
    if len(lines) > most_lines:
        lines = lines[:most_lines]
        lines[-1] = Text(safe_text.fit(f"{lines[-1].plain} …", width), lines[-1].style)
    return lines


def _status_text(
    activity: str, seconds: float, notice: tuple[str, bool] | None, palette: Palette
) -> Text:
    if activity:
        frame = _SPINNER[int(seconds * 10) % len(_SPINNER)]
        line = Text.assemble(
            (f"{frame} ", palette.of("accent")),
            (safe_text.one_line(activity), palette.text),
            (f" · {elapsed_text(seconds)}" if seconds >= 1 else "", palette.dim),
        )
        if notice is not None:
            line.append(f" · {safe_text.one_line(notice[0])}", _tone(notice[1], palette))
        return line
    if notice is None:
        return Text()
    return Text(safe_text.one_line(notice[0]), _tone(notice[1], palette))


def elapsed_text(seconds: float) -> str:
    """``12s``, ``3m 5s``."""
    whole = int(seconds)
    return f"{whole}s" if whole < 60 else f"{whole // 60}m {whole % 60}s"


def _tone(is_bad: bool, palette: Palette) -> str:
    return palette.error if is_bad else palette.muted
