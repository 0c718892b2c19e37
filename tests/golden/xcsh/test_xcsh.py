"""xcsh's files, written by hand after its documents, and what we must make of them.

xcsh is published on no package registry, so it cannot be run here. Fields and their order are those
that the code of its version 19.54 writes; each expectation is worked out from its documents.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from sessiontree import SessionManager, build_session_context, load_entries_from_file

HERE = Path(__file__).parent
BLOB = "a9c8a46924afca4e56d7d0dc843f8d78c0e821bbdaa0e303b2607fa55aa7d799"
USER = {"role": "user", "content": "hello", "timestamp": 1}
ANSWER = {
    "role": "assistant",
    "content": [{"type": "text", "text": "hi"}],
    "provider": "anthropic",
    "model": "claude-sonnet-4-5",
    "stopReason": "stop",
    "timestamp": 2,
}


@pytest.fixture
def agent_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An xcsh home with the golden blobs in it."""
    agent = tmp_path / "agent"
    shutil.copytree(HERE / "blobs", agent / "blobs")
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(agent))
    return agent


@pytest.fixture
def golden(agent_dir: Path) -> Path:
    """Copies of the golden sessions, in the folder where xcsh would have them."""
    folder = agent_dir / "sessions" / "--srv-shop--"
    folder.mkdir(parents=True)
    for file in HERE.glob("*.jsonl"):
        shutil.copy(file, folder)
    return folder


def open_golden(golden: Path, name: str) -> SessionManager:
    return SessionManager.open(golden / f"{name}.jsonl", profile="xcsh")


def lines(file: Path | str | None) -> list[dict[str, Any]]:
    assert file is not None
    return [json.loads(line) for line in Path(file).read_bytes().split(b"\n") if line]


# -- every kind of entry --------------------------------------------------------------------------


def test_every_entry_is_read_with_its_place(golden: Path) -> None:
    with open_golden(golden, "every-entry") as session:
        written = lines(session.session_file)[1:]
        assert [entry.data for entry in session.get_entries()] == written
        assert [entry.parent_id for entry in session.get_entries()] == [
            line["parentId"] for line in written
        ]
        assert session.session_id == "19cad4f0a1b2c3d4"
        assert session.session_name == "Teach the shop to count"
        assert session.header["parentSession"] == "19cad0000000beef"
        assert session.cwd == "/srv/shop"
        assert session.leaf_id == "10000015"
        assert session.get_label("10000005") == "pears"
        assert not session.warnings


def test_the_context_is_what_the_documents_say(golden: Path) -> None:
    with open_golden(golden, "every-entry") as session:
        context = session.build_session_context()
    assert context.thinking_level == "high"
    assert context.models == {
        "default": "anthropic/claude-sonnet-4-5",
        "smol": "openai/gpt-5.2-mini",
    }
    assert context.injected_ttsr_rules == ["no-guessing", "cite-files", "be-brief"]
    assert context.mode == "plan"
    assert context.mode_data == {"planFile": "/srv/shop/plan.md"}
    summary, answer, custom, question, branch, shell = context.messages
    assert summary["role"] == "compactionSummary"
    assert summary["summary"] == "Seven pears are left."
    assert summary["tokensBefore"] == 42000
    assert summary["timestamp"] == 1772442120000
    assert answer["content"] == [{"type": "text", "text": "Seven pears."}]
    assert custom == {
        "role": "custom",
        "customType": "stock-extension",
        "content": "The warehouse reports 7 pears.",
        "display": True,
        "details": {"source": "wms"},
        "attribution": "agent",
        "timestamp": 1772442140000,
    }
    assert question == {"role": "user", "content": "And apples?", "timestamp": 1772442150000}
    assert branch == {
        "role": "branchSummary",
        "summary": "Asked about apples; none were left.",
        "fromId": "10000010",
        "timestamp": 1772442180000,
    }
    assert shell["role"] == "bashExecution"


def test_the_other_branch_ends_with_the_answer_that_was_left(golden: Path) -> None:
    with open_golden(golden, "every-entry") as session:
        session.branch("10000011")
        context = session.build_session_context()
        session.branch("10000015")
    assert context.messages[-1]["content"] == [{"type": "text", "text": "None — order some. 🍎"}]
    assert "smol" not in context.models


