"""Archives that anybody may have made: each is refused in one line, and nothing is touched."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessiontree.errors import SessionTreeError
from sessiontree.export.bundle_export import BundleError, BundleLimits, import_bundle

SESSION = (
    b'{"type":"session","version":3,"id":"1f9d2a6b9c0d1234",'
    b'"timestamp":"2026-02-16T10:20:30.000Z","cwd":"/w"}\n'
    b'{"type":"message","id":"a0000001","parentId":null,"timestamp":"2026-02-16T10:20:30.000Z",'
    b'"message":{"role":"user","content":"hello","timestamp":1}}\n'
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SESSIONTREE_AGENT_DIR", "SESSIONTREE_PROFILE", "PI_CODING_AGENT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def item(path: str, data: bytes) -> dict[str, Any]:
    return {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def manifest_of(files: dict[str, bytes], **more: Any) -> bytes:
    listed = [item(path, data) for path, data in files.items()]
    wire = {
        "format": "sessiontree-bundle",
        "version": 1,
        "session": {"dialect": "omp"},
        "files": listed,
        **more,
    }
    return json.dumps(wire).encode()


def make(
    path: Path,
    files: dict[str, bytes] | None = None,
    *,
    manifest: bytes | None = None,
    change: Callable[[zipfile.ZipInfo], object] | None = None,
    unlisted: dict[str, bytes] | None = None,
) -> Path:
    """A bundle with these files; ``change`` may spoil each member's record."""
    content = {"session.jsonl": SESSION, **(files or {})}
    body = manifest if manifest is not None else manifest_of(content)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in ({"manifest.json": body} | content | (unlisted or {})).items():
            info = zipfile.ZipInfo(name)
            info.filename = name
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | 0o600) << 16
            if change is not None:
                change(info)
            archive.writestr(info, data)
    return path


def refuse(path: Path, reason: str, limits: BundleLimits | None = None) -> None:
    root = path.parent
    before = {each for each in root.rglob("*") if each.is_file()}
    with pytest.raises(BundleError) as caught:
        import_bundle(path, limits=limits)
    text = str(caught.value)
    assert reason in text
    assert "\n" not in text
    assert text.isprintable()
    assert {each for each in root.rglob("*") if each.is_file()} == before
    assert not list(root.rglob(".import-*"))


def test_a_sound_archive_made_by_hand_is_taken(tmp_path: Path) -> None:
    path = make(tmp_path / "b.zip", {"artifacts/x.txt": b"x"})
    report = import_bundle(path)
    assert Path(report.session_path).read_bytes().endswith(SESSION.split(b"\n", 1)[1])


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "artifacts/../../../../evil",
        "artifacts/..",
        "artifacts//x",
        "artifacts/./x",
        "artifacts/",
        "..\\evil",
        "artifacts/a\\..\\b",
        "C:/evil",
        "artifacts/C:evil",
        "artifacts/x\x00.txt",
        "artifacts/\x1b[31m",
        "artifacts/\u202etxt.exe",
        "artifacts/new\nline",
        "artifacts/NUL",
        "artifacts/con.txt",
        "artifacts/trailing.",
        "artifacts/" + "a" * 300,
        "artifacts/" + "a/" * 40 + "b",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    refuse(make(tmp_path / "b.zip", {name: b"x"}), "is not a safe name")


@pytest.mark.parametrize("name", ["evil.sh", "blobs/short", "sessions/x.jsonl", "Manifest.json2"])
def test_what_does_not_belong_in_a_bundle_is_refused(tmp_path: Path, name: str) -> None:
    refuse(make(tmp_path / "b.zip", {name: b"x"}), "does not belong in a bundle")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_links_and_devices_are_refused(tmp_path: Path, kind: int) -> None:
    def change(info: zipfile.ZipInfo) -> None:
        if info.filename.startswith("artifacts"):
            info.external_attr = (kind | 0o777) << 16

    path = make(tmp_path / "b.zip", {"artifacts/x": b"/etc/passwd"}, change=change)
    refuse(path, "is not a plain file")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("artifacts/x", "artifacts/x"),
        ("artifacts/x", "artifacts/X"),
        ("artifacts/caf\u00e9", "artifacts/cafe\u0301"),
    ],
)
def test_two_files_of_one_name_are_refused(tmp_path: Path, first: str, second: str) -> None:
    path = make(tmp_path / "b.zip", {first: b"x"})
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
        warnings.simplefilter("ignore")  # Python notices the repeated name while writing it
        archive.writestr(second, b"y")
    refuse(path, "is in the archive twice")


