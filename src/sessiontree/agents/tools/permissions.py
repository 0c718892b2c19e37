"""Permissions that a user gave, so that the same question is not asked twice.

Decides how far a permission reaches. None outlives the session it was given in: the code that asks
holds the `Permissions`, shows them and clears them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sessiontree.agents.tools.base import Confirmation, Reach


@dataclass(frozen=True, slots=True)
class Permission:
    """One tool, and how far it may go without a question."""

    tool_name: str
    reach: Reach
    subject: str = ""
    """The command or the file, for ``call``."""
    folder: str = ""
    """Where it works; empty for ``session``."""

    @classmethod
    def of(cls, question: Confirmation, reach: Reach) -> Permission:
        """The permission that would have made this question needless."""
        match reach:
            case "call":
                return cls(question.tool_name, reach, question.identity, question.folder)
            case "folder":
                if not question.folder:
                    raise ValueError(f"{question.tool_name} does not say in which folder it works")
                return cls(question.tool_name, reach, folder=question.folder)
            case "session":
                return cls(question.tool_name, reach)

    def covers(self, question: Confirmation) -> bool:
        """Whether this allows the call in question."""
        if question.tool_name != self.tool_name:
            return False
        match self.reach:
            case "call":
                return (question.identity, question.folder) == (self.subject, self.folder)
            case "folder":
                return question.folder == self.folder or question.folder.startswith(
                    self.folder.rstrip("/") + "/"
                )
            case "session":
                return True


class Permissions:
    """The permissions that were given, in their order."""

    def __init__(self) -> None:
        self._given: list[Permission] = []

    def __iter__(self) -> Iterator[Permission]:
        return iter(tuple(self._given))

    def __len__(self) -> int:
        return len(self._given)

    def give(self, permission: Permission) -> None:
        """Allow this from now on."""
        if permission not in self._given:
            self._given.append(permission)

    def revoke(self, permission: Permission) -> None:
        """Ask again from now on; nothing happens if this was not allowed."""
        if permission in self._given:
            self._given.remove(permission)

    def clear(self) -> None:
        """Ask about everything again."""
        self._given.clear()

    def cover(self, question: Confirmation) -> bool:
        """Whether some permission covers the call in question."""
        return any(permission.covers(question) for permission in self._given)
