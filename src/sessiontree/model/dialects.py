"""How pi and omp spell the same things. Reading accepts both; writing uses one.

A dialect is chosen by the profile; a file that shows otherwise is continued in its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sessiontree.model.entries import Entry, WireEntry
from sessiontree.profiles import Dialect


def spell_model_change(dialect: Dialect, model: str, role: str | None) -> WireEntry:
    """The fields of a ``model_change`` entry."""
    if dialect == "pi":
        provider, _, model_id = model.partition("/")
        fields: WireEntry = {"provider": provider, "modelId": model_id}
    else:
        fields = {"model": model}
    if role is not None:
        fields["role"] = role
    return fields


def read_model_change(data: WireEntry) -> tuple[str, str] | None:
    """Role and "provider/id" of a ``model_change`` in either dialect; None if it has none."""
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
    """A session's name: its dialect's word for it, else the other dialect's, else a fallback.

    omp keeps a title in the header or its slot, pi the last ``session_info`` entry. The only rule
    for names: listings, open sessions, commands and exports all ask here.
    """
    first, second = (info_name, title) if dialect == "pi" else (title, info_name)
    for text in (first, second, fallback):
        if text and not text.isspace():
            return text
    return None


def extension_key(dialect: Dialect) -> str:
    """The field that marks a summary made by an extension."""
    return "fromHook" if dialect == "pi" else "fromExtension"


def detect_dialect(has_title: bool, entries: Iterable[Entry]) -> Dialect | None:
    """The dialect a file shows by its own entries; None if it gives no sign."""
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
