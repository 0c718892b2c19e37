"""Blob references, ids and terminals' names: none becomes the name of a file elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.samples import assistant as answer
from tests.samples import chain, header, message, write
from tests.samples import user as prompt

from sessiontree import SessionManager
from sessiontree.export.bundle_export import export_bundle, import_bundle
from sessiontree.export.convert import convert_session
from sessiontree.profiles import Profile
from sessiontree.stores.files.trash import move_to_trash


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


@pytest.mark.parametrize(
    "hostile", ["../../../outside/x", "{}/x", "a/b", "..", "a\\..\\b", "\0", "a\nb", ""]
)
def test_an_id_or_time_in_a_header_never_names_another_folder(
    profile: Profile, tmp_path: Path, outside: Path, hostile: str
) -> None:
    said = chain(prompt("hello"), answer("hi"))
    text = hostile.format(outside.parent)
    source = write(tmp_path / "in" / "s.jsonl", header(id=text, timestamp=text), *said)
    before = everything(tmp_path)
    bundle, pi = tmp_path / "agent" / "b.zip", Profile("pi", str(tmp_path / "agent"), "pi")
    SessionManager.fork_from(source, tmp_path / "project").close()
    with SessionManager.open(source) as session:
        session.fork()
    convert_session(source, pi)
    export_bundle(source, bundle)
    import_bundle(bundle)
    move_to_trash(source, profile=profile)
    ours = ("agent/", "in/", "cache/")
    new = everything(tmp_path) - before
    assert len([path for path in new if path.endswith(".jsonl")]) >= 5
    assert not [path for path in new if not path.startswith(ours)]


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
