"""Read both dialects, pi's and omp's; write one of them.

The profile determines the dialect, but a file whose entries show the other one keeps its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sessiontree.model.entries import Entry, WireEntry
from sessiontree.profiles import Dialect


def spell_model_change(dialect: Dialect, model: str, role: str | None) -> WireEntry:
    """Make the fields of a ``model_change`` entry."""
    if dialect == "pi":
        provider, _, model_id = model.partition("/")
        fields: WireEntry = {"provider": provider, "modelId": model_id}
    else:
        fields = {"model": model}
    if role is not None:
        fields["role"] = role
    return fields


def read_model_change(data: WireEntry) -> tuple[str, str] | None:
    """Read role and "provider/id" of a ``model_change`` in either dialect; None without them."""
    role = data.get("role")
    role = role if isinstance(role, str) and role else "default"
    model = data.get("model")
    if isinstance(model, str) and model:
        return role, model
    provider, model_id = data.get("provider"), data.get("modelId")
    if isinstance(provider, str) and isinstance(model_id, str):
        return role, f"{provider}/{model_id}"
    return None


def session_name(
    dialect: Dialect, title: str | None, info_name: str | None, fallback: str | None = None
) -> str | None:
    """Return a session's name: in its dialect's place, else in the other's, else a fallback.

    omp keeps it in the header or its slot, pi in the last ``session_info`` entry. The only rule
    for names: listings, open sessions, commands and exports all use this function.
    """
    first, second = (info_name, title) if dialect == "pi" else (title, info_name)
    for text in (first, second, fallback):
        if text and not text.isspace():
            return text
    return None


def extension_key(dialect: Dialect) -> str:
    """Return the field that marks a summary made by an extension."""
    return "fromHook" if dialect == "pi" else "fromExtension"


def detect_dialect(has_title: bool, entries: Iterable[Entry]) -> Dialect | None:
    """Detect the dialect by a file's entries; None if they don't show it."""
    if has_title:
        return "omp"
    for entry in entries:
        kind = entry.type
        if kind == "message":
            continue  # nearly all
        if kind == "session_info":
            return "pi"
        if kind == "model_change":
            data: dict[str, Any] = entry.decode()
            if ("modelId" in data) != ("model" in data):  # some write both, for any reader
                return "pi" if "modelId" in data else "omp"
        if kind in _OMP_ONLY:
            return "omp"
    return None


_OMP_ONLY = frozenset(
    (
        "ttsr_injection",
        "session_init",
        "mode_change",
        "title_change",
        "model_usage",
        "service_tier_change",
        "reset_boundary",
        "credential_pin",
        "context_change",
        "mcp_tool_selection",
    )
)