def test_a_file_cannot_be_a_folder_too(tmp_path: Path) -> None:
    path = make(tmp_path / "b.zip", {"artifacts/x": b"x", "artifacts/x/y": b"y"})
    refuse(path, "lies in what is a file")


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "b.zip")
    data = bytearray(path.read_bytes())
    at = data.rfind(b"PK\x01\x02")
    data[at + 8] |= 1
    path.write_bytes(bytes(data))
    refuse(path, "is encrypted")


def test_an_unknown_packing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("manifest.json", manifest_of({"session.jsonl": SESSION}))
        archive.writestr("session.jsonl", SESSION)
    refuse(path, "is packed in an unknown way")


def test_a_bomb_is_refused_by_what_it_declares(tmp_path: Path) -> None:
    zeros = bytes(40 << 20)
    path = make(tmp_path / "b.zip", {"artifacts/zeros": zeros})
    assert path.stat().st_size < 100_000
    refuse(path, "packed too tightly")
    refuse(path, "unpacks to more than", BundleLimits(total_bytes=1 << 20))
    refuse(path, "unpacks to more than", BundleLimits(file_bytes=1 << 20))


def test_a_bomb_is_refused_by_what_it_unpacks_to(tmp_path: Path) -> None:
    """The directory lies about the size; the manifest agrees with the lie."""
    zeros = bytes(1 << 20)
    path = make(tmp_path / "b.zip", {"artifacts/zeros": zeros})
    small = {
        "path": "artifacts/zeros",
        "size": 10,
        "sha256": hashlib.sha256(zeros[:10]).hexdigest(),
    }
    body = manifest_of({"session.jsonl": SESSION})
    wire = json.loads(body)
    wire["files"].append(small)
    path = make(tmp_path / "b.zip", {"artifacts/zeros": zeros}, manifest=json.dumps(wire).encode())
    data = bytearray(path.read_bytes())
    at = data.rfind(b"PK\x01\x02")
    data[at + 24 : at + 28] = struct.pack("<L", 10)
    path.write_bytes(bytes(data))
    refuse(path, "artifacts/zeros")


def test_too_many_files_are_refused(tmp_path: Path) -> None:
    many = {f"artifacts/{number}": b"" for number in range(30)}
    refuse(make(tmp_path / "b.zip", many), "more than 20 files", BundleLimits(files=20))


def test_a_huge_directory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = make(tmp_path / "b.zip", {f"artifacts/{n}": b"" for n in range(30)})
    refuse(path, "too large a directory", BundleLimits(directory_bytes=500))
    data = bytearray(path.read_bytes())
    at = data.rfind(b"PK\x05\x06")
    # the larger form of the end record claims four billion files
    large = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1 << 32, 1 << 32, 99, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, at, 1)
    path.write_bytes(bytes(data[:at]) + large + locator + bytes(data[at:]))
    refuse(path, "more than 20000 files")


def test_content_that_differs_from_the_manifest_is_refused(tmp_path: Path) -> None:
    wire = json.loads(manifest_of({"session.jsonl": SESSION}))
    wire["files"][0]["sha256"] = "0" * 64
    path = make(tmp_path / "b.zip", manifest=json.dumps(wire).encode())
    refuse(path, "does not have the content")
    wire["files"][0]["size"] += 1
    path = make(tmp_path / "b.zip", manifest=json.dumps(wire).encode())
    refuse(path, "does not have the size")


