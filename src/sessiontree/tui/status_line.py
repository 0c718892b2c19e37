"""The line between conversation and editor: what goes on, else what was said last.

Owns how long a notice stays and the words for work that takes a moment. The clock is passed in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.text import Text

from sessiontree.tui.bars import Bar
from sessiontree.tui.chat_panels import draw_status
from sessiontree.tui.narrator import Narrator
from sessiontree.tui.theme import palette_of

_NOTICE_S = 12.0


class StatusLine(Bar):
    """Says one thing at a time."""

    def __init__(self, narrator: Narrator, clock: Callable[[], float]) -> None:
        super().__init__(self._draw_line, id="status")
        self._narrator = narrator
        self._clock = clock
        self._notice: tuple[str, bool] | None = None
        self._noticed_at = 0.0
        self._work: list[tuple[str, float]] = []
        self._was_active = False

    @property
    def notice(self) -> str:
        """What was said last, while it is shown."""
        return self._notice[0] if self._notice is not None else ""

    @property
    def is_busy(self) -> bool:
        """Whether something of the program's own is under way."""
        return bool(self._work)

    def say(self, text: str, *, is_bad: bool = False) -> None:
        """One line, for a while."""
        self._notice = (text, is_bad)
        self._noticed_at = self._clock()
        self.refresh()

    @contextlib.contextmanager
    def busy(self, word: str) -> Iterator[None]:
        """Say this while something is being done that takes a moment."""
        work = (word, self._clock())
        self._work.append(work)
        try:
            yield
        finally:
            self._work.remove(work)
            self.refresh()

    def tick(self) -> None:
        """Time has passed."""
        if self._notice is not None and self._clock() - self._noticed_at > _NOTICE_S:
            self._notice = None
            self.refresh()
        is_active = self.is_busy or self._narrator.running_since is not None
        if is_active or self._was_active:
            self.refresh()
        self._was_active = is_active

    def _draw_line(self, width: int) -> Text:
        since = self._narrator.running_since
        if since is not None:
            activity = f"{self._narrator.activity or 'Working'} · Esc stops"
        else:
            activity, since = self._work[-1] if self._work else ("", 0.0)
        seconds = self._clock() - since
        return draw_status(activity, seconds, self._notice, width, palette_of(self))
