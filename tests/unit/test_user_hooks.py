"""The user's hooks: which run, which must not, and what a failure does."""

from __future__ import annotations

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sessiontree import user_hooks
from sessiontree.config import Config, load_config
from sessiontree.runtime import events
from sessiontree.runtime.hooks import Cancel
from sessiontree.user_hooks import HooksError, UserHooks, find_hooks, load_hooks

SWITCH = events.SessionBeforeSwitch("new")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "config").mkdir()
    return Config(str(tmp_path / "config" / "config.toml"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".sessiontree").mkdir(parents=True)
    return tmp_path / "project"


def write_own(config: Config, code: str) -> Path:
    path = Path(config.path).with_name("hooks.py")
    path.write_text(code)
    return path


def write_project(project: Path, code: str) -> Path:
    path = project / ".sessiontree" / "hooks.py"
    path.write_text(code)
    return path


def refusing(reason: str) -> str:
    return (
        "from sessiontree.runtime.hooks import Cancel\n"
        f"def session_before_switch(event): return Cancel({reason!r})\n"
    )


def ask(made: UserHooks) -> object:
    return asyncio.run(made.hooks.ask(SWITCH))


def states(config: Config, project: Path) -> list[tuple[str, str]]:
    return [(one.origin, one.state) for one in find_hooks(config, str(project))]


def test_a_function_with_the_name_of_an_event_handles_it(config: Config, project: Path) -> None:
    write_own(config, refusing("no"))
    made = load_hooks(config, str(project))
    assert (ask(made), made.notices) == (Cancel("no"), [])


def test_a_project_s_hooks_run_only_while_they_are_what_was_trusted(
    config: Config, project: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    code = f"open({str(mark)!r}, 'a').close()\n" + refusing("project")
    path = write_project(project, code)
    made = load_hooks(config, str(project))
    assert (ask(made), states(config, project)) == (None, [("project", "not trusted")])
    assert made.notices == [f"{path} does not run until you trust it: sessiontree hooks trust"]
    assert not mark.exists()

    user_hooks.trust(config, str(project), code.encode())
    assert ask(load_hooks(config, str(project))) == Cancel("project")
    mark.unlink()

    path.write_text(code + "\n")  # whoever changed it
    assert ask(load_hooks(config, str(project))) is None
    assert states(config, project) == [("project", "changed")]
    assert not mark.exists()

    path.write_text(code)
    assert user_hooks.untrust(config, str(project)) is True
    assert user_hooks.untrust(config, str(project)) is False
    assert states(config, project) == [("project", "not trusted")]


def test_trust_is_for_one_folder(config: Config, project: Path, tmp_path: Path) -> None:
    code = refusing("project")
    write_project(project, code)
    user_hooks.trust(config, str(project), code.encode())
    other = tmp_path / "other"
    (other / ".sessiontree").mkdir(parents=True)
    write_project(other, code)
    assert states(config, other) == [("project", "not trusted")]
    (tmp_path / "link").symlink_to(project)
    assert states(config, tmp_path / "link") == [("project", "runs")]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"x": 5}', "\xff"])
def test_a_list_of_trust_that_is_spoiled_trusts_nothing_and_is_not_replaced(
    config: Config, project: Path, text: str
) -> None:
    code = refusing("project")
    write_project(project, code)
    trusted = Path(config.path).with_name("trusted_hooks.json")
    trusted.write_bytes(text.encode("latin-1"))
    assert states(config, project) == [("project", "not trusted")]
    if text != '{"x": 5}':
        with pytest.raises(HooksError, match=r"trusted_hooks\.json"):
            user_hooks.trust(config, str(project), code.encode())
        assert trusted.read_bytes() == text.encode("latin-1")


def test_the_user_s_hooks_are_asked_before_the_project_s(config: Config, project: Path) -> None:
    write_own(config, refusing("own"))
    write_project(project, refusing("project"))
    user_hooks.trust(config, str(project), refusing("project").encode())
    assert ask(load_hooks(config, str(project))) == Cancel("own")


def test_hooks_that_others_could_have_written_do_not_run(config: Config, project: Path) -> None:
    path = write_own(config, refusing("own"))
    path.chmod(0o666)
    made = load_hooks(config, str(project))
    assert ask(made) is None
    assert made.notices == [
        f"{path} does not run: every user of this machine may write it; chmod o-w {path}"
    ]


def test_a_pipe_in_the_place_of_hooks_is_refused_at_once(config: Config, project: Path) -> None:
    os.mkfifo(Path(config.path).with_name("hooks.py"))
    assert states(config, project) == [("user", "refused")]


def test_hooks_can_be_turned_off(config: Config, project: Path) -> None:
    write_own(config, refusing("own"))
    off = Config(config.path, {"hooks": False})
    assert ask(load_hooks(off, str(project))) is None
    assert states(off, project) == [("user", "off")]


def test_settings_without_a_file_have_no_hooks_of_the_working_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "hooks.py").write_text(refusing("planted"))
    assert find_hooks(Config(""), str(project)) == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def f(:\n", "line 1: SyntaxError: "),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("\0", "SyntaxError"),
    ],
)
def test_a_file_that_cannot_be_loaded_is_named_and_stops_nothing(
    config: Config, project: Path, code: str, words: str
) -> None:
    path = write_own(config, code)
    (notice,) = load_hooks(config, str(project)).notices
    assert notice.startswith(f"{path}: not loaded: ")
    assert words in notice


