"""Long texts that another program changed in the file: the line counts, and is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.samples import assistant, chain, header, read, said, user, write

from sessiontree import FileSessionStorage, SessionManager, build_session_context
from sessiontree.testing import FaultyStorage

LONG = "y" * 600_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A session whose third message is long, and was changed by a program that knows no blobs."""
    path = write(tmp_path / "x.jsonl", header(), *chain(user("1"), assistant("2")))
    with SessionManager.open(path) as session:
        session.append_message(user(LONG))
        session.append_message(user(LONG + "!"))
    change_text(path, "[removed]")
    return path


def change_text(path: Path, text: str) -> None:
    """As an editor does it: the other lines stay, and so does the reference."""
    lines = path.read_text().splitlines(keepends=True)
    entry: dict[str, Any] = json.loads(lines[3])
    entry["message"]["content"] = text
    lines[3] = json.dumps(entry) + "\n"
    path.write_text("".join(lines))


def test_a_cut_text_that_was_changed_is_what_counts_and_is_told_once(file: Path) -> None:
    session = SessionManager.open(file)
    assert session.warnings == []
    for _ in range(3):
        assert said(session) == ["1", "2", "[removed]", LONG + "!"]
        assert build_session_context(session.get_entries()).messages[2]["content"] == "[removed]"
    (warning,) = session.warnings
    assert session.get_entries()[2].id in str(warning)
    assert "/message/content was changed" in str(warning)


def test_a_changed_text_and_its_reference_survive_every_rewrite(file: Path) -> None:
    before = file.read_bytes()
    with SessionManager.open(file) as session:
        said(session)
        session.rewrite_entries()
        assert file.read_bytes() == before
        session.get_entries()[0].data["message"]["content"] = "one"
        session.rewrite_entries()
        assert len(session.warnings) == 1
    assert file.read_bytes() == before.replace(b'"content":"1"', b'"content":"one"')
    with SessionManager.open(file) as session:
        entry = session.get_entries()[2]
        entry.data["extra"] = True
        session.rewrite_entries()
    line = read(file)[3]
    assert line["message"]["content"] == "[removed]"
    assert (line["extra"], list(line["spilled"])) == (True, ["/message/content"])


def test_a_changed_text_can_become_long_again(file: Path) -> None:
    with SessionManager.open(file) as session:
        session.get_entries()[2].data["message"]["content"] = LONG * 2
        session.rewrite_entries()
    again = SessionManager.open(file)
    assert said(again)[2] == LONG * 2
    assert again.warnings == []


def test_a_text_changed_while_the_session_is_open_is_seen(file: Path) -> None:
    session = SessionManager.open(file)
    change_text(file, "[first]")
    session.refresh()
    assert said(session)[2] == "[first]"
    change_text(file, "[once more]")
    session.append_message(user("on"))
    assert said(session)[2] == "[once more]"
    assert said(SessionManager.open(file))[2:] == ["[once more]", LONG + "!", "on"]


def test_opening_reads_no_blob_and_each_is_read_when_it_is_asked_for(file: Path) -> None:
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(file, storage=storage)
    session.get_tree()
    session.append_custom_entry("note")
    session.rewrite_entries()
    assert not [path for name, path in storage.trace if name == "read" and "/blobs/" in path]
    session.get_entries()[3].data  # noqa: B018 - asking is what reads
    assert len([path for name, path in storage.trace if name == "read" and "/blobs/" in path]) == 1
