"""The base of all tools: description for the model, call, outcome, questions to the user.

Owns the values that tools and the toolbox exchange, and checking of arguments. Knows no tool, no
file and no model provider.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from sessiontree.errors import SessionTreeError

Effect = Literal["read", "write", "run"]
"""What a call can do to the project; everything but ``read`` needs a confirmation."""

Block = dict[str, Any]
"""A content block as a session file has it."""

PreviewKind = Literal["command", "diff", "content", "text"]
"""The kind of a preview: a shell command, a unified diff, the whole content of a file, or words."""

Reach = Literal["call", "folder", "session"]
"""The reach of a permission: this call, the tool in one folder, or the tool in this session."""

Kind = Literal["string", "integer", "boolean", "array"]
Report = Callable[[str], Awaitable[None]]
_T = TypeVar("_T")


class ToolError(SessionTreeError):
    """The call failed; the model gets the message. ``details`` go into the result."""

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        self.details = dict(details) if details is not None else None
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A question to the user: may this call go on?

    ``title`` is one line, ``preview`` shows all of what would be written or run. Both come from a
    model. The asking code shows all of both, or lets the user page to the end, and makes what
    cannot be seen visible (``sessiontree.text.escaping.exact``) before a yes counts."""

    tool_call_id: str
    tool_name: str
    effect: Effect
    title: str
    preview: str
    preview_kind: PreviewKind = "text"
    subject: str = ""
    """The command, or the file that is written: what a permission for this very call names."""
    folder: str = ""
    """Where the command runs or the file is, links followed; empty if the tool doesn't say."""

    @property
    def identity(self) -> str:
        """The key under which a question counts as the same one."""
        return self.subject or f"{self.title}\n{self.preview}"

    @property
    def reaches(self) -> tuple[Reach, ...]:
        """The permissions that can be given instead of a yes, the narrowest first."""
        made: list[Reach] = ["call"]
        if self.folder:
            made.append("folder")
        if self.effect != "run" or not self.folder:
            made.append("session")  # commands run in the project's folder only
        return tuple(made)


Confirm = Callable[[Confirmation], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    name: str
    kind: Kind
    description: str
    required: bool = False
    minimum: int | None = None
    maximum: int | None = None
    items: Mapping[str, Any] | None = None
    """Of an array: what one of its items is, as a JSON schema. The tool checks the items."""

    def schema(self) -> dict[str, Any]:
        made: dict[str, Any] = {"type": self.kind, "description": self.description}
        if self.minimum is not None:
            made["minimum"] = self.minimum
        if self.maximum is not None:
            made["maximum"] = self.maximum
        if self.items is not None:
            made["items"] = dict(self.items)
        return made


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool's definition for the model."""

    name: str
    description: str
    effect: Effect
    parameters: tuple[Parameter, ...]

    def schema(self) -> dict[str, Any]:
        """The arguments as a JSON schema."""
        return {
            "type": "object",
            "properties": {one.name: one.schema() for one in self.parameters},
            "required": [one.name for one in self.parameters if one.required],
            "additionalProperties": False,
        }

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments in their right types. Raises ToolError; unknown ones are left out.

        Models send numbers as strings and null for what they leave out; both are understood.
        """
        made: dict[str, Any] = {}
        for one in self.parameters:
            value = arguments.get(one.name)
            if value is None:
                if one.required:
                    raise ToolError(f'{self.name}: the argument "{one.name}" is missing')
                continue
            made[one.name] = self._typed(one, value)
        return made

    def _typed(self, one: Parameter, value: object) -> object:
        match one.kind:
            case "string" if isinstance(value, str):
                return value
            case "array" if isinstance(value, list):
                return value
            case "boolean" if isinstance(value, bool):
                return value
            case "boolean" if isinstance(value, str) and value.lower() in ("true", "false"):
                return value.lower() == "true"
            case "integer" if (number := _integer(value)) is not None:
                if one.minimum is not None and number < one.minimum:
                    raise ToolError(f'{self.name}: "{one.name}" must be at least {one.minimum}')
                return number if one.maximum is None else min(number, one.maximum)
            case _:
                raise ToolError(f'{self.name}: "{one.name}" must be of type {one.kind}')


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call with checked arguments, and its ways to the outside."""

    id: str
    name: str
    effect: Effect
    arguments: Mapping[str, Any]
    report: Report
    """Shows the output so far while the call runs."""
    confirm: Confirm | None = None

    async def ask(
        self,
        title: str,
        preview: str,
        preview_kind: PreviewKind = "text",
        *,
        subject: str = "",
        folder: str = "",
    ) -> None:
        """Ask the user, and return only after a yes. Raises ToolError on anything else."""
        if self.confirm is None:
            raise ToolError(f"{self.name} was not run: it needs approval, and no one can be asked")
        question = Confirmation(
            self.id, self.name, self.effect, title, preview, preview_kind, subject, folder
        )
        # Only the very value True counts: a callback that forgets to answer has not agreed.
        if await self.confirm(question) is not True:
            raise ToolError(f"{self.name} was not run: the user declined")


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The outcome of a call."""

    content: list[Block]
    details: dict[str, Any] | None = None
    is_error: bool = False

    @classmethod
    def text(
        cls, text: str, details: dict[str, Any] | None = None, *, is_error: bool = False
    ) -> ToolOutcome:
        return cls([{"type": "text", "text": text}], details, is_error)


class Tool(Protocol):
    """Something a model can call."""

    @property
    def spec(self) -> ToolSpec:
        """The definition for the model."""

    async def run(self, call: ToolCall) -> ToolOutcome:
        """Run the call. Raises ToolError, ConfinementError or OSError; cancelling ends it."""


@dataclass(slots=True)
class Stop:
    """Tells work in a thread that its result is no longer needed."""

    _event: threading.Event = field(default_factory=threading.Event)

    def set(self) -> None:
        self._event.set()

    def check(self) -> None:
        """Raises ToolError once the call was aborted."""
        if self._event.is_set():
            raise ToolError("aborted")


async def in_thread(work: Callable[[Stop], _T]) -> _T:
    """Run blocking work in a thread.

    When cancelled, it stops the work and awaits it before it passes the cancellation on: a file
    must not change after its call was recorded as aborted.
    """
    stop = Stop()
    task = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue
        if not task.cancelled():
            # Retrieve it: asyncio logs an exception that was never retrieved.
            task.exception()
        raise


def _integer(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return None
    return None
