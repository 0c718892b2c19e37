"""``config``: show and change the user's settings."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import click

from sessiontree import config as settings
from sessiontree.cli import output, tables
from sessiontree.cli.tables import Column

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from sessiontree.config import Config, Setting, Value


class SettingName(click.ParamType["Setting"]):
    """The name of a setting."""

    name = "setting"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Setting:
        try:
            return settings.find_setting(str(value))
        except settings.ConfigError as error:
            message = str(error)
            self.fail(f"{message[:1].upper()}{message[1:]}.", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        del ctx, param
        return [
            CompletionItem(setting.key, help=setting.about)
            for setting in settings.SETTINGS.values()
            if setting.key.startswith(incomplete)
        ]


class SetName(SettingName):
    """The name of a setting, or an unknown name that the file sets; as a text."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if str(value) in settings.load_config().unknown:
            return str(value)
        return super().convert(value, param, ctx).key


_PASSWORD = re.compile("(?<=[^/:]):[^/@]*@")
"""Stands for the password in a store's URL, since others may see a listing."""

_SETTING = click.argument("setting", metavar="SETTING", type=SettingName())


@click.group(
    "config", invoke_without_command=True, short_help="Show or change your settings (config.toml)."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def config_command(ctx: click.Context, as_json: bool) -> None:
    """Show all settings, their values and where each comes from; or change one.

    An environment variable wins over config.toml, and an option of a command over both.

    \b
    Examples:
      sessiontree config
      sessiontree config set theme nord
      sessiontree config get model
      sessiontree config unset theme
      sessiontree config edit
    """
    if ctx.invoked_subcommand is not None:
        return
    config = _config()
    if as_json:
        output.write_json([_to_wire(config, one) for one in settings.SETTINGS.values()])
        return
    columns = [
        Column("SETTING", "bold"),
        Column("VALUE", is_flexible=True),
        Column("FROM", "dim"),
        Column("MEANING", "dim", is_flexible=True),
    ]
    rows = [
        [one.key, _PASSWORD.sub(":…@", _shown(config, one)), config.find(one.key)[1], one.about]
        for one in settings.SETTINGS.values()
    ]
    tables.write_table(columns, rows)
    missing = "" if os.path.exists(config.path) else " (not there yet)"
    output.write_note((f"{tables.short_path(config.path)}{missing}", "dim"))


@config_command.command("get")
@_SETTING
def get_command(setting: Setting) -> int:
    """Print a setting's value. Exits with 1 if it is not set and has no default."""
    text = _shown(_config(), setting)
    if not text:
        return output.FAILURE
    output.write_line(text)
    return output.OK


@config_command.command("set")
@_SETTING
@click.argument("value")
def set_command(setting: Setting, value: str) -> None:
    """Set a setting in config.toml. The rest of the file doesn't change."""
    config = _config()
    try:
        parsed = setting.parse(value)
        if setting.key == "theme":
            _check_theme(value)
        settings.save_setting(config.path, setting.key, parsed)
    except settings.ConfigError as error:
        message = str(error)
        output.fail(message if os.sep in message else f"{message}, not {value}", output.USAGE)
    output.write_line(f"{setting.key} = {value}  ", (tables.short_path(config.path), "dim"))
    _tell_winner(config, setting, parsed)


@config_command.command("unset")
@click.argument("setting", metavar="SETTING", type=SetName())
def unset_command(setting: str) -> None:
    """Remove a setting from config.toml, so that its default applies."""
    config = _config()
    settings.save_setting(config.path, setting, None)
    was_set = setting in config.in_file or setting in config.unknown
    output.write_line(f"{output.one_line(setting)} {'removed' if was_set else 'was not set'}")


@config_command.command("path")
def path_command() -> None:
    """Print where config.toml is, or would be."""
    output.write_line(_config().path)


@config_command.command("edit")
def edit_command() -> int:
    """Open config.toml in your editor, and check it afterwards."""
    from sessiontree.tui.text_editor import EditorError, edit_file

    config = _config()
    if not os.path.exists(config.path):
        os.makedirs(os.path.dirname(config.path), mode=0o700, exist_ok=True)
        os.close(os.open(config.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        edit_file(config.path, config)
    except EditorError as error:
        output.fail(str(error))
    output.write_warnings(found := settings.load_config().warnings)
    return output.FAILURE if found else output.OK


def _config() -> Config:
    """The settings as they were before the program put them in force."""
    found: Config = click.get_current_context().find_object(settings.Config) or (
        settings.load_config()
    )
    return found


def _shown(config: Config, setting: Setting) -> str:
    value, _ = config.find(setting.key)
    if value is None:
        return setting.default
    return str(value).lower() if isinstance(value, bool) else str(value)


def _to_wire(config: Config, setting: Setting) -> dict[str, Any]:
    value, origin = config.find(setting.key)
    return {"setting": setting.key, "value": value, "from": origin, "default": setting.default}


def _check_theme(name: str) -> None:
    """Raise ConfigError for a theme that the screens don't know, if they are installed."""
    try:
        from sessiontree.tui.theme import theme_names
    except ModuleNotFoundError:  # without the extra ``tui``
        return
    if name not in (known := theme_names()):
        raise settings.ConfigError(f"theme must be one of {', '.join(known)}")


def _tell_winner(config: Config, setting: Setting, value: Value) -> None:
    if setting.variable is not None and setting.variable in config.environ:
        now = config.environ[setting.variable]
        if now != value:
            output.write_message((f"note: {setting.variable} is set and wins: {now}", "dim"))
