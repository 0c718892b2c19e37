"""Where disposable files lie, on each system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessiontree.storage import sqlite


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home, and no variable that names a cache folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (sqlite.CACHE_VARIABLE, "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("platform", "folder"),
    [
        ("linux", ".cache/sessiontree"),
        ("freebsd14", ".cache/sessiontree"),
        ("darwin", "Library/Caches/sessiontree"),
        ("win32", "AppData/Local/sessiontree"),
    ],
)
def test_each_system_has_its_cache_folder(
    platform: str, folder: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    assert sqlite.cache_dir() == str(home / folder)


@pytest.mark.parametrize(
    ("platform", "variable"), [("linux", "XDG_CACHE_HOME"), ("win32", "LOCALAPPDATA")]
)
def test_the_system_s_own_variable_moves_it(
    platform: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv(variable, "/elsewhere")
    assert sqlite.cache_dir() == "/elsewhere/sessiontree"


def test_a_relative_xdg_folder_counts_as_none(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert sqlite.cache_dir() == str(home / ".cache/sessiontree")


def test_our_variable_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    monkeypatch.setenv(sqlite.CACHE_VARIABLE, "~/mine")
    assert sqlite.cache_dir() == os.path.join(home, "mine")
