"""Where ``os`` is replaced: every module through which the storage calls the system, at once.

``test_stand_ins`` fails when a call of the storage goes round them.
"""

from __future__ import annotations

import pytest

from sessiontree.storage import descriptors, file, moving, regular, syncing, temp_files

MODULES = (descriptors, file, moving, regular, syncing, temp_files)


def replace_os(monkeypatch: pytest.MonkeyPatch, stand_in: object) -> None:
    """Let one object be ``os`` for the whole storage."""
    for module in MODULES:
        monkeypatch.setattr(module, "os", stand_in)