def test_a_misspelled_event_is_named_and_the_others_count(config: Config, project: Path) -> None:
    path = write_own(config, refusing("own") + "def session_befor_tree(event): pass\n")
    made = load_hooks(config, str(project))
    assert ask(made) == Cancel("own")
    assert made.notices[0].startswith(f'{path}: No event "session_befor_tree"; there are ')


def test_a_handler_that_fails_is_noted_once_and_counts_as_no_answer(
    config: Config, project: Path
) -> None:
    path = write_own(config, "async def session_before_switch(event): raise ValueError('boom')\n")
    made = load_hooks(config, str(project))
    assert ask(made) is None
    assert made.take_failures() == [f"{path}: session_before_switch failed: ValueError: boom"]
    assert made.take_failures() == []


def test_a_package_brings_hooks_by_entry_point(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "site" / "guest-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[sessiontree.hooks]\nguest = guest_hooks\n")
    (tmp_path / "site" / "guest_hooks.py").write_text(refusing("guest"))
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("SESSIONTREE_CONFIG_DIR", str(tmp_path / "none"))
    assert ask(load_hooks(load_config(), str(project))) == Cancel("guest")


@pytest.mark.parametrize(
    "code",
    [
        b"# coding: utf-7\n# Notes.+AAo-raise SystemExit('hidden')\n",
        b"# coding: unicode_escape\n# Notes.\\u000araise SystemExit('hidden')\n",
    ],
)
def test_a_comment_never_becomes_code_through_an_encoding(
    config: Config, project: Path, code: bytes
) -> None:
    """Whoever trusted the file saw a comment."""
    (project / ".sessiontree" / "hooks.py").write_bytes(code)
    user_hooks.trust(config, str(project), code)
    assert load_hooks(config, str(project)).notices == []


def test_a_file_that_is_not_utf_8_is_named_and_does_not_run(config: Config, project: Path) -> None:
    code = b"# coding: latin-1\nraise SystemExit('\xe9')\n"
    (project / ".sessiontree" / "hooks.py").write_bytes(code)
    user_hooks.trust(config, str(project), code)
    (notice,) = load_hooks(config, str(project)).notices
    assert "not loaded: UnicodeDecodeError" in notice


def test_windows_that_trust_at_the_same_time_keep_what_each_has_said(
    config: Config, tmp_path: Path
) -> None:
    folders = [tmp_path / f"project{number}" for number in range(24)]
    for folder in folders:
        user_hooks.trust(config, str(folder), b"x = 1\n")

    def change(folder: Path) -> None:
        if folder in folders[::2]:
            assert user_hooks.untrust(config, str(folder))
        else:
            user_hooks.trust(config, str(folder), b"x = 2\n")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, folders))
    trusted = json.loads(Path(config.path).with_name("trusted_hooks.json").read_text())
    assert set(trusted) == {user_hooks.project_file(str(folder)) for folder in folders[1::2]}
    assert len(set(trusted.values())) == 1
