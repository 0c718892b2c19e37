"""``SessiontreeSession``: a session of the OpenAI Agents SDK that destroys nothing.

    session = SessiontreeSession("chat-42")
    result = await Runner.run(agent, "Hello", session=session)

The SDK pops items to take a turn back, clears sessions, and replaces a history when it compacts it.
Here each of these moves the leaf and leaves everything where it was:

================== ==============================================================================
``add_items``      an entry for each item, in one write, below what others have added meanwhile
``pop_item``       the leaf goes to before the last item
``clear_session``  the leaf goes to before the first item
compaction         the replacement is a new branch, from where the history is still the same
================== ==============================================================================

So ``sessiontree tree`` shows what was popped, cleared or compacted, and all of it can be continued.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, cast

try:
    from agents.memory import OpenAIResponsesCompactionSession, SessionSettings
    from agents.memory.session import _CompactionSnapshot
    from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'openai-agents is not installed: pip install "sessiontree[openai]"', name=error.name
    ) from error

from sessiontree.adapters.entries import fresh_id, holds_object, skip, wire
from sessiontree.adapters.openai_items import (
    NO_USAGE,
    PROVIDER,
    Item,
    message_of,
    pack_item,
    unpack_item,
)
from sessiontree.adapters.sessions import OpenSessions, Wanted, append
from sessiontree.adapters.verbatim import NATIVE, UnpackError
from sessiontree.errors import SessionNotFoundError
from sessiontree.model.entries import LEAF_MARKER, Entry
from sessiontree.profiles import Profile
from sessiontree.session.manager import SessionManager
from sessiontree.stores import Storage
from sessiontree.stores.base import StrPath

if TYPE_CHECKING:
    from agents import RunContextWrapper, TResponseInputItem
    from agents.memory import OpenAIResponsesCompactionArgs
    from openai import AsyncOpenAI

HARNESS = PROVIDER


class SessiontreeSession:
    """A conversation of the OpenAI Agents SDK in a Sessiontree store.

    ``storage``, ``profile`` and ``scope`` say where, as for ``SessionManager``; the default is
    Sessiontree's own files, in the project ``cwd``. ``session_settings`` are the SDK's own.

    With ``compaction_model`` the Runner compacts the conversation with that model of OpenAI's after
    a turn, when ``should_compact`` says so; by default after ten items. ``compaction_client`` is
    the client for it. Sessions that the SDK wraps this one in (encryption, compaction) work, too.
    """

    def __init__(
        self,
        session_id: str,
        *,
        storage: Storage | None = None,
        profile: str | Profile | None = None,
        scope: str | None = None,
        cwd: StrPath | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        compaction_model: str | None = None,
        compaction_client: AsyncOpenAI | None = None,
        should_compact: Callable[[dict[str, Any]], bool] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = (
            coerce_session_settings(session_settings)
            if session_settings is not None
            else SessionSettings()
        )
        self._sessions = OpenSessions(
            HARNESS, storage=storage, profile=profile, scope=scope, cwd=cwd
        )
        self._compaction_model = compaction_model
        self._compaction_client = compaction_client
        self._should_compact = should_compact
        self._deferred: str | None = None
        """The response after which a compaction was due, but had to wait for a tool's output."""
        self._spent: weakref.WeakKeyDictionary[Any, tuple[int, ...]] = weakref.WeakKeyDictionary()

    # -- the protocol ----------------------------------------------------------------------

    async def get_items(
        self,
        limit: int | None = None,
        *,
        wrapper: RunContextWrapper[Any] | None = None,  # noqa: ARG002 - the SDK passes it
    ) -> list[TResponseInputItem]:
        """The conversation, or its last ``limit`` items, oldest first."""
        wanted = resolve_session_limit(limit, self.session_settings)
        count = wanted if wanted is not None and wanted >= 0 else None

        def read(manager: SessionManager) -> list[Item]:
            return _read(manager.get_branch(), count)

        return cast("list[TResponseInputItem]", await self._run(read, []))

    async def add_items(
        self,
        items: list[TResponseInputItem],
        *,
        wrapper: RunContextWrapper[Any] | None = None,
    ) -> None:
        """Add items, all of them or, if that raises, none."""
        if not items:
            return
        usage = self._usage_since(wrapper)
        given = [cast("Item", item) for item in items]

        def add(manager: SessionManager) -> None:
            append(manager, lambda: _entries(manager, given, usage=usage))

        await self._sessions.run(self.session_id, add, only_appends=True)

    async def pop_item(
        self,
        *,
        wrapper: RunContextWrapper[Any] | None = None,  # noqa: ARG002
    ) -> TResponseInputItem | None:
        """The last item, which is no longer part of the conversation; it stays in the tree."""

        def pop(manager: SessionManager) -> Item | None:
            popped: list[Item] = []

            def go_back() -> list[Wanted]:
                popped.clear()
                for entry, item in _newest_first(manager.get_branch()):
                    popped.append(item)
                    return [_leaf_at(entry.parent_id)]
                return []

            append(manager, go_back)
            return popped[0] if popped else None

        self._deferred = None
        return cast("TResponseInputItem | None", await self._run(pop, None))

    async def clear_session(
        self,
        *,
        wrapper: RunContextWrapper[Any] | None = None,  # noqa: ARG002
    ) -> None:
        """Begin again with an empty conversation; the old one stays in the tree."""

        def clear(manager: SessionManager) -> None:
            append(manager, lambda: [_leaf_at(None)] if manager.leaf_id is not None else [])

        self._deferred = None
        await self._run(clear, None)

    async def run_compaction(
        self,
        args: OpenAIResponsesCompactionArgs | None = None,
        *,
        wrapper: RunContextWrapper[Any] | None = None,
    ) -> None:
        """Replace the conversation by the result of OpenAI's compaction, on a new branch.

        The Runner calls this after each turn. Nothing happens without a ``compaction_model``.
        """
        if self._compaction_model is None:
            return
        compaction = self._compaction(self._compaction_model)
        await compaction.run_compaction(args, wrapper=wrapper)
        self._deferred = compaction._get_deferred_compaction_response_id()  # noqa: SLF001

    async def aclose(self) -> None:
        """Close the session. It can be used again."""
        await self._sessions.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # -- what the Runner asks of a session that compacts, by names that only the SDK knows --

    async def _defer_compaction(self, response_id: str, store: bool | None = None) -> None:
        """Note that a compaction is due, which has to wait until the model has seen an output."""
        if self._compaction_model is None:
            return
        compaction = self._compaction(self._compaction_model)
        await compaction._defer_compaction(response_id, store)  # noqa: SLF001
        self._deferred = compaction._get_deferred_compaction_response_id()  # noqa: SLF001

    def _get_deferred_compaction_response_id(self) -> str | None:
        """The response of a compaction that is due; the next one is then made in any case."""
        return self._deferred

    def _compaction(self, model: str) -> OpenAIResponsesCompactionSession:
        made = OpenAIResponsesCompactionSession(
            self.session_id,
            cast("Any", self),
            client=self._compaction_client,
            model=model,
            should_trigger_compaction=self._should_compact,
        )
        made._deferred_response_id = self._deferred  # noqa: SLF001
        return made

    # -- what the SDK's compaction asks of a session that replaces atomically --------------

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        """Make these the conversation, in one write."""
        given = [cast("Item", item) for item in items]

        def replace(manager: SessionManager) -> None:
            append(manager, lambda: _branch(manager, None, given))

        await self._sessions.run(self.session_id, replace)
        return True

    async def _get_compaction_snapshot(
        self,
        limit: int,
        *,
        prune_prefix: Callable[[TResponseInputItem], bool] | None = None,  # noqa: ARG002
    ) -> _CompactionSnapshot | None:
        """The last ``limit`` items, and a way to replace an end of them if it is still the end.

        ``prune_prefix`` says what else may be deleted: encrypted items that have expired, which no
        reader gets. They stay where they are.
        """

        def read(manager: SessionManager) -> tuple[list[tuple[Entry, Item]], bool]:
            newest = [*islice(_newest_first(manager.get_branch()), limit + 1)]
            return newest[:limit][::-1], len(newest) <= limit

        found, is_complete = await self._run(read, ([], True))

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            expected = [entry.id for entry, _ in found[start:]]
            given = [cast("Item", item) for item in output]
            if not expected:
                return False

            def replace(manager: SessionManager) -> bool:
                def make() -> list[Wanted]:
                    last = [*islice(_newest_first(manager.get_branch()), len(expected))][::-1]
                    if [entry.id for entry, _ in last] != expected:
                        return []
                    return _branch(manager, last[0][0].parent_id, given)

                return bool(append(manager, make))

            return await self._sessions.run(self.session_id, replace)

        items = cast("list[TResponseInputItem]", [item for _, item in found])
        return _CompactionSnapshot(items, is_complete, replace_suffix)

    # -- helpers ---------------------------------------------------------------------------

    async def _run(self, work: Callable[[SessionManager], Any], missing: Any) -> Any:
        """Run work on the session; ``missing`` if nothing has been said in it yet."""
        try:
            return await self._sessions.run(self.session_id, work, create=False)
        except SessionNotFoundError:
            return missing

    def _usage_since(self, wrapper: RunContextWrapper[Any] | None) -> dict[str, Any] | None:
        """The usage of a run since it last added items."""
        if wrapper is None:
            return None
        usage = wrapper.usage
        details = usage.input_tokens_details
        cached = getattr(details, "cached_tokens", None) or 0
        total = (usage.input_tokens, usage.output_tokens, cached)
        before = self._spent.get(wrapper, (0, 0, 0))
        self._spent[wrapper] = total
        fresh, output, read = (now - then for now, then in zip(total, before, strict=True))
        if fresh <= 0 and output <= 0:
            return None
        counts = {"input": max(0, fresh - read), "output": output, "cacheRead": read}
        return {**NO_USAGE, **counts, "totalTokens": fresh + output}


