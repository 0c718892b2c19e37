"""Walk through earlier prompts with the arrow keys. Pure.

Keeps the position among the prompts, and the unsent text that comes after the newest.
"""

from __future__ import annotations

from collections.abc import Iterable


class Recall:
    """Earlier prompts, newest first, and the position among them."""

    def __init__(self, prompts: Iterable[str] = ()) -> None:
        self._prompts: list[str] = []
        self._place = -1
        self._draft = ""
        self.load(prompts)

    def load(self, prompts: Iterable[str]) -> None:
        """Set the earlier prompts, newest first; each is offered once."""
        self._prompts = list(dict.fromkeys(prompts))
        self.leave()

    def add(self, prompt: str) -> None:
        """Add a prompt that was sent."""
        self._prompts = [prompt, *(one for one in self._prompts if one != prompt)]
        self.leave()

    def leave(self) -> None:
        """Go back to the end and forget the unsent text."""
        self._place = -1
        self._draft = ""

    def older(self, text: str) -> str | None:
        """Return the next older prompt, if any. ``text`` is what the editor shows now."""
        if self._place + 1 >= len(self._prompts):
            return None
        if self._place < 0:
            self._draft = text
        self._place += 1
        return self._prompts[self._place]

    def newer(self) -> str | None:
        """Return the next newer prompt, finally the unsent text; None if it is shown already."""
        if self._place < 0:
            return None
        self._place -= 1
        if self._place < 0:
            return self._draft
        return self._prompts[self._place]
