"""Names and ids of tool calls that every provider accepts: letters, digits, ``_`` and ``-``.

Some agents use the same ids in every turn, or ids with signs that others refuse.
"""

from __future__ import annotations

import re

from sessiontree.model.messages import as_text

_REFUSED = re.compile("[^0-9A-Za-z_-]")
_MOST = 64


class CallIds:
    """The ids of one conversation's calls; results follow their calls."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._open: dict[str, list[str]] = {}

    def call(self, call_id: object) -> str:
        """The id for a call, like no other."""
        plain = _plain(call_id)[: _MOST - 8] or "call"
        made, count = plain, 1
        while made in self._taken:
            count += 1
            made = f"{plain}_{count}"
        self._taken.add(made)
        self._open.setdefault(str(call_id), []).append(made)
        return made

    def answer(self, call_id: object) -> str:
        """The id for the result of the latest call of that id that has none."""
        waiting = self._open.get(str(call_id))
        return waiting.pop() if waiting else self.call(call_id)

    @staticmethod
    def name(tool: object) -> str:
        """The name of a tool."""
        return _plain(tool)[:_MOST] or "unknown"


def _plain(value: object) -> str:
    return _REFUSED.sub("_", as_text(value))