# -- writing -----------------------------------------------------------------------------------


def _entries(
    manager: SessionManager, items: Sequence[Item], *, usage: dict[str, Any] | None = None
) -> list[Wanted]:
    """An entry for each item; the run's usage goes to the last answer among them."""
    names = _ToolNames(manager)
    now = manager.store.clock()
    made: list[dict[str, Any]] = []
    answer: dict[str, Any] | None = None
    for item in items:
        message = message_of(item, now, names)
        names.note(item)
        packed = {HARNESS: pack_item(item, message)}
        if message is None:
            made.append({"type": "custom", "customType": f"{HARNESS}.item", NATIVE: packed})
            continue
        if message["role"] == "assistant":
            answer = message
            if manager.store.dialect == "pi":
                message["usage"] = NO_USAGE
        made.append({"type": "message", "message": message, NATIVE: packed})
    if answer is not None and usage is not None:
        answer["usage"] = usage
    return [*made]


class _ToolNames(dict[str, str]):
    """The names of tools by the ids of their calls, looked up in the session if need be."""

    def __init__(self, manager: SessionManager) -> None:
        super().__init__()
        self._manager = manager

    def note(self, item: Item) -> None:
        if item.get("type") == "function_call":
            self[str(item.get("call_id"))] = str(item.get("name"))

    def get(self, call_id: str, default: Any = None) -> Any:
        if call_id not in self:
            for entry in islice(_path_up(self._manager), 50):  # calls stand close to their outputs
                message = wire(entry).get("message")
                for block in (message or {}).get("content") or ():
                    if isinstance(block, dict) and block.get("type") == "toolCall":
                        self.setdefault(str(block.get("id")), str(block.get("name")))
                if call_id in self:
                    break
        return super().get(call_id, default)


