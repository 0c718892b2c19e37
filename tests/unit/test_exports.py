"""The public API as a test: every name and signature, and nothing imported too soon."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from tests import processes

import sessiontree
import sessiontree.testing
from sessiontree import SessionManager
from sessiontree.errors import SessionTreeError

NAMES = [
    "SessionManager",
    "SessionContext",
    "SessionInfo",
    "RecentSessionInfo",
    "SessionTreeNode",
    "SessionStorage",
    "FileSessionStorage",
    "MemorySessionStorage",
    "BlobStore",
    "HistoryStorage",
    "AgentSession",
    "create_agent_session",
    "build_session_context",
    "convert_to_llm",
    "load_entries_from_file",
    "parse_jsonl_lenient",
    "migrate_entries",
    "get_recent_sessions",
    "find_most_recent_session",
    "resolve_session",
    "search",
    "SessionTreeError",
    "NotASessionError",
    "EntryNotFoundError",
    "SessionNotFoundError",
    "AmbiguousSessionError",
    "SessionBusyError",
    "PersistenceError",
]

CONSTRUCTORS = {
    "create": ["cwd", "session_dir"],
    "open": ["path", "session_dir"],
    "continue_recent": ["cwd", "session_dir"],
    "fork_from": ["source_path", "cwd", "session_dir"],
    "in_memory": ["cwd"],
}
METHODS = {
    "append_message": ["message"],
    "append_thinking_level_change": ["level"],
    "append_model_change": ["model", "role"],
    "append_compaction": ["summary", "first_kept_entry_id", "tokens_before"],
    "append_custom_entry": ["custom_type", "data"],
    "append_custom_message_entry": ["custom_type", "content", "display", "details"],
    "append_label_change": ["target_id", "label"],
    "append_ttsr_injection": ["rules"],
    "append_session_init": ["system_prompt", "task", "tools", "output_schema"],
    "append_mode_change": ["mode", "data"],
    "append_session_info": ["name"],
    "append_context_edit": ["target_id", "replacement"],
    "append_usage": ["kind", "provider", "model", "usage", "note"],
    "get_entry": ["id"],
    "get_label": ["id"],
    "branch": ["id"],
    "branch_with_summary": ["id_or_none", "summary", "details", "from_extension"],
    "get_entries": [],
    "get_branch": ["from_id"],
    "get_tree": [],
    "get_children": ["parent_id"],
    "reset_leaf": [],
    "build_session_context": [],
    "set_session_file": ["path"],
    "new_session": ["parent_session", "id"],
    "set_session_name": ["name"],
    "fork": [],
    "create_branched_session": ["leaf_id"],
    "move_to": ["new_cwd"],
    "rewrite_entries": [],
    "rewrite_tool_call_args": ["tool_call_id", "arguments"],
    "flush": [],
    "close": [],
    "recover": [],
}
PROPERTIES = [
    "session_id",
    "session_file",
    "session_dir",
    "cwd",
    "header",
    "session_name",
    "is_persisted",
    "leaf_id",
    "leaf_entry",
    "warnings",
]
ERRORS = [
    "NotASessionError",
    "EntryNotFoundError",
    "SessionNotFoundError",
    "AmbiguousSessionError",
    "SessionBusyError",
    "PersistenceError",
]


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(function).parameters)
    found.pop("self", None)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_promised_name_is_there(name: str) -> None:
    assert getattr(sessiontree, name) is not None
    assert name in sessiontree.__all__
    assert name in dir(sessiontree)


def test_every_name_that_is_listed_is_there() -> None:
    for name in sessiontree.__all__:
        getattr(sessiontree, name)


def test_an_unknown_name_is_no_attribute() -> None:
    # That the comments for mypy are needed is half of the test: it knows these names for misspelt.
    with pytest.raises(AttributeError, match="Nonsense"):
        sessiontree.Nonsense  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="Nonsense"):
        sessiontree.testing.Nonsense  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError):
        importlib.import_module("sessiontree.nonsense")


def test_there_is_a_version() -> None:
    assert sessiontree.__version__.count(".") == 2


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructors_take_what_was_promised(name: str) -> None:
    found = parameters(getattr(SessionManager, name))
    keywords = [n for n, p in found.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert [n for n in found if n not in keywords] == CONSTRUCTORS[name]
    assert {"profile", "storage", "durability"} <= set(keywords)
    assert found["profile"].default is None
    assert found["storage"].default is None
    assert found["durability"].default == "flush"


@pytest.mark.parametrize("name", METHODS)
def test_methods_take_what_was_promised(name: str) -> None:
    found = parameters(getattr(SessionManager, name))
    positional = [n for n, p in found.items() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert positional == METHODS[name]


def test_a_compaction_takes_its_options_by_keyword() -> None:
    found = parameters(SessionManager.append_compaction)
    keywords = [n for n, p in found.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert keywords == ["short_summary", "details", "preserve_data", "from_extension", "usage"]


@pytest.mark.parametrize("name", PROPERTIES)
def test_state_is_read_as_properties(name: str) -> None:
    assert isinstance(inspect.getattr_static(SessionManager, name), property)
    getattr(SessionManager.in_memory(), name)


@pytest.mark.parametrize(
    "described",
    [
        SessionManager,
        sessiontree.SessionStorage,
        sessiontree.SessionStorageReader,
        sessiontree.SessionStorageWriter,
    ],
)
def test_help_says_what_every_member_is(described: type) -> None:
    members = [name for name in dir(described) if not name.startswith("_")]
    assert [name for name in members if not inspect.getattr_static(described, name).__doc__] == []


def test_listings_are_static() -> None:
    assert isinstance(inspect.getattr_static(SessionManager, "list"), staticmethod)
    assert isinstance(inspect.getattr_static(SessionManager, "list_all"), staticmethod)
    assert list(parameters(SessionManager.list))[:3] == ["cwd", "session_dir", "on_progress"]
    assert next(iter(parameters(SessionManager.list_all))) == "on_progress"


def test_a_context_has_the_promised_fields() -> None:
    assert list(sessiontree.SessionContext.__dataclass_fields__) == [
        *["messages", "thinking_level", "models", "injected_ttsr_rules", "mode", "mode_data"]
    ]


def test_a_node_has_the_promised_fields() -> None:
    session = SessionManager.in_memory()
    session.append_message({"role": "user", "content": "x"})
    (node,) = session.get_tree()
    assert (node.entry.type, node.children, node.label, node.label_timestamp) == (
        *("message", [], None, None),
    )


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_is_one_of_ours(name: str) -> None:
    assert issubclass(getattr(sessiontree, name), SessionTreeError)


def test_errors_say_what_they_are_about() -> None:
    assert str(sessiontree.EntryNotFoundError("abc")) == "Entry abc not found"
    assert str(sessiontree.SessionNotFoundError("abc")) == 'Session "abc" not found.'
    assert sessiontree.PersistenceError("/x/y", "reason").path == "/x/y"
    assert "/x/y" in str(sessiontree.PersistenceError("/x/y", "reason"))
    assert sessiontree.AmbiguousSessionError("a", [1, 2]).candidates == [1, 2]


# -- laziness ----------------------------------------

LOADED = """
import json, sys
before = set(sys.modules)
{}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded(statement: str) -> set[str]:
    """The modules that a statement brings into a fresh interpreter."""
    found: list[str] = json.loads(processes.run(LOADED.format(statement)))
    return set(found)


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("sessiontree")}


