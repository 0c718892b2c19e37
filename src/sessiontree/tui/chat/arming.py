"""When a key is an answer, and when it is part of something that is being typed. Pure; no clock.

A question comes up while somebody types, or while they look elsewhere. Its keys are letters. So a
key counts as an answer only if it stands alone:

- Before it there was a pause, `PAUSE_S` long: since the question was on the screen, and since the
  last key. A key that was pressed earlier was meant for what was there earlier.
- After it nothing follows for `ALONE_S`: the ``y`` that begins *yes, but first…* is a letter. Enter
  may follow at once; it confirms.

Times are those at which keys were pressed, not those at which a busy program came to look at them.
"""

from __future__ import annotations

PAUSE_S = 0.7
ALONE_S = 0.25


class Arming:
    """Whether a question may be answered at some moment."""

    def __init__(self) -> None:
        self._quiet_since: float | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether the question has been on the screen at all."""
        return self._quiet_since is not None

    def note_drawn(self, moment: float) -> None:
        """The question is on the screen as of now."""
        self._quiet_since = max(moment, self._quiet_since or moment)

    def note_hidden(self) -> None:
        """Something else covers the question."""
        self._quiet_since = None

    def note_typing(self, moment: float) -> None:
        """Somebody typed at that moment."""
        if self._quiet_since is not None:
            self._quiet_since = max(moment, self._quiet_since)

    def is_armed(self, moment: float) -> bool:
        """Whether a key that is pressed at that moment is an answer."""
        return self._quiet_since is not None and moment - self._quiet_since >= PAUSE_S
