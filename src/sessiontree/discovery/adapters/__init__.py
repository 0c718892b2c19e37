"""One adapter for each agent whose sessions Sessiontree can find, list, search and open.

``base`` describes an adapter; ``docs/importing.md`` shows how to add one. Adapters load when they
are asked for, so that a command for one agent doesn't pay for the others. A package of yours adds
its agent with an entry point in the group ``sessiontree.agents``, whose object is an adapter; a
program, with ``register_adapter``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from sessiontree.errors import SessionTreeError
from sessiontree.plugins import find_entry_points
from sessiontree.profiles import PROFILE_NAMES

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from sessiontree.discovery.adapters.base import AgentAdapter

ENTRY_POINTS = "sessiontree.agents"
OWN_AGENTS = PROFILE_NAMES
"""Agents whose sessions Sessiontree also writes; each is a profile."""

_DATA = "~/.local/share"
"""Where programs keep their data, unless ``XDG_DATA_HOME`` names another folder."""
BUILT_IN = {
    # name: (module, class, the folder that its user has, variables that name another one)
    "claude-code": ("claude_code", "ClaudeCode", "~/.claude", ("CLAUDE_CONFIG_DIR",)),
    "codex": ("codex", "Codex", "~/.codex", ("CODEX_HOME",)),
    "gemini-cli": ("gemini_cli", "GeminiCli", "~/.gemini", ("GEMINI_CLI_HOME",)),
    "qwen-code": ("qwen_code", "QwenCode", "~/.qwen", ("QWEN_RUNTIME_DIR", "QWEN_HOME")),
    "copilot-cli": ("copilot_cli", "CopilotCli", "~/.copilot", ("COPILOT_HOME",)),
    "goose": ("goose", "Goose", f"{_DATA}/goose", ("GOOSE_PATH_ROOT",)),
    "hermes": ("hermes", "Hermes", "~/.hermes", ("HERMES_HOME",)),
    "opencode": ("opencode", "OpenCode", f"{_DATA}/opencode", ("OPENCODE_DB",)),
}
_loaded: dict[str, AgentAdapter] = {}
_installed: dict[str, AgentAdapter] | None = None

Agents = str | Iterable[str] | None
"""Which agents are meant: ``"all"``, one name, or several."""


class UnknownAgentError(SessionTreeError, ValueError):
    """No agent of that name has an adapter."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f'Unknown agent "{name}"; choose one of {", ".join(agent_names())}')


def agent_names() -> list[str]:
    """The names of all agents, those that Sessiontree writes for first."""
    known = [*OWN_AGENTS, *BUILT_IN, *_find_installed(), *_loaded]
    return list(dict.fromkeys(known))


def get_adapter(name: str) -> AgentAdapter:
    """Return an agent's adapter. Raises UnknownAgentError."""
    found = _loaded.get(name)
    if found is not None:
        return found
    if name in OWN_AGENTS:
        from sessiontree.discovery.adapters.tree import TreeAgent

        found = TreeAgent(name)
    elif name in BUILT_IN:
        module, member, _, _ = BUILT_IN[name]
        found = getattr(import_module(f"{__name__}.{module}"), member)()
    else:
        found = _find_installed().get(name)
    if found is None:
        raise UnknownAgentError(name)
    return _loaded.setdefault(name, found)


def get_adapters(agents: Agents = "all") -> list[AgentAdapter]:
    """Return the adapters of some agents or of all. Raises UnknownAgentError."""
    if agents is None or agents == "all":
        return [get_adapter(name) for name in agent_names()]
    names = [agents] if isinstance(agents, str) else dict.fromkeys(agents)
    return [get_adapter(name) for name in names]


def is_absent(name: str) -> bool:
    """Whether this user certainly has no sessions of a built-in agent: its folder is not there.

    Then its adapter need not be loaded. A variable that is set, or a folder that can't be read, is
    for the adapter to judge.
    """
    if name in _loaded or name not in BUILT_IN:
        return False
    _, _, folder, variables = BUILT_IN[name]
    if any(os.environ.get(variable) for variable in variables):
        return False
    data = os.environ.get("XDG_DATA_HOME")
    if data and folder.startswith(_DATA):
        folder = data + folder.removeprefix(_DATA)
    try:
        os.stat(os.path.expanduser(folder))
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def register_adapter(adapter: AgentAdapter) -> None:
    """Add an agent, or replace its adapter, for this process."""
    _loaded[adapter.name] = adapter


def unregister_adapter(name: str) -> None:
    """Remove an adapter that ``register_adapter`` added."""
    _loaded.pop(name, None)


def _find_installed() -> dict[str, AgentAdapter]:
    """The adapters that installed packages bring."""
    global _installed
    if _installed is None:
        _installed = {}
        for point in find_entry_points(ENTRY_POINTS):
            made = _load_installed(point)
            if made is not None:
                _installed[made.name] = made
    return _installed


def _load_installed(point: EntryPoint) -> AgentAdapter | None:
    """Make the adapter of a package; None if that fails, so that all other agents still work."""
    try:
        adapter = point.load()
        made: AgentAdapter = adapter() if isinstance(adapter, type) else adapter
        _ = made.name, made.title
    except Exception as error:  # whatever a stranger's package raises when it loads
        from sessiontree.logs import get_logger

        get_logger(__name__).warning("agent %s (%s) left out: %s", point.name, point.value, error)
        return None
    return made