@pytest.mark.parametrize("kind", ["context_change", "mcp_tool_selection", "service_tier_change"])
def test_entries_that_say_nothing_to_the_model_stay_in_the_tree_and_out_of_the_context(
    golden: Path, kind: str
) -> None:
    with open_golden(golden, "every-entry") as session:
        (entry,) = (e for e in session.get_entries() if e.type == kind)
        assert len(session.get_children(entry.id)) == 1
        assert entry.id in [e.id for e in session.get_branch()]
        without = [{**e.data} for e in session.get_entries() if e.id != entry.id]
        for data in without:
            if data["parentId"] == entry.id:
                data["parentId"] = entry.parent_id
        plain = build_session_context(without, "10000015")
        assert plain.messages == session.build_session_context().messages


def test_opening_and_closing_changes_no_byte(golden: Path) -> None:
    for name in ("every-entry", "images"):
        with open_golden(golden, name) as session:
            session.build_session_context()
        assert (golden / f"{name}.jsonl").read_bytes() == (HERE / f"{name}.jsonl").read_bytes()


def test_a_rewrite_gives_every_line_back_as_it_was(golden: Path) -> None:
    with open_golden(golden, "every-entry") as session:
        session.rewrite_entries()
    assert (golden / "every-entry.jsonl").read_bytes() == (HERE / "every-entry.jsonl").read_bytes()


def test_carrying_on_appends_and_leaves_the_rest_alone(golden: Path) -> None:
    with open_golden(golden, "every-entry") as session:
        made = session.append_model_change("anthropic/claude-opus-4-5", "slow")
    file = golden / "every-entry.jsonl"
    assert file.read_bytes().startswith((HERE / "every-entry.jsonl").read_bytes())
    last = lines(file)[-1]
    assert last.pop("timestamp")
    assert last == {
        "type": "model_change",
        "id": made,
        "parentId": "10000015",
        "model": "anthropic/claude-opus-4-5",
        "role": "slow",
    }


# -- older versions -------------------------------------------------------------------------------


def test_a_version_1_file_gets_ids_a_chain_and_the_entry_that_was_meant(golden: Path) -> None:
    with open_golden(golden, "version-1") as session:
        roles = [m["role"] for m in session.build_session_context().messages]
    assert roles == ["compactionSummary", "user", "assistant", "custom", "user"]
    header, *entries = lines(golden / "version-1.jsonl")
    assert header["version"] == 3
    assert all(re.fullmatch(r"[0-9a-f]{8}", entry["id"]) for entry in entries)
    assert [e["parentId"] for e in entries] == [None, *(e["id"] for e in entries[:-1])]
    # The index counted the header: 3 is the third message.
    assert entries[4]["firstKeptEntryId"] == entries[2]["id"]
    assert "firstKeptEntryIndex" not in entries[4]
    assert entries[5]["message"]["role"] == "custom"


def test_a_version_2_file_keeps_its_ids(golden: Path) -> None:
    with open_golden(golden, "version-2") as session:
        assert [e.id for e in session.get_entries()] == ["20000001", "20000002", "20000003"]
    header, _, hook, _ = lines(golden / "version-2.jsonl")
    assert header["version"] == 3
    assert hook["message"]["role"] == "custom"


def test_listing_and_looking_migrate_nothing_on_disk(golden: Path) -> None:
    listed = SessionManager.list("/srv/shop", profile="xcsh")
    assert {info.id for info in listed} == {
        "18f0000000000001",
        "18f0000000000002",
        "19cad4f0a1b2c3d4",
        "19cad4f0a1b2c3d5",
    }
    load_entries_from_file(golden / "version-1.jsonl")
    for file in HERE.glob("*.jsonl"):
        assert (golden / file.name).read_bytes() == file.read_bytes()


def test_a_listing_counts_and_quotes_what_the_files_say(golden: Path) -> None:
    infos = {info.id: info for info in SessionManager.list("/srv/shop", profile="xcsh")}
    info = infos["19cad4f0a1b2c3d4"]
    assert info.title == "Teach the shop to count"
    assert info.message_count == 7
    assert info.first_message == "How many pears are left?"
    assert infos["18f0000000000001"].first_message == "one"


