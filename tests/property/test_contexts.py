"""Contexts of random trees against a naive reading of the rules, from scratch and carried along."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import TIME_MS, assistant, entry, message, user

from sessiontree import (
    MemorySessionStorage,
    SessionContext,
    SessionManager,
    build_session_context,
)

Wire = dict[str, Any]


def naive_context(entries: list[Wire], leaf_id: str | None) -> SessionContext:
    """The rules of contexts, word for word, with no thought of speed."""
    if leaf_id is None or not entries:
        return SessionContext()
    by_id = {wire["id"]: wire for wire in entries}
    path: list[Wire] = []
    at: Wire | None = by_id.get(leaf_id, entries[-1])
    while at is not None and at not in path:
        path.insert(0, at)
        at = by_id.get(at["parentId"])
    made = SessionContext()
    explicit = False
    for wire in path:
        match wire["type"]:
            case "thinking_level_change":
                made.thinking_level = wire["thinkingLevel"]
            case "model_change":
                role = wire.get("role") or "default"
                name = wire.get("model") or f"{wire['provider']}/{wire['modelId']}"
                made.models[role] = name
                explicit = explicit or role == "default"
            case "ttsr_injection":
                for rule in wire["injectedRules"]:
                    if rule not in made.injected_ttsr_rules:
                        made.injected_ttsr_rules.append(rule)
            case "mode_change":
                made.mode, made.mode_data = wire["mode"], wire.get("data")
    if not explicit:
        for wire in path:
            if wire["type"] == "message" and wire["message"]["role"] == "assistant":
                said = wire["message"]
                made.models["default"] = f"{said['provider']}/{said['model']}"
    made.messages = naive_messages(path)
    return made


def naive_messages(path: list[Wire]) -> list[Wire]:
    types = [wire["type"] for wire in path]
    compactions = [at for at, kind in enumerate(types) if kind == "compaction"]
    resets = [at for at, kind in enumerate(types) if kind == "reset_boundary"]
    cut = compactions[-1] if compactions else -1
    if resets and resets[-1] > cut:
        return speak(path[resets[-1] + 1 :])
    if cut < 0:
        return speak(path)
    compaction = path[cut]
    kept: list[Wire] = []
    before = [wire["id"] for wire in path[:cut]]
    if compaction.get("firstKeptEntryId") in before:
        kept = path[before.index(compaction["firstKeptEntryId"]) : cut]
    summary = {
        "role": "compactionSummary",
        "summary": compaction["summary"],
        "tokensBefore": compaction["tokensBefore"],
        "timestamp": TIME_MS,
    }
    return [summary, *speak(kept), *speak(path[cut + 1 :])]


def speak(path: list[Wire]) -> list[Wire]:
    made: list[Wire] = []
    for wire in path:
        match wire["type"]:
            case "message":
                made.append(wire["message"])
            case "custom_message":
                made.append(
                    {
                        "role": "custom",
                        "customType": wire["customType"],
                        "content": wire["content"],
                        "display": wire["display"],
                        "timestamp": TIME_MS,
                    }
                )
            case "branch_summary" if wire["summary"]:
                made.append(
                    {
                        "role": "branchSummary",
                        "summary": wire["summary"],
                        "fromId": wire["fromId"],
                        "timestamp": TIME_MS,
                    }
                )
    return made


LEVELS = st.sampled_from(["off", "low", "high"])
ROLES = st.sampled_from([None, "default", "smol"])
RULES = st.lists(st.sampled_from("abc"), max_size=3)


@st.composite
def wires(draw: st.DrawFn) -> list[Wire]:
    """Entries of every type that matters, hung anywhere among those before them."""
    made: list[Wire] = []
    for number in range(draw(st.integers(0, 16))):
        entry_id = f"e{number}"
        parents: list[str | None] = [None, *(wire["id"] for wire in made)]
        # mostly the entry before: long paths are where the rules meet
        parent = parents[-1] if draw(st.integers(0, 3)) else draw(st.sampled_from(parents))
        made.append(draw_entry(draw, entry_id, parent, [wire["id"] for wire in made]))
    return made


def draw_entry(draw: st.DrawFn, entry_id: str, parent: str | None, known: list[str]) -> Wire:
    match draw(st.integers(0, 13)):
        case 0 | 1 | 2:
            return message(entry_id, parent, user(entry_id))
        case 3 | 4:
            model = draw(st.sampled_from(["m1", "m2"]))
            return message(entry_id, parent, assistant(entry_id, provider="p", model=model))
        case 5:
            return entry("thinking_level_change", entry_id, parent, thinkingLevel=draw(LEVELS))
        case 6:
            role = draw(ROLES)
            extra = {} if role is None else {"role": role}
            return entry("model_change", entry_id, parent, model=f"x/{entry_id}", **extra)
        case 7:
            return entry("model_change", entry_id, parent, provider="y", modelId=entry_id)
        case 8:
            kept = draw(st.sampled_from([*known, "nowhere"]))
            return entry(
                *("compaction", entry_id, parent),
                summary=entry_id,
                firstKeptEntryId=kept,
                tokensBefore=7,
            )
        case 9:
            text = draw(st.sampled_from(["", "went"]))
            return entry("branch_summary", entry_id, parent, fromId="root", summary=text)
        case 10:
            return entry(
                *("custom_message", entry_id, parent), customType="x", content="c", display=True
            )
        case 11:
            return entry("ttsr_injection", entry_id, parent, injectedRules=draw(RULES))
        case 12:
            return entry("mode_change", entry_id, parent, mode=draw(LEVELS), data={"x": entry_id})
        case _:
            kinds = ["custom", "label", "session_init", "reset_boundary", "future"]
            return entry(draw(st.sampled_from(kinds)), entry_id, parent, targetId="e0", label="l")


def comparable(context: SessionContext) -> SessionContext:
    """Fields that no rule asks for in a summary are left out of the comparison."""
    for said in context.messages:
        if said.get("role") == "compactionSummary":
            said.pop("shortSummary", None)
    return context


@given(wires(), st.data())
@settings(max_examples=200, deadline=None)
def test_a_context_is_what_the_specification_says(entries: list[Wire], data: st.DataObject) -> None:
    leaves: list[str | None] = [None, "unknown", *(wire["id"] for wire in entries)]
    leaf = data.draw(st.sampled_from(leaves), label="leaf")
    assert comparable(build_session_context(entries, leaf)) == naive_context(entries, leaf)


@given(wires(), st.data())
@settings(max_examples=80, deadline=None)
def test_an_open_session_carries_its_context_along(
    entries: list[Wire], data: st.DataObject
) -> None:
    """Appends, branches and context calls in any order give what a fresh build gives."""
    storage = MemorySessionStorage()
    session = SessionManager.create("/work", "/s", storage=storage)
    names: dict[str | None, str | None] = {None: None, "nowhere": "nowhere"}
    for wire in entries:
        parent = names[wire["parentId"]]
        if session.leaf_id != parent:
            session.reset_leaf() if parent is None else session.branch(parent)
        names[wire["id"]] = append(session, wire, names)
        if data.draw(st.booleans()):
            check(session)
    check(session)
    session.close()
    if not any(_is_answer(wire) for wire in entries):
        return
    again = SessionManager.open(str(session.session_file), storage=storage)
    assert again.build_session_context() == session.build_session_context()


def _is_answer(wire: Wire) -> bool:
    return wire["type"] == "message" and bool(wire["message"]["role"] == "assistant")


def append(session: SessionManager, wire: Wire, names: dict[str | None, str | None]) -> str:
    match wire["type"]:
        case "message":
            return session.append_message(wire["message"])
        case "thinking_level_change":
            return session.append_thinking_level_change(wire["thinkingLevel"])
        case "model_change":
            model = wire.get("model") or f"{wire['provider']}/{wire['modelId']}"
            return session.append_model_change(model, wire.get("role"))
        case "compaction":
            kept = names[wire["firstKeptEntryId"]] or "nowhere"
            return session.append_compaction(wire["summary"], kept, 7)
        case "branch_summary":
            return session.branch_with_summary(session.leaf_id, wire["summary"])
        case "custom_message":
            return session.append_custom_message_entry("x", "c", True)
        case "ttsr_injection":
            return session.append_ttsr_injection(wire["injectedRules"])
        case "mode_change":
            return session.append_mode_change(wire["mode"], wire["data"])
        case _:
            return session.append_custom_entry(wire["type"])


def check(session: SessionManager) -> None:
    from_scratch = build_session_context(
        [found.decode() for found in session.get_entries()], session.leaf_id
    )
    assert session.build_session_context() == from_scratch
