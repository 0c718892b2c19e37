"""The pane beside a picker's list: the session's facts and the end of its conversation.

Reads previews in the background, keeps the latest hundred, and draws the one for the cursor's row.
Until that is read, the one before stays for a moment: blanking the pane at every key would flicker
and, over a slow line, cost as much as the preview itself.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text
from textual.widget import Widget

from sessiontree.scope import Scope
from sessiontree.tui.background import BackgroundWork, run_in_background
from sessiontree.tui.pickers.session_rows import SessionRow, draw_heading
from sessiontree.tui.theme import palette_of

if TYPE_CHECKING:  # what reads and draws previews loads behind the first rows
    from sessiontree.tui.pickers.session_preview import Preview

_KEPT = 100
_PAUSE_S = 0.08
"""Pause before reading, so that a cursor that runs down a list reads nothing."""
_LINGER_S = 0.3
"""How long the preview of another row may stay."""


class PreviewPane(Widget):
    """Show one row of a session picker in detail."""

    def __init__(self, scope: Scope, clock: Callable[[], datetime]) -> None:
        super().__init__(id="preview")
        self._scope = scope
        self._clock = clock
        self._words: tuple[str, ...] = ()
        self._row: SessionRow | None = None
        self._previews: dict[tuple[object, ...], Preview] = {}
        self._work: BackgroundWork | None = None
        self._wanted = 0
        self._shown: tuple[Preview, tuple[str, ...]] | None = None
        """The preview on the screen, perhaps of the row before, and the words marked in it."""

    def show(self, row: SessionRow | None, words: tuple[str, ...] = ()) -> None:
        """Show this row now, and its preview, with these words marked, once it is read."""
        if row is not None and row == self._row and words == self._words and self.is_ready:
            return
        self._row = row
        self._words = words
        self._wanted += 1
        if row is None:
            self._shown = None
        self.refresh()
        if self._work is not None:
            self._work.stop()
            self._work = None
        if row is not None and self._key(row) not in self._previews:
            wanted = self._wanted
            self.set_timer(_PAUSE_S, lambda: self._read(wanted))
            self.set_timer(_LINGER_S, lambda: self._clear(wanted))

    def _clear(self, wanted: int) -> None:
        """Show no other row's preview any longer."""
        if wanted == self._wanted and not self.is_ready:
            self._shown = None
            self.refresh()

    def _read(self, wanted: int) -> None:
        row = self._row
        if wanted != self._wanted or row is None:
            return
        key, path, words, scope = self._key(row), row.info.path, self._words, self._scope
        agent = scope.agent_of(row.info)

        def take(preview: Preview) -> None:
            self._previews[key] = preview
            while len(self._previews) > _KEPT:
                del self._previews[next(iter(self._previews))]
            self.refresh()

        def load(_: BackgroundWork) -> Preview:
            from sessiontree.tui.pickers.session_preview import load_preview

            return load_preview(path, scope.store_of(path), agent=agent, words=words)

        self._work = run_in_background(self, load, take)

    @property
    def is_ready(self) -> bool:
        """Whether the preview is read."""
        return self._row is None or self._key(self._row) in self._previews

    def _key(self, row: SessionRow) -> tuple[object, ...]:
        return row.info.path, row.info.modified.timestamp(), self._words

    def render(self) -> Text:
        if self._row is None:
            return Text()
        palette = palette_of(self)
        width, height = self.content_size
        lines = draw_heading(self._row, width, palette, self._clock())
        found = self._previews.get(self._key(self._row))
        if found is not None:
            self._shown = found, self._words
        room = height - len(lines) - 1
        if self._shown is not None and room > 0:
            from sessiontree.tui.pickers.session_preview import draw_preview

            preview, words = self._shown
            lines += [Text(), *draw_preview(preview, palette, width, room, words)]
        text = Text("\n").join(lines[:height])
        text.no_wrap = True
        return text
