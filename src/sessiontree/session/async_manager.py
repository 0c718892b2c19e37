"""``AsyncSessionManager``: a ``SessionManager`` for asyncio, with the same names, awaitable.

Each has one worker thread, on which all its calls run in the order they were made. A call that has
begun is never abandoned: a cancelled task is cancelled when its call is over, so an entry is
written whole or not at all, and what comes next finds the session at rest.
"""

from __future__ import annotations

import asyncio
import builtins
import functools
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sessiontree.errors import SessionTreeError
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header
from sessiontree.model.lines import SessionWarning
from sessiontree.profiles import Profile
from sessiontree.session.manager import SessionManager
from sessiontree.session.worker import DiskThread, run_to_end
from sessiontree.stores import Storage
from sessiontree.stores.base import Durability, SessionStore

_P = ParamSpec("_P")
_R = TypeVar("_R")
_LOOK_S = 0.5


def _awaitable(
    method: Callable[Concatenate[SessionManager, _P], _R],
) -> Callable[Concatenate[AsyncSessionManager, _P], Coroutine[Any, Any, _R]]:
    """The same method, run on the session's thread."""

    @functools.wraps(method)
    async def run(self: AsyncSessionManager, /, *args: _P.args, **options: _P.kwargs) -> _R:
        return await self.run(method, self.manager, *args, **options)

    return run


def _opened(
    make: Callable[_P, SessionManager],
) -> Callable[Concatenate[type[AsyncSessionManager], _P], Coroutine[Any, Any, AsyncSessionManager]]:
    """The same constructor, run on the thread that the session will have."""

    @functools.wraps(make)
    async def run(
        cls: type[AsyncSessionManager], /, *args: _P.args, **options: _P.kwargs
    ) -> AsyncSessionManager:
        worker = DiskThread()
        made: list[SessionManager] = []
        try:
            await worker.run(lambda: made.append(make(*args, **options)))
        except BaseException:
            if made:  # cancelled while it was opened
                worker.run_later(made[0].close, "closing a session that is no longer awaited")
            worker.close()
            raise
        return cls(made[0], worker)

    return run


def _elsewhere(function: Callable[_P, _R]) -> Callable[_P, Coroutine[Any, Any, _R]]:
    """The same function, run on any thread but the event loop's."""

    @functools.wraps(function)
    async def run(*args: _P.args, **options: _P.kwargs) -> _R:
        work = asyncio.to_thread(function, *args, **options)
        return await run_to_end(asyncio.ensure_future(work))

    return run


