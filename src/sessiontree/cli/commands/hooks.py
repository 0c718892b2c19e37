"""``hooks``: show which hooks run here; trust those of a project."""

from __future__ import annotations

import os

import click

from sessiontree import user_hooks
from sessiontree.cli import output, tables
from sessiontree.cli.tables import Column
from sessiontree.config import Config, load_config

_FOLDER = click.argument(
    "folder", default=".", type=click.Path(exists=True, file_okay=False, resolve_path=True)
)


@click.group("hooks", invoke_without_command=True, short_help="Show your hooks; trust a project's.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@click.pass_context
def hooks_command(ctx: click.Context, as_json: bool) -> None:
    """Show which hooks run in this project, and which don't.

    Hooks are functions of yours in hooks.py beside config.toml, in installed packages, or in
    .sessiontree/hooks.py of a project. A project's hooks run only after you have trusted them.

    \b
    Examples:
      sessiontree hooks
      sessiontree hooks trust
      sessiontree config set hooks false
    """
    if ctx.invoked_subcommand is not None:
        return
    config = _config()
    found = user_hooks.find_hooks(config, os.getcwd())
    if as_json:
        output.write_json(
            [
                {"name": one.name, "from": one.origin, "state": one.state, "reason": one.reason}
                for one in found
            ]
        )
        return
    columns = [Column("HOOKS", "bold", is_flexible=True), Column("FROM"), Column("STATE")]
    rows = [[_name(one), one.origin, _state(one)] for one in found]
    if rows:
        tables.write_table(columns, rows)
    else:
        output.write_line("No hooks found")
    own = os.path.join(os.path.dirname(config.path), user_hooks.FILE_NAME)
    if not any(one.origin == "user" for one in found):
        output.write_note((f"{tables.short_path(own)} (not there yet)", "dim"))
    if any(one.state in ("not trusted", "changed") for one in found):
        output.write_note("Read and trust them: sessiontree hooks trust")
    if not config.flag("hooks"):
        output.write_note("Hooks are off: sessiontree config unset hooks")


@hooks_command.command("trust")
@_FOLDER
@click.option("--yes", is_flag=True, help="Don't ask.")
def trust_command(folder: str, yes: bool) -> None:
    """Show a project's hooks, ask, and let them run until they change.

    Trust covers this one file, not what it imports.
    """
    code = user_hooks.read_project_file(folder)
    path = tables.short_path(user_hooks.project_file(folder))
    if not yes:
        if not output.can_ask():
            output.fail(f"To trust {path} without a terminal, add --yes")
        from sessiontree.cli.approval import approve

        text = code.decode("utf-8", "replace").rstrip("\n")
        if not approve(path, text, "Let this run with your rights whenever you work here?"):
            output.fail("Not trusted")
    user_hooks.trust(_config(), folder, code)
    output.write_line(f"Trusted {path}")


@hooks_command.command("untrust")
@_FOLDER
def untrust_command(folder: str) -> int:
    """Stop running a project's hooks."""
    path = tables.short_path(user_hooks.project_file(folder))
    if not user_hooks.untrust(_config(), folder):
        output.write_line(f"{path} was not trusted")
        return output.FAILURE
    output.write_line(f"No longer trusted: {path}")
    return output.OK


def _name(source: user_hooks.HookSource) -> str:
    return source.name if source.origin == "package" else tables.short_path(source.name)


def _state(source: user_hooks.HookSource) -> str:
    return f"{source.state}: {source.reason}" if source.reason else source.state


def _config() -> Config:
    return click.get_current_context().find_object(Config) or load_config()
