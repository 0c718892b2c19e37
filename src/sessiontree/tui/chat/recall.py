"""Going back through earlier prompts with the arrow keys. Pure.

Owns where one is among the prompts, and the unsent text that waits at the end of them.
"""

from __future__ import annotations

from collections.abc import Iterable


class Recall:
    """Earlier prompts, newest first, and the place among them."""

    def __init__(self, prompts: Iterable[str] = ()) -> None:
        self._prompts: list[str] = []
        self._place = -1
        self._draft = ""
        self.load(prompts)

    def load(self, prompts: Iterable[str]) -> None:
        """These are the earlier prompts, newest first; each is offered once."""
        self._prompts = list(dict.fromkeys(prompts))
        self.leave()

    def add(self, prompt: str) -> None:
        """A prompt was sent."""
        self._prompts = [prompt, *(one for one in self._prompts if one != prompt)]
        self.leave()

    def leave(self) -> None:
        """Back to the end; the unsent text is no longer remembered."""
        self._place = -1
        self._draft = ""

    def older(self, text: str) -> str | None:
        """The next older prompt; None if there is none. ``text`` is what the editor shows now."""
        if self._place + 1 >= len(self._prompts):
            return None
        if self._place < 0:
            self._draft = text
        self._place += 1
        return self._prompts[self._place]

    def newer(self) -> str | None:
        """The next newer prompt, at last the unsent text; None if that is shown already."""
        if self._place < 0:
            return None
        self._place -= 1
        if self._place < 0:
            return self._draft
        return self._prompts[self._place]
