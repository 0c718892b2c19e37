"""``SessionManager``: one session, as a tree and a log.

A manager works on one session at a time and can be moved to another; everything that can fail
happens before the move. One thread at a time.

    append_message ─┐
    append_many ────┤ LiveSession ── SessionLog ── SessionStore
    branch, fork ───┘ leaf, context  entries, header   where sessions are kept
"""

from __future__ import annotations

import builtins
import contextlib
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from sessiontree.core.context import EDITABLE_ROLES, SessionContext
from sessiontree.core.llm import merge_system_messages
from sessiontree.core.tree import SessionTreeNode
from sessiontree.errors import SessionExistsError, SessionTreeError
from sessiontree.model.dialects import extension_key, spell_model_change
from sessiontree.model.entries import Entry
from sessiontree.model.header import Header, get_scope
from sessiontree.model.lines import SessionWarning
from sessiontree.model.messages import WireMessage
from sessiontree.profiles import Profile
from sessiontree.session import follow as following
from sessiontree.session import fork as copies
from sessiontree.session import records
from sessiontree.session.live import LiveSession
from sessiontree.session.name import rename_live
from sessiontree.session.tool_call import rewrite_tool_call
from sessiontree.storage.base import SessionStorage
from sessiontree.storage.memory import MemorySessionStorage
from sessiontree.stores import Storage, address_of, choose_store
from sessiontree.stores.base import Announce, Durability, SessionLog, SessionStore, StrPath
from sessiontree.stores.files.store import FileStore
from sessiontree.stores.finding import (
    bring_last,
    latest_in,
    leave_breadcrumb,
    ref_of_path,
    with_given_profile,
)
from sessiontree.stores.identity import new_header, require_durability, require_id

if TYPE_CHECKING:
    from sessiontree.discovery.adapters import Agents
    from sessiontree.discovery.listing import SessionList

Progress = Callable[[int, int], object]


