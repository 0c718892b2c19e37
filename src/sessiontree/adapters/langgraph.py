"""``SessiontreeSaver``: the checkpoints of LangGraph's threads.

    graph = builder.compile(checkpointer=SessiontreeSaver())
    graph.invoke({"messages": [("user", "Hello")]}, {"configurable": {"thread_id": "chat-42"}})

A thread is a session of the same id, a checkpoint an entry below its parent checkpoint
(``adapters.langgraph_thread``). A value that has not changed is not written again, and of a list
only what is new, so a step takes as much room as it says new things.

The asynchronous methods do the same off the event loop.

**What a serializer reads it may run.** LangGraph's own makes objects of the types that a checkpoint
names. For sessions that somebody else may have written, allow only safe types: set
``LANGGRAPH_STRICT_MSGPACK=true``, or pass ``serde=JsonPlusSerializer(allowed_msgpack_modules=…)``.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

try:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
        get_checkpoint_id,
        get_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'langgraph-checkpoint is not installed: pip install "sessiontree[langgraph]"',
        name=error.name,
    ) from error

from sessiontree.adapters.langgraph_lists import Coder
from sessiontree.adapters.langgraph_thread import HARNESS, Thread
from sessiontree.adapters.langgraph_writing import Put, PutWrites, delete_entries
from sessiontree.adapters.learned import LearnedSessions, ListedSessions
from sessiontree.adapters.sessions import OpenSessions, append, key_of
from sessiontree.errors import SessionNotFoundError
from sessiontree.profiles import Profile
from sessiontree.session.manager import SessionManager
from sessiontree.stores import Storage
from sessiontree.stores.base import SessionLog, StrPath

R = TypeVar("R")

_BATCH = 32
"""The number of checkpoints that a listing reads ahead."""


class _Place(NamedTuple):
    """A checkpoint of some thread."""

    id: str
    thread_id: Any
    entry_id: str


class SessiontreeSaver(BaseCheckpointSaver[Any]):
    """Keep LangGraph's checkpoints in a Sessiontree store.

    ``storage``, ``profile`` and ``scope`` say where, as for ``SessionManager``; the default is
    Sessiontree's own files, in the project ``cwd``. Any number of graphs, threads and processes may
    share one thread. A deleted thread goes to the trash, unless ``delete_permanently``.
    """

    def __init__(
        self,
        *,
        storage: Storage | None = None,
        profile: str | Profile | None = None,
        scope: str | None = None,
        cwd: StrPath | None = None,
        serde: SerializerProtocol | None = None,
        delete_permanently: bool = False,
    ) -> None:
        super().__init__(serde=serde)
        self._sessions = OpenSessions(
            HARNESS, storage=storage, profile=profile, scope=scope, cwd=cwd
        )
        self._delete_permanently = delete_permanently
        self._threads = LearnedSessions(Thread)
        self._listed = ListedSessions(self._sessions.store, partial(_listed_key, scope))

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002
        """The version after this one: numbers, and texts for threads that began with texts."""
        if isinstance(current, str):
            number = int(current.split(".")[0]) + 1
            return f"{number:032}.{random.random():016}"
        return 1 if current is None else current + 1

    # -- reading ---------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint of this id, else the newest of the thread; None if there is none.

        One that cannot be read is passed over, with a warning in the log.
        """
        return self._read(_thread_of(config), self._getting(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The same off the event loop."""
        return await self._aread(_thread_of(config), self._getting(config))

    def _getting(self, config: RunnableConfig) -> Callable[[Thread], CheckpointTuple | None]:
        thread_id, ns, checkpoint_id = _place_of(config)
        coder = Coder(self.serde)

        def get(thread: Thread) -> CheckpointTuple | None:
            for entry_id in thread.find(ns, checkpoint_id):
                found = thread.read(thread_id, entry_id, coder, is_next=True)
                if found is not None:
                    return found
            return None

        return get

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name is given
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread, or of all threads, the newest first.

        ``filter`` compares metadata, ``before`` is the checkpoint to begin after. Without a
        ``config`` all threads are read.
        """
        wanted = _Wanted(config, before)
        places = self._all_places(wanted) if config is None else self._places(wanted)
        left = len(places) if limit is None else limit
        while places and left > 0:
            batch, places = places[:_BATCH], places[_BATCH:]
            for thread_id, entries in _by_thread(batch):
                work = self._listing(thread_id, entries, filter, left)
                for found in self._read(str(thread_id), work) or ():
                    left -= 1
                    yield found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name is given
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """The same off the event loop."""
        wanted = _Wanted(config, before)
        places = await self._sessions.elsewhere(
            lambda: self._all_places(wanted) if config is None else self._places(wanted)
        )
        left = len(places) if limit is None else limit
        while places and left > 0:
            batch, places = places[:_BATCH], places[_BATCH:]
            for thread_id, entries in _by_thread(batch):
                work = self._listing(thread_id, entries, filter, left)
                for found in await self._aread(str(thread_id), work) or ():
                    left -= 1
                    yield found

    def _listing(
        self,
        thread_id: Any,
        entries: Sequence[str],
        wanted: Mapping[str, Any] | None,
        limit: int,
    ) -> Callable[[Thread], Sequence[CheckpointTuple]]:
        coder = Coder(self.serde)

        def read(thread: Thread) -> Sequence[CheckpointTuple]:
            found: list[CheckpointTuple] = []
            for entry_id in entries:
                if len(found) == limit:
                    break
                if wanted and not _matches(thread.metadata(entry_id, coder), wanted):
                    continue
                made = thread.read(thread_id, entry_id, coder)
                if made is not None:
                    found.append(made)
            return found

        return read

    def _places(self, wanted: _Wanted) -> Sequence[_Place]:
        """Where the checkpoints of a thread are, the newest first."""

        def find(thread: Thread) -> Sequence[_Place]:
            return wanted.choose(wanted.thread_id, thread)

        return sorted(self._read(str(wanted.thread_id), find) or (), reverse=True, key=_id_of)

    def _all_places(self, wanted: _Wanted) -> Sequence[_Place]:
        found: list[_Place] = []
        for key in self._all_threads():
            found += self._read(key, partial(wanted.choose, key)) or ()
        return sorted(found, reverse=True, key=_id_of)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The writes to channels since their last stored value, above a checkpoint.

        Pruned checkpoints count as well, so pruning never takes a ``DeltaChannel`` apart.
        """
        found = self._read(_thread_of(config), self._going_back(config, channels))
        return found if found is not None else {channel: {"writes": []} for channel in channels}

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The same off the event loop."""
        found = await self._aread(_thread_of(config), self._going_back(config, channels))
        return found if found is not None else {channel: {"writes": []} for channel in channels}

    def _going_back(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Callable[[Thread], Mapping[str, DeltaChannelHistory]]:
        _, ns, checkpoint_id = _place_of(config)
        coder = Coder(self.serde)
        return lambda thread: thread.history(ns, checkpoint_id, channels, coder)

    # -- writing ---------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint; the config that names it."""
        work = self._putting(config, checkpoint, metadata, new_versions)
        self._sessions.use(_thread_of(config), work, only_appends=True)
        return _named(config, checkpoint)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """The same off the event loop."""
        work = self._putting(config, checkpoint, metadata, new_versions)
        await self._sessions.run(_thread_of(config), work, only_appends=True)
        return _named(config, checkpoint)

    def _putting(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Callable[[SessionManager], None]:
        _, ns, parent_id = _place_of(config)
        kept = get_checkpoint_metadata(config, metadata)
        coder = Coder(self.serde)
        return self._writing(
            lambda thread: Put(thread, coder, ns, parent_id, checkpoint, kept, new_versions)
        )

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep what a task has written, until the next checkpoint has it."""
        work = self._putting_writes(config, writes, task_id, task_path)
        self._sessions.use(_thread_of(config), work, only_appends=True)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """The same off the event loop."""
        work = self._putting_writes(config, writes, task_id, task_path)
        await self._sessions.run(_thread_of(config), work, only_appends=True)

    def _putting_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Callable[[SessionManager], None]:
        _, ns, checkpoint_id = _place_of(config)
        coder, kept = Coder(self.serde), [*writes]
        return self._writing(
            lambda thread: PutWrites(
                thread, coder, ns, checkpoint_id or "", kept, task_id, task_path
            )
        )

    def _writing(
        self, begin: Callable[[Thread], Put | PutWrites]
    ) -> Callable[[SessionManager], None]:
        def write(manager: SessionManager) -> None:
            begun: Put | PutWrites | None = None

            def make() -> Sequence[Mapping[str, Any]]:
                nonlocal begun
                begun = begin(self._threads.caught_up(manager))
                return begun.entries()

            append(manager, make)
            if begun is not None:
                begun.commit()

        return write

    # -- whole threads ---------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Move a thread's session to the trash; nothing if there is none."""
        self._sessions.delete(str(thread_id), permanently=self._delete_permanently)

    async def adelete_thread(self, thread_id: str) -> None:
        """The same off the event loop."""
        await self._sessions.elsewhere(lambda: self.delete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs have made, whatever their threads.

        The session keeps what they said; no graph gets it again.
        """
        runs, coder = set(map(str, run_ids)), Coder(self.serde)
        if runs:
            for key in self._all_threads():
                self._delete(key, lambda thread: thread.keys_of_runs(runs, coder))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """The same off the event loop."""
        await self._sessions.elsewhere(lambda: self.delete_for_runs(run_ids))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete all checkpoints of threads but the newest of each namespace.

        With the strategy "delete" the threads are deleted. The session keeps what the checkpoints
        said, since it takes no room twice, and what a ``DeltaChannel`` needs of them.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f'strategy is "keep_latest" or "delete", not {strategy!r}')
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                self._delete(str(thread_id), Thread.keys_but_latest)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """The same off the event loop."""
        await self._sessions.elsewhere(lambda: self.prune(thread_ids, strategy=strategy))

    def _delete(self, key: str, choose: Callable[[Thread], Sequence[str]]) -> None:
        def delete(manager: SessionManager) -> None:
            def make() -> Sequence[Mapping[str, Any]]:
                thread = self._threads.caught_up(manager)
                return delete_entries(thread, choose(thread))

            append(manager, make)

        with suppress(SessionNotFoundError):
            self._sessions.use(key, delete, create=False)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread's checkpoints and writes to another one; nothing if there is none."""
        source, target = str(source_thread_id), str(target_thread_id)
        origin = self._sessions.locate(source)
        entries: Sequence[Mapping[str, Any]] | None = None
        with suppress(SessionNotFoundError):
            entries = self._sessions.use(
                source,
                lambda manager: [entry.decode() for entry in manager.get_entries()],
                create=False,
            )
        if source == target or not entries:
            return
        copied = entries

        def write(manager: SessionManager) -> None:
            append(
                manager,
                lambda: [each for each in copied if manager.get_entry(each["id"]) is None],
            )

        self._sessions.use(target, write, header={"parentSession": origin})

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """The same off the event loop."""
        await self._sessions.elsewhere(lambda: self.copy_thread(source_thread_id, target_thread_id))

    # -- its own ---------------------------------------------------------------------------

    def close(self) -> None:
        """Close all sessions. The saver can be used again."""
        self._sessions.close()

    async def aclose(self) -> None:
        """The same off the event loop."""
        await self._sessions.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _read(self, key: str, work: Callable[[Thread], R]) -> R | None:
        try:
            return self._sessions.use(
                key, lambda manager: work(self._threads.caught_up(manager)), create=False
            )
        except SessionNotFoundError:
            return None

    async def _aread(self, key: str, work: Callable[[Thread], R]) -> R | None:
        try:
            return await self._sessions.run(
                key, lambda manager: work(self._threads.caught_up(manager)), create=False
            )
        except SessionNotFoundError:
            return None

    def _all_threads(self) -> Sequence[str]:
        """The ids of all threads of the scope."""
        return self._listed.of_scope(self._sessions.scope)


class _Wanted:
    """The checkpoints that a listing asks for."""

    def __init__(self, config: RunnableConfig | None, before: RunnableConfig | None) -> None:
        place = {} if config is None else config["configurable"]
        self.thread_id = place.get("thread_id")
        self._ns = place.get("checkpoint_ns")
        self._id = None if config is None else get_checkpoint_id(config)
        self._before = None if before is None else get_checkpoint_id(before)

    def choose(self, thread_id: Any, thread: Thread) -> Sequence[_Place]:
        """Those of a thread, in any order."""
        return [
            _Place(place.id, thread_id, place.entry_id)
            for place in thread.places(self._ns)
            if (not self._id or place.id == self._id)
            and (not self._before or place.id < self._before)
        ]


def _listed_key(scope: str | None, log: SessionLog) -> str | None:
    """The id of the thread that a session is, if it is one of this scope."""
    header = log.header
    is_ours = header.get("harness") == HARNESS
    return key_of(header) if is_ours and header.get("scope") == scope else None


def _by_thread(places: Sequence[_Place]) -> Iterator[tuple[Any, Sequence[str]]]:
    """Neighbours of the same thread together."""
    at = 0
    while at < len(places):
        end = at
        while end < len(places) and places[end].thread_id == places[at].thread_id:
            end += 1
        yield places[at].thread_id, [place.entry_id for place in places[at:end]]
        at = end


def _matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(metadata.get(key) == value for key, value in wanted.items())


def _id_of(place: _Place) -> str:
    return place.id


def _thread_of(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _place_of(config: RunnableConfig) -> tuple[Any, str, str | None]:
    """A config's thread, namespace and checkpoint."""
    place = config["configurable"]
    ns, checkpoint_id = place.get("checkpoint_ns"), get_checkpoint_id(config)
    return place["thread_id"], str(ns or ""), str(checkpoint_id) if checkpoint_id else None


def _named(config: RunnableConfig, checkpoint: Checkpoint) -> RunnableConfig:
    thread_id, ns, _ = _place_of(config)
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": ns,
            "checkpoint_id": checkpoint["id"],
        }
    }