# -- images ---------------------------------------------------------------------------------------


def test_images_come_back_from_the_blob_store(golden: Path) -> None:
    data = base64.b64encode((HERE / "blobs" / BLOB).read_bytes()).decode()
    with open_golden(golden, "images") as session:
        question, _, custom, _ = session.build_session_context().messages
    assert question["content"][1] == {"type": "image", "data": data, "mimeType": "image/png"}
    assert custom["content"][0]["data"] == data


def test_a_missing_blob_and_a_hostile_name_stay_as_they_are_and_are_told(golden: Path) -> None:
    with open_golden(golden, "images") as session:
        missing, hostile = session.build_session_context().messages[3]["content"]
        assert missing["data"] == "blob:sha256:" + "0" * 64
        assert hostile["data"] == "blob:sha256:../../etc/passwd"
        assert any("0" * 64 in str(warning) for warning in session.warnings)


# -- what we write for xcsh -----------------------------------------------------------------------


def test_a_new_session_lies_and_looks_as_xcsh_expects(agent_dir: Path) -> None:
    with SessionManager.create("/srv/shop", profile="xcsh") as session:
        session.append_message(USER)
        session.append_message(ANSWER)
        session.set_session_name("Counting")
    file = Path(str(session.session_file))
    assert file.parent == agent_dir / "sessions" / "--srv-shop--"
    header, *entries = lines(file)
    assert re.fullmatch(r"[0-9a-f]{16}", header["id"])
    stamp = header["timestamp"].replace(":", "-").replace(".", "-")
    assert file.name == f"{stamp}_{header['id']}.jsonl"
    assert header["type"] == "session"
    assert header["version"] == 3
    assert header["cwd"] == "/srv/shop"
    assert header["title"] == "Counting"
    assert [entry["type"] for entry in entries] == ["message", "message"]


def test_session_ids_are_in_the_order_of_their_making(agent_dir: Path) -> None:
    made = [SessionManager.create("/srv/shop", profile="xcsh") for _ in range(20)]
    ids = [session.session_id for session in made]
    for session in made:
        session.close()
    assert ids == sorted(ids)
    assert len(set(ids)) == 20


def test_a_flush_reaches_the_disk_with_its_folder(
    agent_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = record_disk(monkeypatch)
    with SessionManager.create("/srv/shop", profile="xcsh") as session:
        session.append_message(USER)
        session.append_message(ANSWER)
        file = str(session.session_file)
        session.flush()
        assert f"sync {file}" in synced
        assert f"sync {os.path.dirname(file)}" in synced
        synced.clear()
        session.append_message(USER)
        session.flush()
        assert f"sync {file}" in synced


def test_a_rewrite_is_on_disk_before_it_takes_the_name(
    golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(golden / "version-2.jsonl")
    done = record_disk(monkeypatch)
    open_golden(golden, "version-2").close()
    (renamed,) = (step for step in done if step.startswith("rename ") and step.endswith(file))
    temporary = renamed.split()[1]
    assert os.path.dirname(temporary) == os.path.dirname(file)
    at = done.index(renamed)
    assert f"sync {temporary}" in done[:at]
    assert f"sync {golden}" in done[at:]


def record_disk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every sync and rename of this process from now on, in order."""
    done: list[str] = []

    def syncing(name: str) -> None:
        true = getattr(os, name)

        def sync(fd: int) -> None:
            done.append(f"sync {os.readlink(f'/proc/self/fd/{fd}')}")
            true(fd)

        monkeypatch.setattr(os, name, sync)

    def renaming(name: str) -> None:
        true = getattr(os, name)

        def rename(source: str, target: str, **more: Any) -> None:
            true(source, target, **more)
            done.append(f"rename {os.fspath(source)} {os.fspath(target)}")

        monkeypatch.setattr(os, name, rename)

    for name in ("fsync", "fdatasync"):
        syncing(name)
    for name in ("rename", "replace"):
        renaming(name)
    return done
