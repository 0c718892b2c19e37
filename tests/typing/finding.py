"""What type checkers say about listing, finding and searching. mypy checks this file."""

from __future__ import annotations

from typing import assert_type

from sessiontree import (
    RecentSessionInfo,
    SessionInfo,
    SessionManager,
    find_most_recent_session,
    get_recent_sessions,
    relink,
    resolve_session,
    search,
)


def find_sessions(folder: str) -> None:
    for info in SessionManager.list(folder):
        assert_type(info, SessionInfo)
        assert_type(info.title, str | None)
        assert_type(info.message_count, int)
    for hit in search("token refresh", include_tools=True, limit=None):
        assert_type(hit.path, str)
    assert_type(resolve_session("a1b2", folder).path, str)
    assert_type(get_recent_sessions(folder), list[RecentSessionInfo])
    assert_type(find_most_recent_session(folder), str | None)
    assert_type(relink("/old", "/new").is_dry_run, bool)
    search(b"bytes")  # type: ignore[arg-type]
