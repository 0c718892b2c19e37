"""Foreign files are untrusted: whatever is in them, conversion ends with a sound tree."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiontree.core.context import build_session_context
from sessiontree.core.tree import plant
from sessiontree.discovery.adapters.records import RecordList, read_records
from sessiontree.errors import SessionTreeError
from sessiontree.importers.claude_code import Sidechain, convert_claude_code
from sessiontree.importers.codex import convert_codex
from sessiontree.importers.foreign import load_foreign
from sessiontree.importers.foreign_listing import describe_foreign
from sessiontree.importers.imports import import_session
from sessiontree.importers.transcript import Transcript
from sessiontree.model import codec
from sessiontree.model.entries import Entry

GOLDEN = Path(__file__).parents[2] / "golden"
FILES = sorted(path for path in GOLDEN.rglob("*.jsonl") if path.name != "session_index.jsonl")

odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
uuids = st.sampled_from(["a", "b", "c", "d", "e"])
links = st.none() | uuids | odd


def fields(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={key: value | odd for key, value in known.items()})


blocks = fields(
    type=st.sampled_from(
        ["text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document"]
    ),
    text=st.sampled_from(
        ["hi", "[Request interrupted by user]", "<bash-input>ls</bash-input>", "<bash-stdout>x"]
    ),
    thinking=st.text(max_size=4),
    signature=st.text(max_size=4),
    id=uuids,
    name=st.text(max_size=4),
    input=odd,
    tool_use_id=uuids,
    content=odd,
    source=fields(type=st.just("base64"), data=st.just("AAAA"), media_type=st.text(max_size=3)),
    is_error=st.booleans(),
)
claude_records = fields(
    type=st.sampled_from(
        ["user", "assistant", "system", "attachment", "summary", "progress", "ai-title", "new-kind"]
    ),
    uuid=uuids,
    parentUuid=links,
    logicalParentUuid=links,
    leafUuid=links,
    isSidechain=st.booleans(),
    isMeta=st.booleans(),
    isCompactSummary=st.booleans(),
    isApiErrorMessage=st.booleans(),
    agentId=uuids,
    subtype=st.sampled_from(["compact_boundary", "local_command", "turn_duration"]),
    timestamp=st.sampled_from(["2026-01-01T00:00:00Z", "never", "9999-12-31T23:59:59Z"]),
    compactMetadata=fields(
        preTokens=st.integers(),
        preservedSegment=fields(headUuid=links, tailUuid=links, anchorUuid=links),
    ),
    message=fields(
        id=st.sampled_from(["m1", "m2"]),
        model=st.sampled_from(["claude-x", "<synthetic>", "gpt"]),
        role=st.sampled_from(["user", "assistant"]),
        content=st.text(max_size=6) | st.lists(blocks | odd, max_size=3),
        stop_reason=st.sampled_from(["end_turn", "tool_use"]),
        usage=fields(input_tokens=st.integers(), output_tokens=st.integers()),
    ),
    attachment=fields(
        type=st.just("queued_command"), prompt=st.text(max_size=4), commandMode=st.just("prompt")
    ),
    toolUseResult=fields(agentId=uuids),
    thinkingMetadata=fields(level=st.sampled_from(["high", "none"]), disabled=st.booleans()),
    costUSD=st.floats(),
)
payloads = fields(
    type=st.sampled_from(
        [
            "message",
            "reasoning",
            "function_call",
            "function_call_output",
            "custom_tool_call",
            "local_shell_call",
            "web_search_call",
            "user_message",
            "agent_message",
            "token_count",
            "thread_rolled_back",
            "turn_aborted",
            "item_completed",
            "exec_command_end",
        ]
    ),
    id=uuids,
    role=st.sampled_from(["user", "assistant", "developer"]),
    content=st.text(max_size=5) | st.lists(blocks | odd, max_size=3),
    summary=st.lists(blocks, max_size=2),
    encrypted_content=st.text(max_size=4),
    name=st.text(max_size=4),
    arguments=st.sampled_from(["{}", "[", '{"a":1}']),
    call_id=uuids,
    output=st.text(max_size=5) | fields(content=odd, success=st.booleans()),
    message=st.text(max_size=5),
    num_turns=st.integers(-3, 3),
    info=fields(last_token_usage=fields(input_tokens=st.integers(), output_tokens=st.floats())),
    item=fields(type=st.sampled_from(["UserMessage", "CommandExecution"]), id=uuids, content=odd),
    replacement_history=st.lists(fields(role=st.just("user"), content=odd), max_size=2),
    model=st.sampled_from(["gpt-5", "gpt-6"]),
    effort=st.sampled_from(["high", "none", "odd"]),
    exit_code=st.integers(0, 2),
)
codex_records = st.one_of(
    fields(
        type=st.sampled_from(
            ["session_meta", "response_item", "event_msg", "turn_context", "compacted", "new_kind"]
        ),
        timestamp=st.sampled_from(["2026-01-01T00:00:00Z", ""]),
        payload=payloads,
    ),
    payloads,
)


def check(transcript: Transcript) -> None:
    """Every entry has an id of its own, a parent before it, and can be written and shown."""
    seen: set[str] = set()
    for entry in transcript.entries:
        assert entry["parentId"] is None or entry["parentId"] in seen
        assert entry["id"] not in seen
        seen.add(entry["id"])
        assert entry["timestamp"].endswith("Z")
    assert transcript.leaf_id is None or transcript.leaf_id in seen
    tree, repairs = plant(Entry.from_wire(entry) for entry in transcript.entries)
    assert repairs == []
    context = build_session_context(transcript.entries, transcript.leaf_id)
    assert all(message["role"] for message in context.messages)
    codec.encode(transcript.entries)
    for compaction in (e for e in tree.entries if e.type == "compaction"):
        assert compaction.data["firstKeptEntryId"] in seen


@settings(max_examples=100, deadline=None)
@given(st.lists(claude_records, max_size=14), st.lists(claude_records, max_size=4))
def test_any_claude_records_make_a_sound_tree(
    records: list[dict[str, Any]], chain: list[dict[str, Any]]
) -> None:
    transcript = convert_claude_code(
        RecordList(records), session_id="s", sidechains=[Sidechain("a", chain)]
    )
    check(transcript)


@settings(max_examples=100, deadline=None)
@given(st.lists(codex_records, max_size=16))
def test_any_codex_records_make_a_sound_tree(records: list[dict[str, Any]]) -> None:
    check(convert_codex(RecordList(records), session_id="s"))


@settings(max_examples=60, deadline=None)
@given(st.lists(claude_records, max_size=12), st.integers(0, 12))
def test_a_longer_claude_file_never_contradicts_a_shorter_one(
    records: list[dict[str, Any]], length: int
) -> None:
    """Merging the two by id, as an update does, gives a sound tree that holds both."""
    part = convert_claude_code(RecordList(records[:length]), session_id="s").entries
    whole = convert_claude_code(RecordList(records), session_id="s").entries
    known = {entry["id"] for entry in part}
    merged = [*part, *(entry for entry in whole if entry["id"] not in known)]
    _, repairs = plant(Entry.from_wire(entry) for entry in merged)
    assert repairs == []


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(FILES),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.binary(max_size=4)), min_size=1, max_size=8),
)
def test_a_damaged_file_is_read_or_refused(
    tmp_path: Path, file: Path, damage: list[tuple[int, bytes]]
) -> None:
    data = bytearray(file.read_bytes())
    for at, junk in damage:
        place = at % len(data)
        data[place : place + len(junk)] = junk
    path = tmp_path / file.name
    path.write_bytes(bytes(data))
    agent = "codex" if file.name.startswith("rollout-") else "claude-code"
    assert describe_foreign(str(path), agent) is not None
    try:
        document = load_foreign(path)
    except SessionTreeError:
        return
    check(document.transcript)


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"user","uuid":"a","message":{"role":"user","content":"\\ud83d"},"cwd":"/w"}',
        '{"type":"user","uuid":"a","message":{"role":"user","content":"x"},"n":'
        + "9" * 5000
        + ',"sessionId":"s"}',
        '{"type":"user","uuid":"a","sessionId":"s","message":{"role":"user","content":"x"},"d":'
        + "[" * 900
        + "]" * 900
        + "}",
        '\ufeff{"type":"user","uuid":"a","message":{"role":"user","content":"bom"}}',
    ],
)
def test_what_javascript_writes_can_be_imported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text + "\n", encoding="utf-8")
    report = import_session(path, cwd=tmp_path)
    assert report.added == 2
    assert import_session(path, cwd=tmp_path).is_unchanged


def test_a_folder_that_no_file_can_be_named_after_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    record = {
        "type": "user",
        "uuid": "a",
        "cwd": "/a\x00b",
        "message": {"role": "user", "content": "x"},
    }
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(SessionTreeError, match="cannot be stored"):
        import_session(path)
    assert import_session(path, cwd=tmp_path).is_new


def test_time_grows_with_the_size_of_a_file_and_not_faster() -> None:
    """Many notes, many followers, many branches, many compactions: each a way to be slow."""

    def chain(count: int) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = [
            {"type": "assistant", "uuid": "a", "message": {"id": "m", "content": []}}
        ]
        for number in range(count):
            records.append({"type": "progress", "uuid": f"p{number}", "parentUuid": "a"})
            records.append({"type": "last-prompt", "n": number})
            records.append(
                {
                    "type": "user",
                    "uuid": f"u{number}",
                    "parentUuid": "a",
                    "message": {"content": "<bash-stdout>" * 20},
                }
            )
        return records

    start = time.process_time()
    convert_claude_code(RecordList(chain(1_000)), session_id="s")
    small = time.process_time() - start
    start = time.process_time()
    convert_claude_code(RecordList(chain(8_000)), session_id="s")
    # eight times the records; sixty-four times would be the square
    assert time.process_time() - start < 30 * small + 0.5


def test_blank_lines_and_debris_are_told_by_line() -> None:
    found = read_records(b'\n{"a":1}\nnot json\n[1]\n{"b":2}\n{"c":')
    assert found.records == [{"a": 1}, {"b": 2}]
    assert [line for line, _ in found.skipped] == [3, 4, 6]


def test_a_hostile_history_takes_no_longer_than_it_is_long() -> None:
    many = 4_000  # each compared with each it would take half a minute
    said = {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "x"}]}
    chain: list[dict[str, object]] = [
        {"type": "system", "uuid": f"s{n}", "parentUuid": f"s{n - 1}"} for n in range(many)
    ]
    copies: list[dict[str, object]] = [
        {"type": "assistant", "uuid": f"a{n}", "parentUuid": f"s{many - 1}", "message": said}
        for n in range(many)
    ]
    around = "<ide_selection>x</ide_selection>" * many
    prompt = {"type": "user", "uuid": "p", "message": {"role": "user", "content": around}}
    convert_claude_code(RecordList([*chain, *copies, prompt]))
    text = "a text that is long enough"
    events = [
        {"type": "event_msg", "payload": {"type": "agent_message", "message": f"{text} {n}"}}
        for n in range(many)
    ]
    item = {"type": "message", "role": "assistant", "content": [{"text": f"another {text}"}]}
    convert_codex(RecordList([*events, *[{"type": "response_item", "payload": item}] * many]))
