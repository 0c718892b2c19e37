"""Entry points of installed packages, found without loading anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree.plugins import find_entry_points


def test_the_entry_points_of_a_group_are_found_where_python_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "guest-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sessiontree.guests]\none = no_such_module\n")
    assert find_entry_points("sessiontree.guests") == []
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = find_entry_points("sessiontree.guests")
    assert (found.name, found.value) == ("one", "no_such_module")