def test_importing_the_package_imports_next_to_nothing() -> None:
    modules = loaded("import sessiontree")
    assert ours(modules) == {"sessiontree", "sessiontree._version"}
    assert not modules & {"msgspec", "asyncio", "sqlite3", "click"}


HEAVY = {"textual", "rich", "pydantic", "pydantic_ai", "httpx", "click", "asyncio", "anthropic"}
UPPER = ("sessiontree.cli", "sessiontree.tui", "sessiontree.runtime", "sessiontree.agents")


@pytest.mark.parametrize(
    "statement",
    [
        "from sessiontree import SessionManager; SessionManager.in_memory()",
        "from sessiontree import build_session_context, convert_to_llm, parse_jsonl_lenient",
        "from sessiontree import FileSessionStorage, MemorySessionStorage, BlobStore",
        "from sessiontree import load_entries_from_file, migrate_entries",
        "from sessiontree import SessionTreeError, PersistenceError",
        "from sessiontree import get_recent_sessions, find_most_recent_session",
        "import sessiontree.testing",
    ],
)
def test_the_core_needs_no_front_end_and_no_optional_package(statement: str) -> None:
    modules = loaded(statement)
    assert not {name.partition(".")[0] for name in modules} & HEAVY
    assert not {name for name in modules if name.startswith(UPPER)}


@pytest.mark.parametrize(
    "statement", ["import sessiontree.export.html", "import sessiontree.export.documents"]
)
def test_an_export_without_redaction_compiles_no_patterns_of_secrets(statement: str) -> None:
    assert not {name for name in loaded(statement) if name.startswith("sessiontree.text.secrets")}


def test_errors_need_nothing_else() -> None:
    assert ours(loaded("from sessiontree import PersistenceError")) == {
        *("sessiontree", "sessiontree._version", "sessiontree.errors"),
    }


def test_errors_of_the_runtime_come_when_they_are_named() -> None:
    modules = loaded("from sessiontree import UnknownProfileError, CompactionError, BundleError")
    assert not {name for name in modules if name.startswith(UPPER)}
    assert "sessiontree.runtime.agent" in loaded("from sessiontree import AgentBusyError")


def test_values_need_no_storage() -> None:
    modules = ours(loaded("from sessiontree import build_session_context"))
    assert not {name for name in modules if "storage" in name or "manager" in name}


def test_working_on_a_session_stays_light(tmp_path: Any) -> None:
    statement = f"""
from sessiontree import SessionManager
with SessionManager.create({str(tmp_path)!r}, {str(tmp_path / "s")!r}) as session:
    session.append_message({{"role": "user", "content": "x"}})
    session.append_message({{"role": "assistant", "content": "y"}})
    session.build_session_context()
"""
    modules = loaded(statement)
    assert not {name.partition(".")[0] for name in modules} & HEAVY
    assert not {name for name in modules if name.startswith(UPPER)}


def test_the_scripted_agent_comes_when_it_is_named() -> None:
    assert not {name for name in loaded("import sessiontree.testing") if "runtime" in name}
    assert "sessiontree.testing.scripted_agent" in loaded(
        "from sessiontree.testing import ScriptedAgent"
    )


def test_the_typing_tests_use_every_public_name() -> None:
    folder = Path(__file__).parents[1] / "typing"
    imported = {
        alias.name
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "sessiontree"
        for alias in node.names
    }
    assert set(sessiontree.__all__) - imported == {"__version__"}
