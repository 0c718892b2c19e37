"""The user's settings: where they are, what counts, and changing one without touching the rest."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sessiontree.config import (
    CONFIG_VARIABLE,
    SETTINGS,
    ConfigError,
    config_dir,
    in_force,
    load_config,
    save_setting,
)


@pytest.fixture
def path(home: Path) -> Path:
    return home / ".config" / "sessiontree" / "config.toml"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# -- where it is ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "platform", "folder"),
    [
        ({}, "linux", "{home}/.config/sessiontree"),
        ({"XDG_CONFIG_HOME": "/else"}, "linux", "/else/sessiontree"),
        ({"XDG_CONFIG_HOME": "not/absolute"}, "linux", "{home}/.config/sessiontree"),
        ({}, "darwin", "{home}/Library/Application Support/sessiontree"),
        ({"XDG_CONFIG_HOME": "/else"}, "darwin", "/else/sessiontree"),
        ({"SESSIONTREE_CONFIG_DIR": "~/mine"}, "darwin", "{home}/mine"),
    ],
)
def test_the_folder_is_the_platforms(
    home: Path, environ: dict[str, str], platform: str, folder: str
) -> None:
    assert config_dir(environ, platform) == folder.format(home=home)


# -- what counts ---------------------------------------------------------------------------------


def test_without_a_file_everything_has_its_default(path: Path) -> None:
    config = load_config({})
    assert config.path == str(path)
    assert config.warnings == ()
    assert config.text("theme") is None
    assert config.number("attempts") == 4
    assert config.flag("compaction") is True


def test_the_file_counts_over_the_default_and_a_variable_over_the_file(path: Path) -> None:
    write(path, 'theme = "nord"\nattempts = 7\ncompaction = false\n')
    config = load_config({})
    assert config.find("theme") == ("nord", "config.toml")
    assert config.number("attempts") == 7
    assert config.for_runtime().compaction.enabled is False
    config = load_config({"SESSIONTREE_THEME": "light"})
    assert config.find("theme") == ("light", "SESSIONTREE_THEME")


def test_a_variable_of_all_programs_counts_least(path: Path) -> None:
    assert load_config({"EDITOR": "ed"}).find("editor") == ("ed", "EDITOR")
    assert load_config({"EDITOR": "ed", "VISUAL": "vi"}).find("editor") == ("vi", "VISUAL")
    write(path, 'editor = "code --wait"\n')
    assert load_config({"VISUAL": "vi"}).find("editor") == ("code --wait", "config.toml")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('thme = "nord"', 'unknown setting "thme" (did you mean "theme"?)'),
        ("zzz = 1", 'unknown setting "zzz"'),
        ("theme = 3", 'theme must be a text, such as "…"'),
        ('compaction = "yes"', "compaction must be true or false"),
        ("attempts = 0", "attempts must be a whole number from 1 to 20"),
        ("attempts = true", "attempts must be a whole number from 1 to 20"),
        (
            'thinking = "hard"',
            "thinking must be one of off, minimal, low, medium, high, xhigh",
        ),
    ],
)
def test_a_wrong_line_is_told_with_file_and_key_and_the_others_count(
    path: Path, line: str, told: str
) -> None:
    write(path, f'model = "acme/m1"\n{line}\n')
    config = load_config({})
    assert config.warnings == (f"{path}: {told}",)
    assert config.text("model") == "acme/m1"


@pytest.mark.parametrize("text", ["theme = nord", "[", "a" * (2 << 20)])
def test_a_file_that_cannot_be_read_is_one_line_and_no_failure(path: Path, text: str) -> None:
    write(path, text)
    config = load_config({})
    (warning,) = config.warnings
    assert warning.startswith(f"{path}: ")
    assert "\n" not in warning
    assert config.text("theme") is None


def test_a_file_of_another_encoding_is_one_line(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b'theme = "\xff"')
    assert load_config({}).warnings == (f"{path}: it is not UTF-8",)


def test_what_lower_layers_read_from_the_environment_is_in_force_for_a_while(path: Path) -> None:
    write(path, 'keep_dir = "/copies"\nprofile = "pi"\n')
    environ = {"SESSIONTREE_PROFILE": "omp"}
    with in_force(load_config(environ), environ):
        assert environ == {"SESSIONTREE_PROFILE": "omp", "SESSIONTREE_KEEP_DIR": "/copies"}
    assert environ == {"SESSIONTREE_PROFILE": "omp"}


# -- changing it ---------------------------------------------------------------------------------


def test_a_new_file_is_private(path: Path) -> None:
    save_setting(str(path), "theme", "nord")
    assert load_config({}).text("theme") == "nord"
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700


def test_changing_a_setting_leaves_everything_else_as_it_was(path: Path) -> None:
    write(path, "# mine\ntheme = \"dark\"  # for the night\n\nmodel = 'acme/m1'\n")
    save_setting(str(path), "theme", "nord")
    save_setting(str(path), "attempts", 2)
    assert path.read_text() == (
        "# mine\ntheme = \"nord\"  # for the night\n\nmodel = 'acme/m1'\nattempts = 2\n"
    )
    save_setting(str(path), "theme", None)
    assert path.read_text() == "# mine\n\nmodel = 'acme/m1'\nattempts = 2\n"


def test_a_setting_is_added_before_a_table(path: Path) -> None:
    write(path, '[other]\ntheme = "x"\n')
    with pytest.raises(ConfigError, match=r"theme can't be changed here; edit the file"):
        save_setting(str(path), "theme", "nord")
    save_setting(str(path), "model", "acme/m1")
    assert path.read_text() == 'model = "acme/m1"\n[other]\ntheme = "x"\n'


@pytest.mark.parametrize("value", ['C:\\odd "name" # no comment', "ünïcode 日本", "{0}\\1\\g<2>"])
def test_any_text_comes_back_as_it_was(path: Path, value: str) -> None:
    write(path, 'model = "before"\n')
    save_setting(str(path), "model", value)
    assert load_config({}).text("model") == value


@pytest.mark.parametrize("text", ['model = """\nmany\n"""\n', "broken ="])
def test_what_only_its_author_can_change_stays(path: Path, text: str) -> None:
    write(path, text)
    with pytest.raises(ConfigError, match=r"config\.toml"):
        save_setting(str(path), "model", "acme/m1")
    assert path.read_text() == text


def test_a_link_to_a_repository_of_dotfiles_stays_a_link(path: Path, tmp_path: Path) -> None:
    real = write(tmp_path / "dotfiles" / "config.toml", 'theme = "dark"\n')
    path.parent.mkdir(parents=True)
    path.symlink_to(real)
    save_setting(str(path), "theme", "light")
    assert path.is_symlink()
    assert real.read_text() == 'theme = "light"\n'


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.key)
def test_every_setting_can_be_set_typed_and_removed(path: Path, setting: object) -> None:
    from sessiontree.config import Setting

    assert isinstance(setting, Setting)
    typed = {"flag": "no", "number": "3"}.get(setting.kind, "")
    value = setting.parse(typed or (setting.choices() or ("some text",))[0])
    save_setting(str(path), setting.key, value)
    assert load_config({}).find(setting.key) == (value, "config.toml")
    save_setting(str(path), setting.key, None)
    assert load_config({}).find(setting.key) == (None, "default")


def test_windows_that_change_settings_at_the_same_time_lose_none(path: Path) -> None:
    write(path, "# mine\n")

    def change(key: str) -> None:
        for number in range(1, 16):
            save_setting(path.as_posix(), key, number if key == "attempts" else f"{key}{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(change, ["model", "attempts", "editor", "pager"]))
    assert load_config({CONFIG_VARIABLE: str(path.parent)}).in_file == {
        "model": "model15",
        "attempts": 15,
        "editor": "editor15",
        "pager": "pager15",
    }
    assert sorted(os.listdir(path.parent)) == ["config.toml"]
