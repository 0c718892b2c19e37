"""Blob references, ids and terminals' names: none becomes the name of a file elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.samples import assistant as answer
from tests.samples import chain, header, message, write
from tests.samples import user as prompt

from sessiontree import SessionManager, SessionTreeError
from sessiontree.export.bundle import export_bundle, import_bundle
from sessiontree.export.convert import convert_session
from sessiontree.maintenance.trash import move_to_trash
from sessiontree.profiles import Profile


@pytest.mark.parametrize(
    "ref",
    [
        "blob:sha256:../../../outside/secret.txt",
        "blob:sha256:" + "../" * 21 + "0",
        "blob:sha256:" + "A" * 64,
        "blob:sha256:" + "0" * 64 + "\n",
        "blob:sha256:" + "0" * 63 + "/",
        "blob:sha256:/etc/passwd",
    ],
)
def test_a_blob_reference_never_leaves_its_folder(
    profile: Profile, outside: Path, ref: str
) -> None:
    image = {"type": "image", "data": ref, "mimeType": "image/png"}
    said = prompt([image, {"type": "text", "text": "x"}])
    entry = {**message("a1", None, said), "spilled": {"/message/content/1/text": ref}}
    path = write(Path(profile.sessions_dir) / "--p--" / "x.jsonl", header(), entry)
    (found,) = SessionManager.open(path).build_session_context().messages
    assert found["content"] == said["content"]


@pytest.mark.parametrize("hostile", ["../../../outside/x", "/etc/x", "a/b", "..", "a\\..\\b", "\0"])
def test_an_id_or_time_in_a_header_never_names_another_folder(
    profile: Profile, tmp_path: Path, outside: Path, hostile: str
) -> None:
    said = chain(prompt("hello"), answer("hi"))
    source = write(tmp_path / "in" / "s.jsonl", header(id=hostile, timestamp=hostile), *said)
    before = everything(tmp_path)
    attempts: list[Callable[[], object]] = [
        lambda: SessionManager.fork_from(source, tmp_path / "project").close(),
        lambda: SessionManager.open(source).fork(),
        lambda: convert_session(source, "pi"),
        lambda: export_bundle(source, tmp_path / "agent" / "b.zip"),
        lambda: import_bundle(tmp_path / "agent" / "b.zip"),
        lambda: move_to_trash(source, profile=profile),
    ]
    for attempt in attempts:
        try:
            attempt()
        except SessionTreeError:
            pass
    ours = ("agent/", "in/", "cache/")
    new = {path for path in everything(tmp_path) - before if not path.startswith(ours)}
    assert not new


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_a_terminals_name_never_names_another_folder(
    profile: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMUX_PANE", "../../../outside")
    session = SessionManager.create(tmp_path / "p")
    session.append_message(answer("x"))
    session.close()
    assert not (tmp_path / "outside").exists()
    assert {path.parent.name for path in tmp_path.rglob("*outside*")} <= {"terminal-sessions"}
