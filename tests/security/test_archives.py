"""Archives: what ``tests/unit/export/test_bundle_hostile.py`` does not try."""

from __future__ import annotations

import io
import os
import stat
import zipfile
from pathlib import Path

import pytest
from tests.samples import assistant as answer
from tests.samples import chain, header, write
from tests.samples import user as prompt

from sessiontree import PersistenceError
from sessiontree.export.bundle_archive import BundleReader
from sessiontree.export.bundle_export import export_bundle, import_bundle
from sessiontree.profiles import Profile


@pytest.fixture
def session(profile: Profile) -> Path:
    said = chain(prompt("1"), answer("2"))
    return write(Path(profile.sessions_dir) / "--p--" / "s.jsonl", header(), *said)


def test_an_archive_in_a_bundle_stays_an_archive(session: Path, tmp_path: Path) -> None:
    """Whatever it would unpack to."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("../evil", bytes(50 << 20))
    session.with_suffix("").mkdir()
    (session.with_suffix("") / "inner.zip").write_bytes(packed.getvalue())
    export_bundle(session, tmp_path / "b.zip")
    made = import_bundle(tmp_path / "b.zip", session_dir=tmp_path / "in")
    (artifacts,) = [path for path in (tmp_path / "in").iterdir() if path.is_dir()]
    assert made.artifacts == 1
    assert [(path.name, path.read_bytes()) for path in artifacts.iterdir()] == [
        ("inner.zip", packed.getvalue())
    ]


def test_a_bundle_that_is_swapped_after_it_was_measured_is_not_read(
    session: Path, tmp_path: Path
) -> None:
    """What was checked is what is unpacked, whatever its name stands for by then."""
    path = tmp_path / "b.zip"
    export_bundle(session, path)
    with BundleReader(path) as bundle:
        path.unlink()
        path.write_bytes(b"something else")
        assert b"".join(bundle.read("session.jsonl")) == session.read_bytes()


def test_a_bundle_replaces_no_device(
    session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.zip")

    def refuse(*paths: str) -> None:
        """Should it be tried after all, the machine that tests must not lose its device."""
        pytest.fail(f"tried to replace: {paths}")

    monkeypatch.setattr(os, "replace", refuse)
    for target in ("/dev/null", str(tmp_path / "pipe.zip")):
        with pytest.raises(PersistenceError, match="not a regular file"):
            export_bundle(session, target, overwrite=True)
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe.zip").st_mode)
