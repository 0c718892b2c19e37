"""The sessions that servers share: listed while others ask."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.unit.discovery.places import put, talk

from sessiontree.profiles import get_profile
from sessiontree.scope import Scope, choose_scope
from sessiontree.serving import sessions
from sessiontree.serving.sessions import ServedSessions


def test_nobody_waits_for_a_listing_that_is_made_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(get_profile().sessions_dir) / "--code-pi--"
    put(folder, *talk("one"), session_id="a")
    served = ServedSessions(choose_scope("/code/pi"))
    assert [row.id for row in served.list()] == ["a"]
    put(folder, *talk("two"), session_id="b")
    monkeypatch.setattr(sessions, "KEEP_S", 0.0)
    go_on, is_listing = threading.Event(), threading.Event()
    list_really = Scope.list

    def list_slowly(self: Scope, *given: object) -> object:
        is_listing.set()
        assert go_on.wait(10)
        return list_really(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Scope, "list", list_slowly)
    assert [row.id for row in served.list()] == ["a"]
    assert is_listing.wait(10)
    assert [row.id for row in served.list()] == ["a"]
    go_on.set()
    assert {row.id for row in served.list(fresh=True)} == {"a", "b"}
    monkeypatch.setattr(sessions, "STALE_S", 0.0)
    put(folder, *talk("three"), session_id="c")
    assert {row.id for row in served.list()} == {"a", "b", "c"}  # an old one is not shown
