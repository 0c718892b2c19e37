"""Where a project's sessions lie: as living omp names folders, and when it renames older ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import SessionManager
from sessiontree.discovery.paths import default_session_dir, encode_cwd
from sessiontree.profiles import get_profile
from sessiontree.storage.file import FileSessionStorage

from .living import Peer
from .ours import play
from .talk import assistant, user


@pytest.mark.parametrize("below", ["", "src/pi", "a b/c:d", "..hidden", "x/"])
@pytest.mark.parametrize("root", ["home", "tmp", "elsewhere"])
def test_a_new_project_gets_the_folder_that_omp_gives_it(
    omp: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, below: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(omp.home / "tmp"))
    base = {"home": omp.home, "tmp": omp.home / "tmp", "elsewhere": tmp_path}[root]
    cwd = base / below / f"{root}-project"
    cwd.mkdir(parents=True, exist_ok=True)
    ours = default_session_dir(get_profile("omp"), cwd, FileSessionStorage())
    assert ours == omp.ask("folder", cwd=cwd)


def test_an_open_session_survives_that_omp_renames_its_folder(omp: Peer) -> None:
    project = omp.home / "renamed-project"
    project.mkdir()
    profile = get_profile("omp")
    older = Path(profile.sessions_dir) / encode_cwd(project)
    older.mkdir(parents=True)
    with SessionManager.create(project, profile="omp") as session:
        play(session, [user("one", 1), assistant("two", 2)])
        assert Path(str(session.session_file)).parent == older
        newer = omp.ask("folder", cwd=project)
        assert not older.exists()
        play(session, [user("three", 3)])
        assert session.session_file is not None
        assert Path(session.session_file).parent == Path(newer)
        file = session.session_file
    assert not older.exists()
    seen = omp.ask("read", file=file)
    assert [entry["message"]["role"] for entry in seen["entries"]] == ["user", "assistant", "user"]
