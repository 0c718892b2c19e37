"""Where ``os`` is replaced: every module through which the storage calls the system, at once.

``test_stand_ins`` fails when a call of the storage goes round them.
"""

from __future__ import annotations

from types import ModuleType

import pytest

from sessiontree.history import damage
from sessiontree.history import file as history_file
from sessiontree.storage import (
    atomic,
    descriptors,
    file,
    handles,
    omp_lock,
    regular,
    rights,
    sqlite,
    syncing,
    temp_files,
)

MODULES = (descriptors, file, handles, atomic, omp_lock, regular, rights, syncing, temp_files)
HISTORY_MODULES = (handles, damage, history_file, sqlite, temp_files)
"""Through which the prompt history calls the system; what SQLite does itself is not among it."""
CONNECTING_MODULES = (sqlite,)
"""Which open databases."""


def replace_os(
    monkeypatch: pytest.MonkeyPatch,
    stand_in: object,
    modules: tuple[ModuleType, ...] = MODULES,
) -> None:
    """Let one object be ``os`` for the whole storage, or for these modules."""
    for module in modules:
        monkeypatch.setattr(module, "os", stand_in)


def replace_sqlite(monkeypatch: pytest.MonkeyPatch, stand_in: object) -> None:
    """Let one object be ``sqlite3`` for whatever opens a database of prompts."""
    for module in CONNECTING_MODULES:
        monkeypatch.setattr(module, "sqlite3", stand_in)