class AsyncSessionManager:
    """A session for asyncio. Use the constructors, or ``async with``.

    ``manager`` is the session itself: read its properties, which do no I/O, on any thread; pass any
    other work with it to ``run``.
    """

    def __init__(self, manager: SessionManager, worker: DiskThread | None = None) -> None:
        self.manager = manager
        self._worker = worker if worker is not None else DiskThread()

    async def run(self, function: Callable[_P, _R], *args: _P.args, **options: _P.kwargs) -> _R:
        """Call a function on the session's thread, after all earlier calls."""
        return await self._worker.run(function, *args, **options)

    create = classmethod(_opened(SessionManager.create))
    open = classmethod(_opened(SessionManager.open))
    open_or_create = classmethod(_opened(SessionManager.open_or_create))
    continue_recent = classmethod(_opened(SessionManager.continue_recent))
    fork_from = classmethod(_opened(SessionManager.fork_from))
    in_memory = classmethod(_opened(SessionManager.in_memory))

    append_many = _awaitable(SessionManager.append_many)
    append_message = _awaitable(SessionManager.append_message)
    append_thinking_level_change = _awaitable(SessionManager.append_thinking_level_change)
    append_model_change = _awaitable(SessionManager.append_model_change)
    append_compaction = _awaitable(SessionManager.append_compaction)
    append_context_edit = _awaitable(SessionManager.append_context_edit)
    append_usage = _awaitable(SessionManager.append_usage)
    append_custom_entry = _awaitable(SessionManager.append_custom_entry)
    append_custom_message_entry = _awaitable(SessionManager.append_custom_message_entry)
    append_label_change = _awaitable(SessionManager.append_label_change)
    append_ttsr_injection = _awaitable(SessionManager.append_ttsr_injection)
    append_session_init = _awaitable(SessionManager.append_session_init)
    append_mode_change = _awaitable(SessionManager.append_mode_change)
    append_session_info = _awaitable(SessionManager.append_session_info)
    get_record = _awaitable(SessionManager.get_record)
    set_record = _awaitable(SessionManager.set_record)

    get_entry = _awaitable(SessionManager.get_entry)
    get_entries = _awaitable(SessionManager.get_entries)
    get_branch = _awaitable(SessionManager.get_branch)
    get_tree = _awaitable(SessionManager.get_tree)
    get_children = _awaitable(SessionManager.get_children)
    get_label = _awaitable(SessionManager.get_label)
    build_session_context = _awaitable(SessionManager.build_session_context)

    branch = _awaitable(SessionManager.branch)
    reset_leaf = _awaitable(SessionManager.reset_leaf)
    put_leaf_back = _awaitable(SessionManager.put_leaf_back)
    persist_leaf = _awaitable(SessionManager.persist_leaf)
    branch_with_summary = _awaitable(SessionManager.branch_with_summary)

    set_session_file = _awaitable(SessionManager.set_session_file)
    new_session = _awaitable(SessionManager.new_session)
    set_session_name = _awaitable(SessionManager.set_session_name)
    fork = _awaitable(SessionManager.fork)
    create_branched_session = _awaitable(SessionManager.create_branched_session)
    move_to = _awaitable(SessionManager.move_to)
    rewrite_entries = _awaitable(SessionManager.rewrite_entries)
    rewrite_tool_call_args = _awaitable(SessionManager.rewrite_tool_call_args)
    refresh = _awaitable(SessionManager.refresh)
    catch_up = _awaitable(SessionManager.catch_up)
    flush = _awaitable(SessionManager.flush)
    recover = _awaitable(SessionManager.recover)
    delete = _awaitable(SessionManager.delete)
    leave_breadcrumb = _awaitable(SessionManager.leave_breadcrumb)

    list = staticmethod(_elsewhere(SessionManager.list))
    list_all = staticmethod(_elsewhere(SessionManager.list_all))

    async def abandon(self) -> None:
        """Leave the session without writing anything, after an error that was raised already."""
        await self._end(self.manager.abandon)

    async def discard(self) -> None:
        """Leave a fork or branched session that was made in vain, and remove it. Best effort."""
        await self._end(self.manager.discard)

    async def close(self) -> None:
        """Leave the session, keeping its leaf, and end its thread."""
        await self._end(self.manager.close)

    async def _end(self, leave: Callable[[], None]) -> None:
        try:
            await self.run(leave)
        finally:
            self._worker.close()

    async def follow(self, timeout_s: float | None = None) -> AsyncGenerator[Entry, None]:
        """Yield entries of others as they come; end when none has come for ``timeout_s`` seconds.

        Between them the session can be used as usual. A follower waits on a thread of its own: the
        event loop has only a few, and many followers would hold all of them.
        """
        loop = asyncio.get_running_loop()
        news = await self.run(self.manager.news)
        watch = await self.run(self.manager.store.watch, self.manager.ref)
        waiting = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sessiontree-follow")
        try:
            last = loop.time()
            while True:
                new = await self.run(news.take)
                if new:
                    last = loop.time()
                    for entry in new:
                        yield entry
                    continue
                left = _LOOK_S if timeout_s is None else last + timeout_s - loop.time()
                if left <= 0:
                    return
                await loop.run_in_executor(waiting, watch.wait, min(_LOOK_S, left))
        finally:
            watch.close()
            waiting.shutdown(wait=False)

    @property
    def session_id(self) -> str:
        """The id in the header."""
        return self.manager.session_id

    @property
    def session_file(self) -> str | None:
        """The path of the session, written yet or not; None if it is not kept."""
        return self.manager.session_file

    @property
    def session_dir(self) -> str:
        """The folder that the session lies in, or would."""
        return self.manager.session_dir

    @property
    def artifacts_dir(self) -> str | None:
        """The folder for what belongs to this session beside its log; it need not exist."""
        return self.manager.artifacts_dir

    @property
    def session_name(self) -> str | None:
        """The name it was given, if any."""
        return self.manager.session_name

    @property
    def is_persisted(self) -> bool:
        """Whether the session is kept at all: not so for one that is in memory only."""
        return self.manager.is_persisted

    @property
    def durability(self) -> Durability:
        """The moment at which appends wait for the medium: a flush, or every entry."""
        return self.manager.durability

    @property
    def profile(self) -> Profile:
        """The profile that the session belongs to."""
        return self.manager.profile

    @property
    def storage(self) -> Storage:
        """The storage of bytes below a file store; any other store itself."""
        return self.manager.storage

    @property
    def warnings(self) -> builtins.list[SessionWarning]:
        """The repairs that loading or writing made."""
        return self.manager.warnings

    @property
    def leaf_entry(self) -> Entry | None:
        """The entry at the leaf; None before the first entry."""
        return self.manager.leaf_entry

    @property
    def ref(self) -> str:
        """The session's name in its store."""
        return self.manager.ref

    @property
    def address(self) -> str:
        """The session's name for anybody who reads it: its path, or ``URL#REF``."""
        return self.manager.address

    @property
    def store(self) -> SessionStore:
        """The store of the session."""
        return self.manager.store

    @property
    def cwd(self) -> str:
        """The project that the session belongs to."""
        return self.manager.cwd

    @property
    def scope(self) -> str | None:
        """The scope that the session belongs to, if it has one."""
        return self.manager.scope

    @property
    def header(self) -> Header:
        """The header as a wire object."""
        return self.manager.header

    @property
    def leaf_id(self) -> str | None:
        """The entry that the conversation continues."""
        return self.manager.leaf_id

    @property
    def revision(self) -> str:
        """Another text after each write of anybody, as far as it was read here."""
        return self.manager.revision

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except SessionTreeError:
            if error is None:
                raise
