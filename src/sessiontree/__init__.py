"""Sessiontree: coding-agent sessions as trees in append-only files.

Every public name can be imported from here; naming one imports only what it needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sessiontree._version import __version__

_HOMES = {
    "SessionManager": "session.manager",
    "SessionContext": "core.context",
    "build_session_context": "core.context",
    "convert_to_llm": "core.llm",
    "SessionTreeNode": "core.tree",
    "Entry": "model.entries",
    "SessionWarning": "model.lines",
    "parse_jsonl_lenient": "model.lines",
    "migrate_entries": "model.migrations",
    "load_entries_from_file": "stores.files.reader",
    "SessionStorage": "storage.base",
    "SessionStorageReader": "storage.base",
    "SessionStorageWriter": "storage.base",
    "FileSessionStorage": "storage.file",
    "MemorySessionStorage": "storage.memory",
    "BlobStore": "storage.blobs",
    "AsyncSessionManager": "session.async_manager",
    "SessionStore": "stores.base",
    "SessionLog": "stores.base",
    "open_store": "stores",
    "FileStore": "stores.files.store",
    "MemoryStore": "stores.memory",
    "HistoryStorage": "history",
    "SessionInfo": "discovery.listing",
    "RecentSessionInfo": "discovery.recent",
    "get_recent_sessions": "discovery.recent",
    "find_most_recent_session": "discovery.recent",
    "resolve_session": "stores.finding",
    "search": "stores.finding",
    "relink": "stores.files.relinking",
    "Profile": "profiles",
    "get_profile": "profiles",
    "Agent": "runtime.agent",
    "AgentBase": "runtime.agent_base",
    "AgentSession": "runtime.agent_session",
    "create_agent_session": "runtime.create",
    "SessionTreeError": "errors",
    "NotASessionError": "errors",
    "EntryNotFoundError": "errors",
    "EntryExistsError": "errors",
    "ConflictError": "errors",
    "SessionExistsError": "errors",
    "InvalidIdError": "errors",
    "StoreError": "errors",
    "MissingSchemaError": "errors",
    "SessionNotFoundError": "errors",
    "AmbiguousSessionError": "errors",
    "SessionBusyError": "errors",
    "PersistenceError": "errors",
    "ClockError": "errors",
    "UnknownProfileError": "profiles",
    "UnknownAgentError": "discovery.adapters",
    "NoNativeCommandError": "discovery.native_agent",
    "CompactionError": "core.compaction",
    "AlreadyCompactedError": "core.compaction",
    "NothingToCompactError": "core.compaction",
    "CompactionCancelledError": "core.compaction",
    "BundleError": "export.bundle_archive",
    "RestoreRefusedError": "maintenance.kept_restoring",
    "ScheduleError": "maintenance.schedules",
    "NothingToForkError": "runtime.sessions",
    "NotAPromptError": "runtime.navigation",
    "OperationInProgressError": "runtime.operations",
    "SessionClosedError": "session.worker",
    "AgentBusyError": "runtime.agent",
    "ModelNotFoundError": "runtime.models",
    "AmbiguousModelError": "runtime.models",
}

__all__ = ["__version__", *_HOMES]  # noqa: PLE0604 - the keys are strings

if TYPE_CHECKING:
    from sessiontree.core.compaction import AlreadyCompactedError as AlreadyCompactedError
    from sessiontree.core.compaction import CompactionCancelledError as CompactionCancelledError
    from sessiontree.core.compaction import CompactionError as CompactionError
    from sessiontree.core.compaction import NothingToCompactError as NothingToCompactError
    from sessiontree.core.context import SessionContext as SessionContext
    from sessiontree.core.context import build_session_context as build_session_context
    from sessiontree.core.llm import convert_to_llm as convert_to_llm
    from sessiontree.core.tree import SessionTreeNode as SessionTreeNode
    from sessiontree.discovery.adapters import UnknownAgentError as UnknownAgentError
    from sessiontree.discovery.listing import SessionInfo as SessionInfo
    from sessiontree.discovery.native_agent import NoNativeCommandError as NoNativeCommandError
    from sessiontree.discovery.recent import RecentSessionInfo as RecentSessionInfo
    from sessiontree.discovery.recent import find_most_recent_session as find_most_recent_session
    from sessiontree.discovery.recent import get_recent_sessions as get_recent_sessions
    from sessiontree.errors import AmbiguousSessionError as AmbiguousSessionError
    from sessiontree.errors import ClockError as ClockError
    from sessiontree.errors import ConflictError as ConflictError
    from sessiontree.errors import EntryExistsError as EntryExistsError
    from sessiontree.errors import EntryNotFoundError as EntryNotFoundError
    from sessiontree.errors import InvalidIdError as InvalidIdError
    from sessiontree.errors import MissingSchemaError as MissingSchemaError
    from sessiontree.errors import NotASessionError as NotASessionError
    from sessiontree.errors import PersistenceError as PersistenceError
    from sessiontree.errors import SessionBusyError as SessionBusyError
    from sessiontree.errors import SessionExistsError as SessionExistsError
    from sessiontree.errors import SessionNotFoundError as SessionNotFoundError
    from sessiontree.errors import SessionTreeError as SessionTreeError
    from sessiontree.errors import StoreError as StoreError
    from sessiontree.export.bundle_archive import BundleError as BundleError
    from sessiontree.history import HistoryStorage as HistoryStorage
    from sessiontree.maintenance.kept_restoring import RestoreRefusedError as RestoreRefusedError
    from sessiontree.maintenance.schedules import ScheduleError as ScheduleError
    from sessiontree.model.entries import Entry as Entry
    from sessiontree.model.lines import SessionWarning as SessionWarning
    from sessiontree.model.lines import parse_jsonl_lenient as parse_jsonl_lenient
    from sessiontree.model.migrations import migrate_entries as migrate_entries
    from sessiontree.profiles import Profile as Profile
    from sessiontree.profiles import UnknownProfileError as UnknownProfileError
    from sessiontree.profiles import get_profile as get_profile
    from sessiontree.runtime.agent import Agent as Agent
    from sessiontree.runtime.agent import AgentBusyError as AgentBusyError
    from sessiontree.runtime.agent_base import AgentBase as AgentBase
    from sessiontree.runtime.agent_session import AgentSession as AgentSession
    from sessiontree.runtime.create import create_agent_session as create_agent_session
    from sessiontree.runtime.models import AmbiguousModelError as AmbiguousModelError
    from sessiontree.runtime.models import ModelNotFoundError as ModelNotFoundError
    from sessiontree.runtime.navigation import NotAPromptError as NotAPromptError
    from sessiontree.runtime.operations import OperationInProgressError as OperationInProgressError
    from sessiontree.runtime.sessions import NothingToForkError as NothingToForkError
    from sessiontree.session.async_manager import AsyncSessionManager as AsyncSessionManager
    from sessiontree.session.manager import SessionManager as SessionManager
    from sessiontree.session.worker import SessionClosedError as SessionClosedError
    from sessiontree.storage.base import SessionStorage as SessionStorage
    from sessiontree.storage.base import SessionStorageReader as SessionStorageReader
    from sessiontree.storage.base import SessionStorageWriter as SessionStorageWriter
    from sessiontree.storage.blobs import BlobStore as BlobStore
    from sessiontree.storage.file import FileSessionStorage as FileSessionStorage
    from sessiontree.storage.memory import MemorySessionStorage as MemorySessionStorage
    from sessiontree.stores import open_store as open_store
    from sessiontree.stores.base import SessionLog as SessionLog
    from sessiontree.stores.base import SessionStore as SessionStore
    from sessiontree.stores.files.reader import load_entries_from_file as load_entries_from_file
    from sessiontree.stores.files.relinking import relink as relink
    from sessiontree.stores.files.store import FileStore as FileStore
    from sessiontree.stores.finding import resolve_session as resolve_session
    from sessiontree.stores.finding import search as search
    from sessiontree.stores.memory import MemoryStore as MemoryStore


if not TYPE_CHECKING:  # a type checker that sees it takes every misspelt name for one of ours

    def __getattr__(name: str) -> Any:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