def _path_up(manager: SessionManager) -> Iterator[Entry]:
    entry = manager.leaf_entry
    while entry is not None:
        yield entry
        entry = manager.get_entry(entry.parent_id) if entry.parent_id is not None else None


def _leaf_at(entry_id: str | None) -> Wanted:
    """An entry that keeps where the conversation stands."""
    return {"type": "custom", "customType": LEAF_MARKER, "parentId": entry_id}


def _branch(manager: SessionManager, parent_id: str | None, items: Sequence[Item]) -> list[Wanted]:
    """Items on a new branch: a marker that begins it, and they continue from there."""
    marker = {**_leaf_at(parent_id), "id": fresh_id(manager)}
    made: list[Wanted] = [marker]
    for wanted in _entries(manager, items):
        entry = {**wanted, "parentId": made[-1]["id"], "id": fresh_id(manager)}
        made.append(entry)
    return made


# -- reading -----------------------------------------------------------------------------------


def _read(path: Sequence[Entry], count: int | None) -> list[Item]:
    found = [item for _, item in islice(_newest_first(path), count)]
    found.reverse()
    return found


def _newest_first(path: Sequence[Entry]) -> Iterator[tuple[Entry, Item]]:
    """The items on a path, the last one first; one that cannot be read is left out."""
    for entry in reversed(path):
        data = wire(entry)
        if holds_object(data, HARNESS):
            try:
                yield entry, unpack_item(data[NATIVE][HARNESS], data.get("message"))
            except UnpackError as error:
                skip(entry, HARNESS, error)
