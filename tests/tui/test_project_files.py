"""``@path`` in a prompt: which files are offered, and what is put into the text."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sessiontree.tui.chat import project_files
from sessiontree.tui.chat.project_files import ProjectFiles, find_token, list_files, spell

from .support import Shop, running_chat


def make(folder: Path, *paths: str) -> Path:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
    return folder


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


# -- which files ---------------------------------------------------------------------------------


def test_in_a_repository_they_are_what_git_lists(tmp_path: Path) -> None:
    make(tmp_path, "src/app.py", "build/out.js", ".github/ci.yml", "secret.env")
    (tmp_path / ".gitignore").write_text("build/\n*.env\n")
    git(tmp_path, "init")
    git(tmp_path, "add", "src")
    assert list_files(str(tmp_path)) == [".gitignore", ".github/ci.yml", "src/app.py"]
    assert list_files(str(tmp_path / "src")) == ["app.py"]


def test_a_repository_runs_no_program_of_its_own(tmp_path: Path) -> None:
    make(tmp_path, "a.py")
    git(tmp_path, "init")
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(trap))
    assert "a.py" in list_files(str(tmp_path))
    assert not (tmp_path / "sprung").exists()


def test_elsewhere_a_walk_finds_them_and_leaves_out_what_is_hidden(tmp_path: Path) -> None:
    make(tmp_path, "b/c.py", "a.py", ".cache/x", "node_modules/y.js", ".env")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert list_files(str(tmp_path)) == [".env", "a.py", "b/c.py"]


def test_a_walk_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, *(f"folder{n}/file{n}" for n in range(20)))
    monkeypatch.setattr(project_files, "MOST_FILES", 5)
    assert len(list_files(str(tmp_path))) == 5


def test_a_folder_that_is_gone_has_no_files(tmp_path: Path) -> None:
    assert list_files(str(tmp_path / "gone")) == []


def test_characters_that_cannot_be_seen_are_escapes(tmp_path: Path) -> None:
    make(tmp_path, "user\u202etxt.exe", "a\x1b[31mb", "zero\u200bwidth")
    make(tmp_path / os.fsdecode(b"\xff"), "x")
    assert list_files(str(tmp_path)) == [
        "a\\x1b[31mb",
        "user\\u202etxt.exe",
        "zero\\u200bwidth",
        "\\udcff/x",
    ]


# -- finding -------------------------------------------------------------------------------------

PATHS = ["setup.py", "src/app.py", "src/app/main.py", "src/main_window.py", "tests/test_main.py"]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", PATHS),
        ("MAIN", ["src/app/main.py", "src/main_window.py", "tests/test_main.py"]),
        ("main.py", ["src/app/main.py", "tests/test_main.py"]),
        ("src/", ["src/app.py", "src/app/main.py", "src/main_window.py"]),
        ("smw", ["src/main_window.py"]),
        ("src/app.py", []),
        ("zz", []),
        ("re:(", []),
    ],
)
def test_a_few_letters_find_a_path(typed: str, found: list[str]) -> None:
    assert ProjectFiles(PATHS).find(typed)[: max(1, len(found))] == found


def test_typing_on_and_taking_back_finds_the_same() -> None:
    typed = "main.py"
    files = ProjectFiles(PATHS)
    fresh = [ProjectFiles(PATHS).find(typed[:end]) for end in range(len(typed) + 1)]
    assert [files.find(typed[:end]) for end in range(len(typed) + 1)] == fresh
    assert [files.find(typed[:end]) for end in reversed(range(len(typed) + 1))] == fresh[::-1]


@pytest.mark.parametrize(
    ("before", "token"),
    [
        ("@", (0, "")),
        ("look at @src/a", (8, "src/a")),
        ("(@a", (1, "a")),
        ('see @"my fi', (4, "my fi")),
        ("me@host", None),
        ("@done ", None),
        ("", None),
    ],
)
def test_what_is_being_typed(before: str, token: tuple[int, str] | None) -> None:
    assert find_token(before) == token


def test_a_path_with_blanks_is_quoted() -> None:
    assert spell("a b.txt") == '@"a b.txt" '
    assert spell("a.txt") == "@a.txt "


# -- in the chat ---------------------------------------------------------------------------------


def sent(rig: Any) -> str:
    content = next(m["content"] for m in rig.session.messages if m["role"] == "user")
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


async def test_a_file_is_chosen_and_its_path_is_sent(shop: Shop) -> None:
    make(Path(shop.project), "src/app.py", "src/apple.py", "docs/my notes.md")
    async with running_chat(shop.create(), "Read it.") as rig:
        await rig.type("fix @ap")
        await rig.until(lambda: "❯ src/app.py" in rig.text)
        assert "src/apple.py" in rig.text
        await rig.press("down", "up", "down", "enter")
        assert rig.chat.editor.text == "fix @src/apple.py "
        assert "❯" not in rig.text
        await rig.type("and @notes")
        await rig.press("tab")
        assert rig.chat.editor.text == 'fix @src/apple.py and @"docs/my notes.md" '
        await rig.press("enter")
        await rig.until(lambda: rig.is_idle and len(rig.session.messages) == 2)
        assert sent(rig) == 'fix @src/apple.py and @"docs/my notes.md"'


async def test_esc_closes_the_list_and_enter_sends(shop: Shop) -> None:
    make(Path(shop.project), "src/app.py")
    async with running_chat(shop.create(), "Yes.") as rig:
        await rig.type("fix @ap")
        await rig.until(lambda: "❯ src/app.py" in rig.text)
        await rig.press("escape")
        assert "❯" not in rig.text
        await rig.press("enter")
        await rig.until(lambda: rig.is_idle and len(rig.session.messages) == 2)
        assert sent(rig) == "fix @ap"


async def test_a_whole_path_and_an_unknown_one_are_sent_at_once(shop: Shop) -> None:
    make(Path(shop.project), "src/app.py")
    async with running_chat(shop.create(), "Yes.") as rig:
        await rig.type("@")
        await rig.until(lambda: "❯ src/app.py" in rig.text)
        await rig.type("src/app.py")
        assert "❯" not in rig.text
        await rig.press("enter")
        await rig.until(lambda: rig.is_idle and len(rig.session.messages) == 2)
        assert sent(rig) == "@src/app.py"