class SessionManager:
    """A session to read, append to, branch, fork and move. Also a context manager.

    Made by ``create``, ``open``, ``open_or_create``, ``continue_recent``, ``fork_from`` or
    ``in_memory``. All of them take ``profile`` (whose session: a name; by default
    ``SESSIONTREE_PROFILE``, else ours), ``storage`` (where sessions live: a store, its URL or a
    storage of bytes; by default files) and ``durability`` ("flush": ``flush()`` waits for the
    medium; "entry": every append does). ``scope`` groups sessions that no project folder tells
    apart, such as those of one tenant or user. What cannot be done is a SessionTreeError.
    """

    def __init__(self, log: SessionLog, cwd: str = "", *, leaves_breadcrumb: bool = True) -> None:
        """Use the constructors instead. ``cwd`` is the project if the session does not say."""
        self._session = LiveSession(log, cwd)
        self._leaves_breadcrumb = leaves_breadcrumb
        self._note_use()

    # -- constructors ----------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        cwd: StrPath,
        session_dir: StrPath | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the name is fixed
        scope: str | None = None,
        profile: str | Profile | None = None,
        storage: Storage | None = None,
        durability: Durability = "flush",
    ) -> Self:
        """A new session for a project. Listings show it from the first answer on.

        Raises SessionExistsError if there is a session of the ``id`` you have chosen, in the scope
        if there is one; InvalidIdError for one that is not valid.
        """
        store = choose_store(storage, profile, session_dir)
        return cls(_create(store, os.path.abspath(cwd), id, scope, durability))

    @classmethod
    def open(
        cls,
        path: StrPath,
        session_dir: StrPath | None = None,
        *,
        profile: str | Profile | None = None,
        storage: Storage | None = None,
        durability: Durability = "flush",
    ) -> Self:
        """The session in a file; a missing or empty file becomes a new session.

        With a store that keeps no files, ``path`` is the session's ref. Raises NotASessionError for
        a file of another kind, PersistenceError if it cannot be read, SessionNotFoundError.
        """
        store = choose_store(storage, profile, session_dir)
        return cls(store.open(os.fspath(path), durability=durability))

    @classmethod
    def open_or_create(
        cls,
        id: str,  # noqa: A002 - the name is fixed
        cwd: StrPath,
        session_dir: StrPath | None = None,
        *,
        scope: str | None = None,
        profile: str | Profile | None = None,
        storage: Storage | None = None,
        durability: Durability = "flush",
    ) -> Self:
        """The session of exactly this id, else a new one; several callers get the same one."""
        store = choose_store(storage, profile, session_dir)
        ref = store.locate(require_id(id), scope=scope)
        if ref is None:
            try:
                return cls(_create(store, os.path.abspath(cwd), id, scope, durability))
            except SessionExistsError as error:
                ref = error.ref  # somebody was faster
        return cls(store.open(ref, cwd=os.path.abspath(cwd), durability=durability))

    @classmethod
    def continue_recent(
        cls,
        cwd: StrPath,
        session_dir: StrPath | None = None,
        *,
        scope: str | None = None,
        profile: str | Profile | None = None,
        storage: Storage | None = None,
        durability: Durability = "flush",
    ) -> Self:
        """This terminal's last session of the project, else the one used last, else a new one.

        Where the project's folder was renamed, this terminal's last session comes along. With a
        ``scope`` the newest session of the scope, whatever its project.
        """
        store = choose_store(storage, profile, session_dir)
        cwd = os.path.abspath(cwd)
        ref = latest_in(store, cwd, scope=scope)
        moved = None
        if ref is None and scope is None:
            moved = bring_last(store, cwd)
            ref = moved.new_path if moved is not None else None
        store = with_given_profile(store, True)  # it is one of this profile's sessions
        if ref is None:
            return cls(_create(store, cwd, None, scope, durability))
        log = store.open(ref, cwd=cwd, durability=durability)
        if moved is not None:
            told = f"the project was renamed: the session moved here from {moved.cwd}"
            log.warn(SessionWarning(told))
        return cls(log)

    @classmethod
    def fork_from(
        cls,
        source_path: StrPath,
        cwd: StrPath,
        session_dir: StrPath | None = None,
        *,
        scope: str | None = None,
        profile: str | Profile | None = None,
        storage: Storage | None = None,
        durability: Durability = "flush",
    ) -> Self:
        """A copy of a session, whole, in the project ``cwd``. The source is only read.

        Raises SessionNotFoundError, NotASessionError, PersistenceError.
        """
        store = choose_store(storage, profile, session_dir)
        return cls(
            store.fork(
                os.fspath(source_path), os.path.abspath(cwd), scope=scope, durability=durability
            )
        )

    @classmethod
    def in_memory(
        cls,
        cwd: StrPath | None = None,
        *,
        profile: str | Profile | None = None,
        storage: SessionStorage | None = None,
        durability: Durability = "flush",
    ) -> Self:
        """A session that is kept nowhere; ``set_session_file`` goes over to one in a file.

        With a ``storage`` that file lies in it, too.
        """
        store = FileStore(storage or _PrivateMemory(), profile, is_kept=False)
        return cls(_create(store, os.path.abspath(cwd or os.getcwd()), None, None, durability))

    @staticmethod
    def list(
        cwd: StrPath | None,
        session_dir: StrPath | None = None,
        on_progress: Progress | None = None,
        *,
        scope: str | None = None,
        profile: str | Profile | None = None,
        storage: Storage | None = None,
    ) -> SessionList:
        """The sessions of one project or of one scope, newest first.

        Those without a message are left out.
        """
        if cwd is None and scope is None:
            raise TypeError("list() needs a cwd or a scope; list_all() lists all sessions")
        store = choose_store(storage, profile, session_dir)
        project = os.fspath(cwd) if cwd is not None else None
        return store.list(project, scope=scope, on_progress=on_progress)

    @staticmethod
    def list_all(
        on_progress: Progress | None = None,
        *,
        profile: str | Profile | None = None,
        agents: Agents = None,
        storage: Storage | None = None,
    ) -> SessionList:
        """The sessions of all projects and scopes of a profile or a store, newest first.

        With ``agents`` (``"all"``, a name, or several) those of these agents, where they lie.
        """
        if agents is not None:
            from sessiontree.discovery.agent_sessions import list_agent_sessions

            return list_agent_sessions(agents, on_progress=on_progress)
        return choose_store(storage, profile).list(on_progress=on_progress)

    def __repr__(self) -> str:
        where = self.session_file or "in memory"
        count = len(self._session.tree.entries)
        return f"<{type(self).__name__} {self.session_id!r}, {where!r}, {count} entries>"

    # -- state -----------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        """The id in the header."""
        return str(self._session.header.get("id", ""))

    @property
    def session_file(self) -> str | None:
        """The path of the session, written yet or not; None if it is not kept."""
        return self._session.file

    @property
    def session_dir(self) -> str:
        """The folder that the session lies in, or would."""
        return os.path.dirname(self._session.log.ref)

    @property
    def artifacts_dir(self) -> str | None:
        """The folder for what belongs to this session beside its log; it need not exist."""
        log = self._session.log
        return log.store.artifacts_dir(log.ref) if log.store.is_kept else None

    @property
    def cwd(self) -> str:
        """The project that the session belongs to."""
        return self._session.cwd

    @property
    def scope(self) -> str | None:
        """The scope that the session belongs to, if it has one."""
        return get_scope(self.header)

    @property
    def profile(self) -> Profile:
        """The profile that the session belongs to."""
        return self._session.log.store.profile

    @property
    def store(self) -> SessionStore:
        """The store of the session."""
        return self._session.log.store

    @property
    def storage(self) -> Storage:
        """The storage of bytes below a file store; any other store itself.

        To open another session in the same place, pass ``store`` on.
        """
        store = self.store
        return store.storage if isinstance(store, FileStore) else store

    @property
    def ref(self) -> str:
        """The session's name in its store; the path of its file, if it is kept in one."""
        return self._session.log.ref

    @property
    def address(self) -> str:
        """The session's name for anybody who reads it: its path, or ``URL#REF``."""
        return address_of(self.store, self.ref)

    @property
    def header(self) -> Header:
        """The header as a wire object."""
        return self._session.header

    @property
    def session_name(self) -> str | None:
        """The name it was given, if any."""
        return self._session.name

    @property
    def is_persisted(self) -> bool:
        """Whether the session is kept at all: not so for one that is in memory only."""
        return self.store.is_kept

    @property
    def revision(self) -> str:
        """Another text after each write of anybody to this session, as far as it was read here.

        The same for everyone who has read the same. ``refresh`` reads on.
        """
        return self._session.log.revision

    @property
    def leaf_id(self) -> str | None:
        """The entry that the conversation continues: the parent of what is appended next."""
        return self._session.tree.leaf_id

    @property
    def leaf_entry(self) -> Entry | None:
        """The entry at the leaf; None before the first entry."""
        leaf_id = self.leaf_id
        return self._session.tree.by_id.get(leaf_id) if leaf_id is not None else None

    @property
    def warnings(self) -> builtins.list[SessionWarning]:
        """The repairs that loading or writing made."""
        return self._session.warnings

    @property
    def durability(self) -> Durability:
        """The moment at which appends wait for the medium: a flush, or every entry."""
        return self._session.log.durability

    # -- tree ------------------------------------------------------------------------------

    def get_entry(self, id: str) -> Entry | None:  # noqa: A002 - the name is fixed
        """The entry of this id, if there is one."""
        return self._session.tree.by_id.get(id)

    def get_entries(self) -> builtins.list[Entry]:
        """All entries in the order they were written."""
        return self._session.tree.entries.copy()

    def get_branch(self, from_id: str | None = None) -> builtins.list[Entry]:
        """The entries from the root to ``from_id``, by default to the leaf. EntryNotFoundError."""
        return self._session.tree.path(self.leaf_id if from_id is None else from_id)

    def get_tree(self) -> builtins.list[SessionTreeNode]:
        """The roots, with everything below them."""
        return self._session.tree.nodes()

    def get_children(self, parent_id: str | None) -> builtins.list[Entry]:
        """The entries right below one, oldest first; below None, the roots."""
        return self._session.tree.children(parent_id)

    def get_label(self, id: str) -> str | None:  # noqa: A002 - the name is fixed
        """The label of an entry, if it has one."""
        found = self._session.tree.labels().get(id)
        return found[0] if found is not None else None

    def build_session_context(self) -> SessionContext:
        """Build the model's view at the leaf."""
        return self._session.context()

    # -- appending -------------------------------------------------------------------------
    #
    # One method for each kind of entry. The entry becomes the leaf; its id is given. Once a method
    # returns, a killed process loses nothing. Each raises PersistenceError if the entry could not
    # be written, TypeError if it holds what JSON cannot; then nothing has changed.

    def append_many(
        self,
        entries: Sequence[Mapping[str, Any]] | Callable[[], Sequence[Mapping[str, Any]]],
        *,
        expected_leaf: str | EllipsisType | None = ...,
        expected_revision: str | None = None,
        to_last: bool = False,
    ) -> builtins.list[str]:
        """Add entries, all in one write or none of them; their ids.

        Each is a dictionary with ``type`` and its fields, perhaps an ``id`` of your own, and
        perhaps a ``parentId`` (or ``parent_id``): an entry of the session, one before it in this
        call, or None. Those without a parent continue the conversation, one after the other; those
        with one leave the leaf where it is, also for others who have the session open: if the last
        entry is one of these, a marker behind it says where the leaf has stayed. ``to_last`` moves
        the leaf to the last entry, whatever its parent.

        With ``expected_leaf`` or ``expected_revision`` nothing is appended, and ConflictError tells
        what is there now, if others have written since. Read what they wrote, and try again with
        the error's ``leaf_id`` or ``revision``: the entries then continue from there.

        In place of entries a function can be given that makes them. It finds all that others have
        written in the session, which stands where they left off, and no other process writes until
        it is done. It may be called more than once.

        Raises EntryExistsError, EntryNotFoundError for a parent, TypeError and ValueError for what
        is not an entry.
        """
        return self._session.append_many(entries, expected_leaf, expected_revision, to_last=to_last)

    def append_message(self, message: WireMessage) -> str:
        """Add a message of the user, the model or a tool, as the file has it."""
        if not isinstance(message, dict):
            # It could be written, but readers of sessions pass over such a message.
            raise TypeError(f"A message is a dictionary, not {type(message).__name__}")
        return self._session.append("message", {"message": message})

    def append_thinking_level_change(self, level: str) -> str:
        """From here on the model thinks this much ("off", "low", …)."""
        return self._session.append("thinking_level_change", {"thinkingLevel": level})

    def append_model_change(self, model: str, role: str | None = None) -> str:
        """From here on this model ("provider/id") is used; for ``role`` only, if one is given."""
        fields = spell_model_change(self._session.log.dialect, model, role)
        return self._session.append("model_change", fields)

    def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str | None,
        tokens_before: int,
        *,
        short_summary: str | None = None,
        details: Any = None,
        preserve_data: Any = None,
        from_extension: bool | None = None,
        usage: Any = None,
    ) -> str:
        """From here on the model sees ``summary`` instead of what was before the first kept entry.

        Nothing is removed. Without a first kept entry nothing before is kept in sight.
        ``short_summary`` is a title for those who have given none; ``usage`` is what the summary
        cost. System messages in the context are saved with the compaction, since it hides them.
        """
        fields: dict[str, Any] = {"summary": summary}
        put_given(fields, "shortSummary", short_summary)
        fields |= {"firstKeptEntryId": first_kept_entry_id, "tokensBefore": tokens_before}
        put_given(fields, "details", details)
        put_given(fields, "preserveData", preserve_data)
        put_given(fields, "usage", usage)
        put_given(fields, extension_key(self._session.log.dialect), from_extension)
        put_given(fields, "systemMessage", self._system_message())
        return self._session.append("compaction", fields)

    def _system_message(self) -> WireMessage | None:
        """The prompt and tools that the system messages in the context lead to, as of now.

        Only sessions of pi have such messages.
        """
        if self._session.log.dialect != "pi":
            return None
        merged = merge_system_messages(self._session.context().messages)
        return None if merged is None else {**merged, "timestamp": self._session.clock()}

    def append_context_edit(self, target_id: str, replacement: dict[str, Any] | None) -> str:
        """From here on the model no longer sees an earlier message, or sees other content in it.

        ``replacement`` is None, which leaves the message out, or ``{"content": …}`` with a string
        or blocks. The message must be on the current path, from a user, an assistant, a tool or a
        program. The log keeps it as it was. Raises EntryNotFoundError, ValueError.
        """
        role = self._editable_role(self._session.tree.get(target_id))
        edited = replacement
        if replacement is not None:
            content = replacement.get("content") if isinstance(replacement, dict) else None
            if not isinstance(content, str | list):
                raise ValueError('A replacement is None or {"content": a string or blocks}')
            if isinstance(content, str) and role in ("assistant", "toolResult"):
                edited = {"content": [{"type": "text", "text": content}]}
        fields = {"targetId": target_id, "replacement": edited}
        return self._session.append("context_edit", fields)

    def _editable_role(self, target: Entry) -> str:
        """The role of a message that may be edited, on the current path. ValueError for others."""
        tree = self._session.tree
        role = ""
        if target.type == "custom_message":
            role = "custom"
        elif target.type == "message":
            message = target.data.get("message")
            role = str(message.get("role")) if isinstance(message, dict) else ""
        if role not in EDITABLE_ROLES:
            raise ValueError(f"Entry {target.id} holds no message that can be edited")
        if all(entry is not target for entry in tree.path(tree.leaf_id)):
            raise ValueError(f"Entry {target.id} is not on the current path")
        return role

    def append_usage(
        self, kind: str, provider: str, model: str, usage: dict[str, Any], note: str | None = None
    ) -> str:
        """Note what a model call cost whose answer is not part of the conversation.

        ``kind`` says what for, in a word of the caller's own ("cache_warm"). It counts in totals.
        """
        fields: dict[str, Any] = {"kind": kind, "provider": provider, "model": model}
        fields["usage"] = usage
        put_given(fields, "note", note or None)
        return self._session.append("usage", fields)

    def append_custom_entry(self, custom_type: str, data: Any = None) -> str:
        """Add what a program wants to remember; the model never sees it."""
        fields: dict[str, Any] = {"customType": custom_type}
        put_given(fields, "data", data)
        return self._session.append("custom", fields)

    def append_custom_message_entry(
        self,
        custom_type: str,
        content: str | Sequence[dict[str, Any]],
        display: bool,
        details: Any = None,
    ) -> str:
        """Add a program's own message to the model; people see it if ``display``."""
        blocks = content if isinstance(content, str) else [*content]
        fields: dict[str, Any] = {"customType": custom_type, "content": blocks, "display": display}
        put_given(fields, "details", details)
        return self._session.append("custom_message", fields)

    def append_label_change(self, target_id: str, label: str | None) -> str:
        """Name an entry; None or an empty label takes the name away. EntryNotFoundError."""
        self._session.tree.get(target_id)
        fields: dict[str, Any] = {"targetId": target_id}
        put_given(fields, "label", label or None)
        return self._session.append("label", fields)

    def append_ttsr_injection(self, rules: Sequence[str]) -> str:
        """Note that these rules were put into the conversation."""
        return self._session.append("ttsr_injection", {"injectedRules": [*rules]})

    def append_session_init(
        self, system_prompt: str, task: str, tools: Sequence[str], output_schema: Any = None
    ) -> str:
        """Note what the agent was started with; the model does not see it."""
        fields: dict[str, Any] = {"systemPrompt": system_prompt, "task": task, "tools": [*tools]}
        put_given(fields, "outputSchema", output_schema)
        return self._session.append("session_init", fields)

    def append_mode_change(self, mode: str, data: Any = None) -> str:
        """From here on the agent is in this mode ("none" leaves it)."""
        fields: dict[str, Any] = {"mode": mode}
        put_given(fields, "data", data)
        return self._session.append("mode_change", fields)

    def append_session_info(self, name: str) -> str:
        """Name the session as pi does; see ``set_session_name`` for names of any dialect."""
        return self._session.append("session_info", {"name": name})

    def get_record(self, key: str) -> Any:
        """The value that ``set_record`` kept last for this key; None if there is none."""
        return records.get_record(self._session, key)

    def set_record(self, key: str, value: Any) -> str:
        """Keep a value with the session: anything that JSON can hold. The model never sees it."""
        return records.set_record(self._session, key, value)

    # -- the leaf --------------------------------------------------------------------------

    def branch(self, id: str) -> None:  # noqa: A002 - the name is fixed
        """Continue at an earlier entry. EntryNotFoundError; PersistenceError until ``recover``."""
        self._session.move_leaf(id)

    def reset_leaf(self) -> None:
        """Continue from before the first entry. PersistenceError until ``recover``."""
        self._session.move_leaf(None)

    def put_leaf_back(self, leaf_id: str | None) -> None:
        """Undo ``branch`` or ``reset_leaf``, also where an error came after it that is latched."""
        self._session.put_leaf_back(leaf_id)

    def persist_leaf(self) -> None:
        """Keep ``branch`` or ``reset_leaf`` now rather than at the close: a crash does not undo it.

        Appends an entry that says so, unless the leaf is the last entry anyway.
        """
        self._session.mark_leaf()

    def branch_with_summary(
        self,
        id_or_none: str | None,
        summary: str,
        details: Any = None,
        from_extension: bool | None = None,
        *,
        usage: Any = None,
    ) -> str:
        """Continue at an earlier entry with a summary of what was left. EntryNotFoundError.

        None stands for before the first entry; ``usage`` is what the summary cost.
        """
        before = self.leaf_id
        self._session.move_leaf(id_or_none)
        fields: dict[str, Any] = {"fromId": id_or_none or "root", "summary": summary}
        put_given(fields, "details", details)
        put_given(fields, "usage", usage)
        put_given(fields, extension_key(self._session.log.dialect), from_extension)
        try:
            return self._session.append("branch_summary", fields)
        except BaseException:
            self._session.put_leaf_back(before)
            raise

    # -- whole-session operations ----------------------------------------------------------

    def set_session_file(self, path: StrPath) -> None:
        """Go over to the session in another file. If that fails, nothing has changed."""
        session = self._session
        if ref_of_path(self.store, path) == self.session_file and not session.log.has_failed:
            session.close()  # what leaving writes is part of what is then read
        self._switch(_open_like(session, path))

    def new_session(self, parent_session: str | None = None, id: str | None = None) -> str | None:  # noqa: A002
        """Go over to a new session of the same project; its file's path."""
        made = self._make_new(parent_session, id)
        self._switch(LiveSession(made, self.cwd))
        return self.session_file

    def _make_new(self, parent_session: str | None, session_id: str | None) -> SessionLog:
        log = self._session.log
        return _create(
            log.store,
            self.cwd,
            None,
            self.scope,
            log.durability,
            parent_session=parent_session,
            given_id=session_id,
            beside=log,
        )

    def set_session_name(self, name: str) -> None:
        """Name the session, as its dialect writes names; an empty name clears it."""
        rename_live(self._session, name)

    def fork(self) -> tuple[str, str] | None:
        """Copy the session, whole, and go over to the copy; (old path, new path).

        None if there is nothing on disk to copy.
        """
        old = self.session_file
        forked = self._switch_to_copy(lambda tell: copies.fork_live(self._session, tell))
        if forked is None or forked.file is None or old is None:
            return None
        return old, forked.file

    def create_branched_session(self, leaf_id: str) -> str | None:
        """Go over to a new session that holds just the path to ``leaf_id``; its file.

        None if the session is kept nowhere. EntryNotFoundError.
        """
        self._switch_to_copy(lambda tell: copies.branch_live(self._session, leaf_id, tell))
        return self.session_file

    def move_to(self, new_cwd: StrPath) -> None:
        """Move the session to another project: file, artifacts and header, all or nothing."""
        self._session.log.move(os.path.abspath(new_cwd), self.scope)
        self._note_use()

    def rewrite_entries(self) -> None:
        """Rewrite the file with the changes made in entries' ``data``."""
        self._session.rewrite(find_changes=True)

    def rewrite_tool_call_args(self, tool_call_id: str, arguments: dict[str, Any]) -> bool:
        """Give a recorded tool call other arguments, in memory and in the file; whether found."""
        return rewrite_tool_call(self._session, tool_call_id, arguments)

    def refresh(self) -> int:
        """Read what other processes appended; how many entries that were. The leaf stays."""
        return self._session.refresh()

    def catch_up(self) -> int:
        """Read what other processes appended and continue from their last entry; how many."""
        return self._session.catch_up()

    def follow(self, timeout_s: float | None = None) -> Generator[Entry, None, None]:
        """Entries that others append, as they come; waits for them.

        Ends when none has come for ``timeout_s`` seconds. The leaf stays where it is.
        """
        return following.follow(self._session, timeout_s)

    def news(self) -> following.News:
        """Tells, each time it is asked, which entries others have added since; does not wait."""
        return following.News(self._session)

    def delete(self, *, permanently: bool = False) -> None:
        """Leave the session and move it to the trash, from where ``store.restore`` brings it back.

        ``permanently`` removes it and all that is only there because of it: draft, artifacts, set
        aside copies, what is in the trash of it, blobs that no other session uses, the search
        index, terminals' breadcrumbs. A copy that somebody keeps in a folder of which Sessiontree
        knows nothing does not count as a user of a blob. Writing raises PersistenceError then.
        """
        self._session.delete(permanently=permanently)

    def flush(self) -> None:
        """Everything appended is on the medium when this returns; PersistenceError if not."""
        self._session.flush()

    def recover(self) -> None:
        """Go on after a PersistenceError, once its cause is gone; raises it again if not."""
        self._session.recover()

    def close(self) -> None:
        """Leave the session, keeping its leaf. What is in memory can still be read."""
        self._session.close()

    def abandon(self) -> None:
        """Leave the session without writing anything, after an error that was raised already."""
        self._session.abandon()

    def discard(self) -> None:
        """Leave a fork or branched session that was made in vain, and remove it. Best effort."""
        self._session.log.destroy()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except SessionTreeError:
            if error is None:
                raise

    def _switch_to_copy(self, make: Callable[[Announce], LiveSession | None]) -> LiveSession | None:
        """Go over to a copy, if one is made; one that we do not get to is removed again."""
        made: builtins.list[SessionLog] = []
        try:
            copied = make(made.append)
            if copied is not None:
                self._switch(copied)
        except BaseException:
            for log in made:
                if log is not self._session.log:
                    log.destroy()
            raise
        return copied

    def _switch(self, session: LiveSession) -> None:
        """Leave the old session, then use the new one; a failing leave changes nothing.

        A session whose writing had failed before has reported it, and does not stop this.
        """
        try:
            if self._session.log.has_failed:
                self._session.abandon()
            else:
                self._session.close()
            self._session = session
        except BaseException:
            if self._session is not session:
                with contextlib.suppress(SessionTreeError):
                    session.abandon()  # else its file stays open for as long as the error is kept
            raise
        self._note_use()

    def leave_breadcrumb(self) -> None:
        """Note that this terminal works on this manager's session, from now on. Best effort."""
        self._leaves_breadcrumb = True
        self._note_use()

    def _note_use(self) -> None:
        if self._leaves_breadcrumb:
            leave_breadcrumb(self.store, self.cwd, self._session.log.ref)


