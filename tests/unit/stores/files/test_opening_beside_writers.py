"""A damaged session that another program goes on writing to, while it is recovered."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.samples import assistant, chain, lines, message, user

from sessiontree import FileSessionStorage, SessionManager


def test_what_a_program_says_while_its_file_is_recovered_is_in_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pi opens the file by its name for each line."""
    talk = chain(user("1"), assistant("2"))
    file = tmp_path / "2026-02-16T10-20-30-000Z_0199a3f2c0de1234.jsonl"
    file.write_bytes(lines(*talk))
    said: list[str] = []

    def speak() -> None:
        made = message(f"said{len(said):04}", said[-1] if said else talk[-1]["id"], user("and"))
        with file.open("ab") as out:
            out.write(lines(made))
        said.append(str(made["id"]))

    write_atomic = FileSessionStorage.write_atomic

    def write(self: FileSessionStorage, *given: object, **options: object) -> object:
        speak()
        found = write_atomic(self, *given, **options)  # type: ignore[arg-type]
        speak()
        return found

    monkeypatch.setattr(FileSessionStorage, "write_atomic", write)
    session = SessionManager.open(file)
    monkeypatch.undo()
    session.close()
    assert len(said) == 4  # before and after the copy, and the new file
    with SessionManager.open(file) as again:
        assert [entry.id for entry in again.get_branch(said[-1])][-4:] == said
        assert len(again.get_entries()) == len(talk) + len(said)