def test_a_blob_must_have_the_name_of_its_content(tmp_path: Path) -> None:
    path = make(tmp_path / "b.zip", {"blobs/" + "0" * 64: b"x"})
    refuse(path, "is not named after its content")


def test_files_and_manifest_must_agree(tmp_path: Path) -> None:
    refuse(make(tmp_path / "b.zip", unlisted={"artifacts/x": b"x"}), "is not in the manifest")
    both = manifest_of({"session.jsonl": SESSION, "artifacts/x": b"x"})
    refuse(make(tmp_path / "b.zip", manifest=both), "is missing")


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (b"", "is not that of a bundle"),
        (b"[]", "is not that of a bundle"),
        (b'{"format":"other"}', "is not that of a bundle"),
        (b'{"format":"sessiontree-bundle","version":2}', "does not know"),
        (b'{"format":"sessiontree-bundle","version":1}', "holds no session"),
        (b'{"format":"sessiontree-bundle","version":1,"files":[1]}', "lists its files wrongly"),
        (
            b'{"format":"sessiontree-bundle","version":1,"files":[{"path":"x","size":-1}]}',
            "lists its files wrongly",
        ),
    ],
)
def test_a_manifest_that_says_nonsense_is_refused(
    tmp_path: Path, manifest: bytes, reason: str
) -> None:
    refuse(make(tmp_path / "b.zip", manifest=manifest), reason)


@pytest.mark.parametrize("session", [b"", b"hello\n", b'{"type":"message"}\n'])
def test_a_session_without_a_header_is_refused(tmp_path: Path, session: bytes) -> None:
    path = make(tmp_path / "b.zip", {"session.jsonl": session})
    refuse(path, "no valid header")


@pytest.mark.parametrize("data", [b"", b"PK", b"not a zip at all" * 100, b"PK\x05\x06" + bytes(18)])
def test_what_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "b.zip"
    path.write_bytes(data)
    with pytest.raises(BundleError):
        import_bundle(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("id", "../../../evil"), ("timestamp", "../../evil"), ("cwd", "/../../../../evil")],
)
def test_no_header_field_leads_out_of_the_folder(
    home: Path, tmp_path: Path, key: str, value: str
) -> None:
    head, rest = SESSION.split(b"\n", 1)
    header = {**json.loads(head), key: value}
    session = json.dumps(header).encode() + b"\n" + rest
    report = import_bundle(make(tmp_path / "b.zip", {"session.jsonl": session}))
    sessions = home / ".sessiontree/agent/sessions"
    path = Path(report.session_path)
    assert path.resolve().parent.parent == sessions.resolve()
    assert path.is_file()


@pytest.mark.parametrize("cwd", ["/a\x00b", "/a\ud800b"])
def test_a_folder_that_no_file_can_be_named_after_is_refused(tmp_path: Path, cwd: str) -> None:
    head, rest = SESSION.split(b"\n", 1)
    session = json.dumps({**json.loads(head), "cwd": cwd}).encode() + b"\n" + rest
    refuse(make(tmp_path / "b.zip", {"session.jsonl": session}), "cannot be stored")


def sound_archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        files = {"session.jsonl": SESSION, "artifacts/a": b"aaaa"}
        archive.writestr("manifest.json", manifest_of(files))
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


SOUND = sound_archive()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), min_size=1, max_size=6
    ),
    st.integers(0, 40),
)
def test_a_damaged_archive_is_refused_or_means_the_same(
    tmp_path: Path, home: Path, changes: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(SOUND)
    for at, value in changes:
        data[at] = value
    path = tmp_path / "b.zip"
    path.write_bytes(bytes(data[: len(data) - cut]))
    refusal: SessionTreeError | None = None
    try:
        report = import_bundle(path)
    except SessionTreeError as error:
        refusal = error
    if refusal is not None:
        assert "\n" not in str(refusal)
    else:
        assert Path(report.session_path).read_bytes().endswith(SESSION.split(b"\n", 1)[1])
    assert not list(home.rglob(".import-*"))
