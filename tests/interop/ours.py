"""Our side of interop: plays a script through ``SessionManager``, shows a session as peers do.

The shape of ``view`` is that of driver.mjs's ``read``, so that two views compare key by key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sessiontree import SessionManager, convert_to_llm
from sessiontree.core.usage import total_usage

from .scripts import Step, Writer, dialect_of

Ids = list[str | None]


def write_session(
    steps: Sequence[Step], cwd: Path, session_dir: Path, writer: Writer
) -> tuple[Ids, Path]:
    """A new session made of these steps, closed again: its ids, step by step, and its file."""
    with SessionManager.create(cwd, session_dir, profile=dialect_of(writer)) as manager:
        ids = play(manager, steps)
        assert manager.session_file is not None
        return ids, Path(manager.session_file)


def append_to(file: Path, steps: Sequence[Step], writer: Writer, ids: Ids) -> Ids:
    """The same session carried on; the ids known so far and the new ones."""
    with SessionManager.open(file, profile=dialect_of(writer)) as manager:
        return play(manager, steps, ids)


def read_session(file: Path, writer: Writer) -> dict[str, Any]:
    """What we see in this file."""
    manager = SessionManager.open(file, profile=dialect_of(writer))
    try:
        return view(manager)
    finally:
        manager.close()


def play(manager: SessionManager, steps: Sequence[Step], known: Sequence[str | None] = ()) -> Ids:
    """Do what the steps say; the id each made, None for those that made no entry."""
    made: Ids = list(known)

    def find(reference: int | str) -> str:
        found = made[reference] if isinstance(reference, int) else reference
        assert found is not None
        return found

    for step in steps:
        made.append(_ACTIONS[step["do"]](manager, step, find))
    return made


_Find = Callable[[int | str], str]


def _compaction(m: SessionManager, s: Step, find: _Find) -> str:
    return m.append_compaction(
        s["summary"],
        None if s["keep"] == -1 else find(s["keep"]),
        s["tokens"],
        short_summary=s.get("short"),
        details=s.get("details"),
        preserve_data=s.get("preserve"),
        from_extension=s.get("extension"),
        usage=s.get("usage"),
    )


def _branch_summary(m: SessionManager, s: Step, find: _Find) -> str:
    target = None if s["to"] == -1 else find(s["to"])
    return m.branch_with_summary(
        target, s["summary"], s.get("details"), s.get("extension"), usage=s.get("usage")
    )


def _context_edit(m: SessionManager, s: Step, find: _Find) -> str | None:
    target = find(s["target"])
    if all(entry.id != target for entry in m.get_branch()):
        return None  # opened again, and on another branch than the script believes
    return m.append_context_edit(target, s["replacement"])


def _branch(m: SessionManager, s: Step, find: _Find) -> None:
    m.branch(find(s["to"]))


def _reset(m: SessionManager, s: Step, find: _Find) -> None:
    m.reset_leaf()


def _name(m: SessionManager, s: Step, find: _Find) -> str | None:
    before = m.leaf_id
    m.set_session_name(s["name"])
    return m.leaf_id if m.leaf_id != before else None


_ACTIONS: dict[str, Callable[[SessionManager, Step, _Find], str | None]] = {
    "message": lambda m, s, _: m.append_message(s["message"]),
    "thinking": lambda m, s, _: m.append_thinking_level_change(s["level"]),
    "model": lambda m, s, _: m.append_model_change(f"{s['provider']}/{s['model']}", s.get("role")),
    "compaction": _compaction,
    "custom": lambda m, s, _: m.append_custom_entry(s["kind"], s.get("data")),
    "custom_message": lambda m, s, _: m.append_custom_message_entry(
        s["kind"], s["content"], s["display"], s.get("details")
    ),
    "label": lambda m, s, find: m.append_label_change(find(s["target"]), s.get("label")),
    "branch": _branch,
    "reset": _reset,
    "branch_summary": _branch_summary,
    "context_edit": _context_edit,
    "usage": lambda m, s, _: m.append_usage(
        s["kind"], s["provider"], s["model"], s["usage"], s.get("note")
    ),
    "name": _name,
    "ttsr": lambda m, s, _: m.append_ttsr_injection(s["rules"]),
    "mode": lambda m, s, _: m.append_mode_change(s["mode"], s.get("data")),
    "init": lambda m, s, _: m.append_session_init(
        s["prompt"], s["task"], s["tools"], s.get("schema")
    ),
}

_PEER_ONLY = frozenset({"reset_boundary", "service_tier", "credential_pin"})


def playable_by_both(steps: Sequence[Step]) -> list[Step]:
    """The script with a stand-in for each step that living omp has and our interface only reads.

    A step keeps its number, so that later steps still refer to the right entries.
    """
    return [{"do": "custom", "kind": "stand-in"} if s["do"] in _PEER_ONLY else s for s in steps]


def view(manager: SessionManager) -> dict[str, Any]:
    """An open session in the shape of the driver's answer."""
    entries = manager.get_entries()
    context = manager.build_session_context()
    labels = {e.id: manager.get_label(e.id) for e in entries}
    return {
        "header": manager.header,
        "entries": [entry.data for entry in entries],
        "leaf": manager.leaf_id,
        "branch": [entry.id for entry in manager.get_branch()],
        "labels": {key: label for key, label in labels.items() if label},
        "name": manager.session_name,
        "messages": context.messages,
        "llm": convert_to_llm(context.messages),
        "thinking": context.thinking_level,
        "models": context.models,
        "mode": context.mode,
        "mode_data": context.mode_data,
        "rules": list(context.injected_ttsr_rules),
        "tree": _shape(manager),
        "used": total_usage(entry.data for entry in entries),
        "id": manager.session_id,
    }


def _shape(manager: SessionManager) -> list[list[Any]]:
    """The tree in pre-order: id, number of children, label."""
    out: list[list[Any]] = []
    stack = list(reversed(manager.get_tree()))
    while stack:
        node = stack.pop()
        out.append([node.entry.id, len(node.children), node.label])
        stack.extend(reversed(node.children))
    return out
