"""Blobs of sessions that are kept outside the agent's folder, by a program that told nobody."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from sessiontree import SessionManager, get_profile
from sessiontree.stores.files.folders import known_session_dirs


def test_a_folder_whose_sessions_use_the_blobs_is_known(tmp_path: Path) -> None:
    session = SessionManager.create(tmp_path, tmp_path / "kept elsewhere")
    image = {"type": "image", "data": base64.b64encode(os.urandom(2_000)).decode(), "mimeType": "x"}
    session.append_message({"role": "user", "content": [image], "timestamp": 1})
    session.append_message({"role": "user", "content": [image], "timestamp": 2})
    assert known_session_dirs(get_profile()) == [str(tmp_path / "kept elsewhere")]


def test_the_agents_own_folders_need_no_note(tmp_path: Path) -> None:
    session = SessionManager.create(tmp_path)
    image = {"type": "image", "data": base64.b64encode(os.urandom(2_000)).decode(), "mimeType": "x"}
    session.append_message({"role": "user", "content": [image], "timestamp": 1})
    assert known_session_dirs(get_profile()) == []
