"""The same conversation in another agent's words."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiontree.errors import NotASessionError, PersistenceError, SessionNotFoundError
from sessiontree.export.convert import ConvertReport, convert_session
from sessiontree.model.messages import text_of
from sessiontree.session.manager import SessionManager
from sessiontree.storage.memory import MemorySessionStorage

UUID7 = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
IMAGE = base64.b64encode(bytes(range(256)) * 8).decode()
TIME = "2026-02-16T10:20:30.000Z"
NOTICE = "\n\n[Session persistence truncated large content]"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SESSIONTREE_AGENT_DIR", "SESSIONTREE_PROFILE", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def entry(kind: str, entry_id: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": entry_id, "parentId": parent, "timestamp": TIME, **fields}


def user(entry_id: str, parent: str | None, text: str) -> dict[str, Any]:
    message = {"role": "user", "content": text, "timestamp": 1}
    return entry("message", entry_id, parent, message=message)


def write(path: Path, *entries: dict[str, Any], **header: Any) -> Path:
    head = {
        "type": "session",
        "version": 3,
        "id": "1f9d2a6b9c0d1234",
        "timestamp": TIME,
        "cwd": "/work/pi",
        **header,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in (head, *entries)))
    return path


def read(report: ConvertReport) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    header, *entries = [json.loads(line) for line in Path(report.path).read_text().splitlines()]
    return header, entries


def in_profile(home: Path, folder: str) -> Path:
    return home / folder / "agent/sessions/--work-pi--/x_1f9d2a6b9c0d1234.jsonl"


def test_omp_becomes_pi(home: Path) -> None:
    source = write(
        in_profile(home, ".omp"),
        entry("model_change", "a0000001", None, model="openai/gpt-4o", role="default"),
        user("a0000002", "a0000001", "hello"),
        entry(
            "compaction",
            "a0000003",
            "a0000002",
            summary="short",
            shortSummary="s",
            firstKeptEntryId="a0000002",
            tokensBefore=5,
            fromExtension=True,
        ),
        entry(
            "branch_summary",
            "a0000004",
            "a0000003",
            fromId="root",
            summary="b",
            fromExtension=False,
        ),
        title="The title",
        titleSource="user",
    )
    before = source.read_bytes()
    report = convert_session(source, "pi", now_ms=1_790_000_000_000)
    header, entries = read(report)
    assert source.read_bytes() == before
    assert re.fullmatch(UUID7, header["id"])
    assert report.session_id == header["id"]
    assert os.path.dirname(report.path) == str(home / ".pi/agent/sessions/--work-pi--")
    assert os.path.basename(report.path) == f"2026-02-16T10-20-30-000Z_{header['id']}.jsonl"
    assert "title" not in header
    assert "titleSource" not in header
    by_id = {each["id"]: each for each in entries}
    assert [each["id"] for each in entries[:4]] == ["a0000001", "a0000002", "a0000003", "a0000004"]
    assert by_id["a0000001"] == entry(
        "model_change", "a0000001", None, provider="openai", modelId="gpt-4o"
    )
    assert by_id["a0000003"]["fromHook"] is True
    assert "fromExtension" not in by_id["a0000003"]
    assert by_id["a0000003"]["shortSummary"] == "s"
    assert by_id["a0000004"]["fromHook"] is False
    assert [each["name"] for each in entries if each["type"] == "session_info"] == ["The title"]
    assert report.kept == {}


def test_pi_becomes_omp(home: Path) -> None:
    source = write(
        in_profile(home, ".pi"),
        entry("model_change", "a0000001", None, provider="openai", modelId="gpt-4o"),
        entry("session_info", "a0000002", "a0000001", name="First"),
        user("a0000003", "a0000002", "hello"),
        entry("session_info", "a0000004", "a0000003", name="Second"),
        entry("branch_summary", "a0000005", "a0000004", fromId="root", summary="b", fromHook=True),
    )
    report = convert_session(source, "xcsh")
    header, entries = read(report)
    assert re.fullmatch(r"[0-9a-f]{16}", header["id"])
    assert header["title"] == "Second"
    assert entries[0] == entry("model_change", "a0000001", None, model="openai/gpt-4o")
    assert entries[4]["fromExtension"] is True
    assert "fromHook" not in entries[4]
    assert [each["parentId"] for each in entries[:5]] == [
        None,
        "a0000001",
        "a0000002",
        "a0000003",
        "a0000004",
    ]
    assert report.kept == {"session_info": 2}


def test_what_pi_has_no_word_for_is_kept_listed_and_opened_again(home: Path) -> None:
    special = [
        entry("mode_change", "a0000001", None, mode="plan", data={"planFile": "/p.md"}),
        entry("ttsr_injection", "a0000002", "a0000001", injectedRules=["r"]),
        entry("model_change", "a0000003", "a0000002", model="x/small", role="smol"),
        entry("session_init", "a0000004", "a0000003", systemPrompt="s", task="t", tools=[]),
        entry("reset_boundary", "a0000005", "a0000004"),
        user("a0000006", "a0000005", "hello"),
    ]
    source = write(in_profile(home, ".omp"), *special)
    there = convert_session(source, "pi")
    _, entries = read(there)
    assert there.kept == {
        "mode_change": 1,
        "ttsr_injection": 1,
        "model_change": 1,
        "session_init": 1,
        "reset_boundary": 1,
    }
    assert {each["type"] for each in entries[:5]} == {"custom"}
    assert entries[0]["data"] == {
        "type": "mode_change",
        "fields": {"mode": "plan", "data": {"planFile": "/p.md"}},
    }
    assert any("kept as custom entries: mode_change (1)" in line for line in there.lines())
    assert any("reset boundary" in line for line in there.lines())
    back = convert_session(there.path, "omp")
    assert read(back)[1][:6] == special
    assert back.reopened == there.kept


def test_xcsh_and_omp_keep_each_others_own_entries(home: Path) -> None:
    source = write(
        in_profile(home, ".xcsh"),
        entry("context_change", "a0000001", None, context="k8s"),
        entry("mcp_tool_selection", "a0000002", "a0000001", tools=["a"]),
        entry("unheard_of", "a0000003", "a0000002", x=1),
    )
    report = convert_session(source, "omp")
    _, entries = read(report)
    assert report.kept == {"context_change": 1}
    assert [each["type"] for each in entries[1:3]] == ["mcp_tool_selection", "unheard_of"]


def test_provenance_is_recorded_and_the_session_stands_where_it_stood(home: Path) -> None:
    source = write(
        in_profile(home, ".omp"),
        user("a0000001", None, "one"),
        user("a0000002", "a0000001", "old branch"),
        user("a0000003", "a0000001", "current"),
    )
    report = convert_session(source, "pi", now_ms=1_790_000_000_000)
    header, entries = read(report)
    origin = header["convertedFrom"]
    assert origin == {
        "profile": "omp",
        "sessionId": "1f9d2a6b9c0d1234",
        "path": str(source),
        "hash": "sha256:" + hashlib.sha256(source.read_bytes()).hexdigest(),
        "when": "2026-09-21T14:13:20.000Z",
    }
    assert entries[-1]["data"] == origin
    with SessionManager.open(report.path) as session:
        messages = session.build_session_context().messages
    assert [text_of(message["content"]) for message in messages] == ["one", "current"]


def test_labels_still_name_their_entries(home: Path) -> None:
    source = write(
        in_profile(home, ".omp"),
        user("a0000001", None, "one"),
        entry("label", "a0000002", "a0000001", targetId="a0000001", label="start"),
    )
    with SessionManager.open(convert_session(source, "pi").path) as session:
        assert session.get_label("a0000001") == "start"


def test_images_go_inline_for_pi_and_out_again_for_omp(home: Path) -> None:
    raw = base64.b64decode(IMAGE)
    digest = hashlib.sha256(raw).hexdigest()
    blob = home / ".omp/agent/blobs" / digest
    blob.parent.mkdir(parents=True)
    blob.write_bytes(raw)
    image = {"type": "image", "data": f"blob:sha256:{digest}", "mimeType": "image/png"}
    long_text = "x" * 600_000
    cut = "x" * (500_000 - len(NOTICE)) + NOTICE
    spilled = hashlib.sha256(long_text.encode()).hexdigest()
    (blob.parent / spilled).write_bytes(long_text.encode())
    source = write(
        in_profile(home, ".omp"),
        entry(
            "message",
            "a0000001",
            None,
            message={"role": "user", "content": [image], "timestamp": 1},
        ),
        entry(
            "message",
            "a0000002",
            "a0000001",
            message={"role": "user", "content": cut, "timestamp": 1},
            spilled={"/message/content": f"blob:sha256:{spilled}"},
        ),
    )
    there = convert_session(source, "pi")
    _, entries = read(there)
    assert entries[0]["message"]["content"][0]["data"] == IMAGE
    assert entries[1]["message"]["content"] == long_text
    assert "spilled" not in entries[1]
    assert there.blobs_inlined == 2
    back = convert_session(there.path, "xcsh")
    _, again = read(back)
    assert again[0]["message"]["content"] == [image]
    assert again[1]["spilled"] == {"/message/content": f"blob:sha256:{spilled}"}
    assert (home / ".xcsh/agent/blobs" / digest).read_bytes() == raw
    assert back.blobs_stored == 2


def test_a_missing_blob_is_reported_and_its_reference_stays(home: Path) -> None:
    ref = "blob:sha256:" + "0" * 64
    image = {"type": "image", "data": ref, "mimeType": "image/png"}
    message = {"role": "user", "content": [image], "timestamp": 1}
    source = write(in_profile(home, ".omp"), entry("message", "a0000001", None, message=message))
    report = convert_session(source, "pi")
    assert report.blobs_missing == [ref]
    assert read(report)[1][0]["message"]["content"][0]["data"] == ref


def test_a_cut_text_that_somebody_changed_goes_along_as_it_stands(home: Path) -> None:
    blob = home / ".omp/agent/blobs" / hashlib.sha256(b"x" * 600_000).hexdigest()
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"x" * 600_000)
    fields = {"spilled": {"/message/content": f"blob:sha256:{blob.name}"}}
    source = write(
        in_profile(home, ".omp"), {**user("a0000001", None, "redacted by hand"), **fields}
    )
    report = convert_session(source, "pi")
    assert read(report)[1][0]["message"]["content"] == "redacted by hand"
    assert (report.blobs_inlined, report.blobs_missing) == (0, [])
    assert any("a0000001" in note and "changed" in note for note in report.notes)


def test_an_entry_that_is_said_alike_keeps_its_bytes(home: Path) -> None:
    source = in_profile(home, ".omp")
    write(source)
    odd = (
        '{"type": "message",  "id":"a0000001","parentId":null,"timestamp":"'
        + TIME
        + '","message":{"role":"user","content":"caf\\u00e9 '
        + "y" * 3_000
        + '","timestamp":1.0}}'
    )
    with source.open("a") as file:
        file.write(odd + "\n")
    report = convert_session(source, "pi")
    assert Path(report.path).read_text().splitlines()[1] == odd


def test_a_title_slot_is_read(home: Path) -> None:
    source = write(in_profile(home, ".omp"), user("a0000001", None, "hello"), title="old")
    slot = {"type": "title", "v": 1, "title": "From the slot", "updatedAt": TIME, "pad": ""}
    slot["pad"] = " " * (255 - len(json.dumps(slot)))
    source.write_text(json.dumps(slot) + "\n" + source.read_text())
    _, entries = read(convert_session(source, "pi"))
    assert [each["name"] for each in entries if each["type"] == "session_info"] == ["From the slot"]


def test_an_old_version_is_migrated_on_the_way(home: Path) -> None:
    source = in_profile(home, ".omp")
    source.parent.mkdir(parents=True)
    source.write_text(
        '{"type":"session","id":"old","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/w"}\n'
        '{"type":"message","timestamp":"2025-01-01T00:00:01.000Z","message":{"role":"user","content":"a"}}\n'
        '{"type":"message","timestamp":"2025-01-01T00:00:02.000Z","message":{"role":"user","content":"b"}}\n'
    )
    header, entries = read(convert_session(source, "pi"))
    assert header["version"] == 3
    assert entries[1]["parentId"] == entries[0]["id"]


def test_another_project_and_folder_can_be_named(home: Path, tmp_path: Path) -> None:
    source = write(in_profile(home, ".omp"), user("a0000001", None, "hello"))
    report = convert_session(source, "pi", cwd=tmp_path / "new", session_dir=tmp_path / "flat")
    assert os.path.dirname(report.path) == str(tmp_path / "flat")
    assert read(report)[0]["cwd"] == str(tmp_path / "new")


def test_artifacts_come_along_but_links_do_not(home: Path, tmp_path: Path) -> None:
    source = write(in_profile(home, ".omp"), user("a0000001", None, "hello"))
    folder = source.with_suffix("")
    (folder / "sub").mkdir(parents=True)
    (folder / "1.txt").write_text("one")
    (folder / "sub/2.txt").write_text("two")
    (folder / "loop").symlink_to(folder)
    (tmp_path / "secret").write_text("no")
    (folder / "link").symlink_to(tmp_path / "secret")
    report = convert_session(source, "pi")
    copied = Path(report.path).with_suffix("")
    assert report.artifacts == 2
    assert sorted(p.relative_to(copied).as_posix() for p in copied.rglob("*.txt")) == [
        "1.txt",
        "sub/2.txt",
    ]
    assert not (copied / "link").exists()


def test_header_fields_nobody_knows_are_kept(home: Path) -> None:
    source = write(
        in_profile(home, ".omp"), user("a0000001", None, "x"), parentSession="p", extra=[1]
    )
    header, _ = read(convert_session(source, "pi"))
    assert (header["parentSession"], header["extra"]) == ("p", [1])


@pytest.mark.parametrize("odd", [{"a": 1}, [], 5, True])
def test_a_time_that_is_none_becomes_that_of_the_conversion(home: Path, odd: object) -> None:
    source = write(in_profile(home, ".omp"), user("a0000001", None, "x"), timestamp=odd)
    report = convert_session(source, "pi", now_ms=1_771_237_230_000)
    header, _ = read(report)
    assert header["timestamp"] == "2026-02-16T10:20:30.000Z"
    assert Path(report.path).name.startswith("2026-02-16T10-20-30-000Z_")


def test_what_is_no_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFoundError):
        convert_session(tmp_path / "gone.jsonl", "pi")
    (tmp_path / "x.jsonl").write_text("hello\n")
    with pytest.raises(NotASessionError):
        convert_session(tmp_path / "x.jsonl", "pi")


def test_a_folder_that_no_file_can_be_named_after_is_an_error_of_ours(home: Path) -> None:
    source = write(in_profile(home, ".omp"), user("a0000001", None, "x"), cwd="/a\x00b")
    with pytest.raises(PersistenceError, match="cannot be stored"):
        convert_session(source, "pi")


def test_a_conversion_that_fails_leaves_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(in_profile(home, ".omp"), user("a0000001", None, "hello"))
    folder = source.with_suffix("")
    folder.mkdir()
    (folder / "1.txt").write_text("one")
    storage = MemorySessionStorage()
    storage.ensure_dir(str(folder))
    storage.write_atomic(str(source), source.read_bytes())
    storage.write_atomic(str(folder / "1.txt"), b"one")
    write_atomic = storage.write_atomic

    def full_disk(path: str, chunks: Any) -> None:
        if path.endswith(".jsonl"):
            raise OSError(28, "No space left on device", path)
        write_atomic(path, chunks)

    monkeypatch.setattr(storage, "write_atomic", full_disk)
    with pytest.raises(PersistenceError, match="No space left"):
        convert_session(source, "pi", storage=storage)
    target = str(home / ".pi/agent/sessions/--work-pi--")
    assert storage.list_files(target) == []
    assert storage.list_dirs(target) == []


# -- round trips ---------------------------------------------------------------------------

KINDS = (
    "message",
    "model_change",
    "thinking_level_change",
    "compaction",
    "branch_summary",
    "custom",
    "custom_message",
    "label",
    "ttsr_injection",
    "session_init",
    "mode_change",
    "reset_boundary",
    "service_tier_change",
    "title_change",
    "strange",
)
texts = st.text(max_size=30)
scalars = st.none() | st.booleans() | st.integers(-9, 9) | texts
payloads = st.dictionaries(texts, scalars | st.lists(scalars, max_size=3), max_size=3)


@st.composite
def trees(draw: st.DrawFn) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 12))):
        entry_id = f"{number:08x}"
        parent = draw(st.sampled_from([None, *(each["id"] for each in entries)]))
        kind = draw(st.sampled_from(KINDS))
        said: dict[str, dict[str, Any]] = {
            "message": {"message": {"role": "user", "content": draw(texts), "timestamp": number}},
            "model_change": {"model": f"p/{draw(texts)}"},
            "thinking_level_change": {"thinkingLevel": "high"},
            "compaction": {
                "summary": draw(texts),
                "firstKeptEntryId": entry_id,
                "tokensBefore": 1,
                "fromExtension": draw(st.booleans()),
            },
            "branch_summary": {"fromId": "root", "summary": draw(texts), "fromExtension": True},
            "custom": {"customType": draw(texts), "data": draw(payloads)},
            "custom_message": {"customType": "c", "content": draw(texts), "display": True},
            "label": {"targetId": parent or entry_id, "label": draw(texts)},
            "ttsr_injection": {"injectedRules": [draw(texts)]},
            "mode_change": {"mode": draw(texts), "data": draw(payloads)},
        }
        fields = said.get(kind, {"value": draw(payloads)})
        if kind == "model_change" and draw(st.booleans()):
            fields["role"] = "smol"
        entries.append(entry(kind, entry_id, parent, **fields))
    return entries


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(trees(), st.none() | st.text(min_size=1, max_size=20).filter(str.strip))
def test_to_pi_and_back_every_entry_is_what_it_was(
    entries: list[dict[str, Any]], title: str | None
) -> None:
    storage = MemorySessionStorage()
    head: dict[str, Any] = {
        "type": "session",
        "version": 3,
        "id": "1f9d2a6b9c0d1234",
        "timestamp": TIME,
        "cwd": "/w",
    }
    if title is not None:
        head["title"] = title
    storage.ensure_dir("/src/sessions/p")
    source = "/src/sessions/p/x.jsonl"
    data = "".join(json.dumps(line) + "\n" for line in (head, *entries)).encode()
    storage.write_atomic(source, data)
    there = convert_session(source, "pi", storage=storage, session_dir="/pi", source_profile="omp")
    back = convert_session(
        there.path, "omp", storage=storage, session_dir="/omp", source_profile="pi"
    )
    assert storage.read(source) == data
    header, *lines = [json.loads(line) for line in storage.read(back.path).splitlines()]
    assert lines[: len(entries)] == entries
    assert header.get("title") == title
    middle = [json.loads(line) for line in storage.read(there.path).splitlines()][1:]
    assert [(e["id"], e["parentId"]) for e in middle[: len(entries)]] == [
        (e["id"], e["parentId"]) for e in entries
    ]


# -- what newer pi and omp write ------------------------------------------------------------------


def newer_pi() -> list[dict[str, Any]]:
    system = {"role": "system", "content": "You are pi", "sections": {"a": "1"}, "timestamp": 1}
    used = {"input": 5, "cost": {"total": 0.5}}
    saved = {"summary": "s", "firstKeptEntryId": "a0000005", "tokensBefore": 1, "usage": used}
    edit = {"targetId": "a0000002", "replacement": None}
    return [
        entry("message", "a0000001", None, message=system),
        user("a0000002", "a0000001", "hello"),
        entry("context_edit", "a0000003", "a0000002", **edit),
        {
            **entry("usage", "a0000004", "a0000003", provider="p", model="m", usage=used),
            "kind": "k",
        },
        entry("compaction", "a0000005", "a0000004", **saved, systemMessage=system),
    ]


@pytest.mark.parametrize("agent", ["omp", "xcsh"])
def test_what_only_pi_knows_is_kept_for_others_and_comes_back(home: Path, agent: str) -> None:
    written = newer_pi()
    there = convert_session(write(in_profile(home, ".pi"), *written), agent)
    _, entries = read(there)
    assert [each["type"] for each in entries[:5]] == [
        "custom",
        "message",
        "custom",
        "custom",
        "compaction",
    ]
    assert there.kept == {"message": 1, "context_edit": 1, "usage": 1}
    assert f"{agent} will show the model what 1 context edit removed or replaced" in there.notes
    assert entries[4] == written[4]
    _, back = read(convert_session(there.path, "pi", source_profile=agent))
    assert back[:5] == written


def test_our_own_profile_knows_what_pi_writes(home: Path) -> None:
    written = newer_pi()
    there = convert_session(write(in_profile(home, ".pi"), *written), "sessiontree")
    assert there.kept == {}
    assert read(there)[1][:5] == written


def test_an_archived_history_goes_into_the_summary_for_pi_and_comes_back(home: Path) -> None:
    raw = bytes(range(256)) * 8
    digest = hashlib.sha256(raw).hexdigest()
    blobs = home / ".omp/agent/blobs"
    blobs.mkdir(parents=True)
    (blobs / digest).write_bytes(raw)
    frame = {"data": f"blob:sha256:{digest}", "mimeType": "image/png", "cols": 1, "rows": 1}
    archive = {
        "frames": [{**frame, "chars": 6}],
        "textHead": "long ago",
        "text": "long ago\u2588middle",
    }
    compaction = entry(
        "compaction",
        "a0000002",
        "a0000001",
        summary="HISTORY",
        firstKeptEntryId="",
        providerReplayThroughEntryId="a0000001",
        tokensBefore=9,
        preserveData={"snapcompact": archive},
    )
    source = write(in_profile(home, ".omp"), user("a0000001", None, "one"), compaction)
    there = convert_session(source, "pi")
    made = read(there)[1][1]
    assert made["summary"] == "HISTORY\n\nlong ago\nmiddle"
    assert made["preserveData"]["snapcompact"]["frames"][0]["data"] == IMAGE
    # nothing of the path is left after what the provider has, so nothing is kept
    assert made["firstKeptEntryId"] == "a0000002"
    back = read(convert_session(there.path, "omp", source_profile="pi"))[1][1]
    assert back == {**compaction, "firstKeptEntryId": "a0000002"}


def test_images_in_details_are_inlined_for_pi(home: Path) -> None:
    raw = bytes(range(256)) * 8
    digest = hashlib.sha256(raw).hexdigest()
    blobs = home / ".omp/agent/blobs"
    blobs.mkdir(parents=True)
    (blobs / digest).write_bytes(raw)
    image = {"data": f"blob:sha256:{digest}", "mimeType": "image/png"}
    result = {
        "role": "toolResult",
        "toolCallId": "c",
        "toolName": "python",
        "content": [{"type": "text", "text": "plotted"}],
        "details": {"images": [image], "note": [f"blob:sha256:{digest}"]},
        "isError": False,
        "timestamp": 1,
    }
    source = write(in_profile(home, ".omp"), entry("message", "a0000001", None, message=result))
    with SessionManager.open(source, profile="omp") as manager:
        found = manager.get_entries()[0].data["message"]["details"]
    there = convert_session(source, "pi")
    assert there.blobs_missing == []
    for details in (found, read(there)[1][0]["message"]["details"]):
        assert details["images"][0]["data"] == IMAGE
        assert details["note"] == [f"blob:sha256:{digest}"]
