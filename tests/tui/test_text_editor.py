"""Editing a text in the user's own editor."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from sessiontree.config import Config
from sessiontree.tui.text_editor import EditorError, edit_text, editor_command


def script(folder: Path, *lines: str, name: str = "ed") -> Path:
    made = folder / name
    made.write_text("\n".join(("#!/bin/sh", *lines, "")))
    made.chmod(0o755)
    return made


def using(command: str) -> Config:
    return Config("", environ={"VISUAL": command})


def test_what_the_editor_writes_is_the_text(tmp_path: Path) -> None:
    editor = script(tmp_path, 'printf "more\\n" >> "$1"')
    assert edit_text("first\n", using(str(editor))) == "first\nmore\n"


def test_the_line_break_that_editors_add_is_no_part_of_the_text(tmp_path: Path) -> None:
    editor = script(tmp_path, 'printf "all of it\\n" > "$1"')
    assert edit_text("before", using(str(editor))) == "all of it"


def test_arguments_are_split_as_a_shell_does(tmp_path: Path) -> None:
    editor = script(tmp_path, 'echo "$1|$2" > "$3"', name="my editor")
    assert edit_text("", using(f"{shlex.quote(str(editor))} --wait 'a b'")) == "--wait|a b"


def test_the_text_is_private_and_everything_is_removed(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    editor = script(tmp_path, f'stat -c "%a %n" "$1" "$(dirname "$1")" > {seen}', 'touch "$1~"')
    assert edit_text("secret", using(str(editor))) == "secret"
    modes = [line.partition(" ") for line in seen.read_text().splitlines()]
    assert [mode for mode, _, _ in modes] == ["600", "700"]
    assert modes[0][2].endswith(".md")
    assert not any(os.path.lexists(path) for _, _, path in modes)


@pytest.mark.parametrize("lines", [('echo new > "$1"', "exit 1"), ('rm "$1"',)])
def test_an_editor_that_fails_changes_nothing_and_leaves_nothing(
    tmp_path: Path, lines: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "temp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with pytest.raises(EditorError):
        edit_text("old", using(str(script(tmp_path, *lines))))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("command", ["no-such-editor-here", "'unclosed", "  ' '"])
def test_a_command_that_cannot_be_run_is_named(command: str) -> None:
    with pytest.raises(EditorError, match=r"[Ee]ditor"):
        editor_command(using(command))


def test_the_setting_wins_over_the_variables_of_all_programs(tmp_path: Path) -> None:
    mine = script(tmp_path)
    config = Config("", {"editor": str(mine)}, {"VISUAL": "vi"})
    assert editor_command(config) == [str(mine)]
