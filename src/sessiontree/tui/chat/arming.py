"""Tell a key that answers a question from a key that is part of typing. Pure; no clock.

A question may come up while the user types, or looks elsewhere, and its keys are letters. So a key
counts as an answer only if it stands alone:

- Before it there was a pause of `PAUSE_S`, counted from the moment the question was on the screen
  and from the last key. A key pressed earlier was meant for what the screen showed then.
- After it no letter follows for `ALONE_S`: the ``y`` that begins *yes, but first…* is typing. Enter
  may follow at once; it confirms.

Times are those at which keys were pressed, not those at which a busy program handled them.
"""

from __future__ import annotations

PAUSE_S = 0.7
ALONE_S = 0.25


class Arming:
    """Decide whether a key pressed at some moment answers the question."""

    def __init__(self) -> None:
        self._quiet_since: float | None = None

    def note_drawn(self, moment: float) -> None:
        """Note that the question is on the screen as of this moment."""
        self._quiet_since = max(moment, self._quiet_since or moment)

    def note_hidden(self) -> None:
        """Note that something else covers the question."""
        self._quiet_since = None

    def note_typing(self, moment: float) -> None:
        """Note that the user typed at this moment."""
        if self._quiet_since is not None:
            self._quiet_since = max(moment, self._quiet_since)

    def is_armed(self, moment: float) -> bool:
        """Whether a key that is pressed at that moment is an answer."""
        return self._quiet_since is not None and moment - self._quiet_since >= PAUSE_S