class _PrivateMemory(MemorySessionStorage):
    """The storage of one session that is kept nowhere: a path names no file of it."""


def _open_like(session: LiveSession, path: StrPath) -> LiveSession:
    """Open the session at ``path`` with an open one's settings; its place says which profile."""
    log = session.log
    store = log.store
    if isinstance(store, FileStore) and not store.is_kept:  # from memory, to one in a file
        if isinstance(store.storage, _PrivateMemory):
            store = FileStore(None, store.profile, clock=store.clock)
        store = store.like(is_kept=True)
    store = with_given_profile(store, False)
    opened = store.open(ref_of_path(store, path), cwd=session.cwd, durability=log.durability)
    return LiveSession(opened, session.cwd)


def _create(
    store: SessionStore,
    cwd: str,
    session_id: str | None,
    scope: str | None,
    durability: Durability,
    *,
    parent_session: str | None = None,
    given_id: str | None = None,
    beside: SessionLog | None = None,
) -> SessionLog:
    """A new session. Of a ``session_id`` there is only one; a ``given_id`` claims nothing."""
    require_durability(durability)
    header = new_header(
        store,
        cwd,
        session_id=require_id(session_id) if session_id is not None else given_id,
        parent_session=parent_session,
        scope=scope,
    )
    return store.create(header, durability=durability, is_new_id=session_id is None, beside=beside)


def put_given(fields: dict[str, Any], key: str, value: Any) -> None:
    """Set a field, unless there is nothing to set it to."""
    if value is not None:
        fields[key] = value
