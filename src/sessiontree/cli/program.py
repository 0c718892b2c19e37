"""The root command: ``sessiontree [OPTIONS] [PROMPT]`` or ``sessiontree COMMAND``.

A bare word is a command if one has that name, else it is the prompt; for a word that looks
like a mistyped command, an error suggests the command instead. Commands load when they run.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import click

from sessiontree.cli.options import scope_options

# Names and descriptions are here, so that --help and a typing mistake cost no import.
_COMMANDS: Mapping[str, tuple[str, str]] = {
    # name: (module in this package, what it does)
    "ls": ("commands.ls", "List sessions, newest first."),
    "show": ("commands.show", "Show a session's conversation."),
    "tree": ("commands.tree", "Show a session's branches."),
    "search": ("commands.search", "Search the text of all sessions."),
    "history": ("commands.history", "List or search the prompts you typed."),
    "open": ("commands.open", "Open a session in its own agent."),
    "usage": ("commands.usage", "Show tokens and cost, by session, model, day or agent."),
    "export": ("commands.export", "Write a session as Markdown, HTML, JSON or a bundle."),
    "import": ("commands.import_", "Import sessions of other agents, or a bundle."),
    "convert": ("commands.convert", "Copy a session into another agent's format."),
    "rename": ("commands.rename", "Name a session."),
    "mv": ("commands.mv", "Move a session to another project folder."),
    "relink": ("commands.relink", "Update sessions after their project folder moved."),
    "rm": ("commands.rm", "Move sessions to the trash."),
    "restore": ("commands.restore", "Bring sessions back from the trash."),
    "doctor": ("commands.doctor", "Check sessions for damage; repair it."),
    "keep": ("commands.keep", "Keep copies of all agents' sessions."),
    "gc": ("commands.gc", "Remove files that no session needs."),
    "view": ("commands.view", "Look at sessions in the browser."),
    "mcp": ("commands.mcp", "Let agents search and read earlier sessions (MCP)."),
    "push": ("commands.push", "Copy sessions to another store, such as a database."),
    "pull": ("commands.pull", "Copy sessions here from another store."),
    "store": ("commands.store", "Set up and look after a database of sessions."),
    "config": ("commands.config", "Show or change your settings (config.toml)."),
    "hooks": ("commands.hooks", "Show your hooks; trust a project's."),
    "demo": ("commands.demo", "Add or remove sample sessions."),
}

_INTRODUCTION = """\
Find, branch and resume the sessions of your coding agents: pi, omp, Claude Code, Codex and
others."""

_EXAMPLES = (
    ("sessiontree", "start a new session in this folder"),
    ('sessiontree "fix the failing test"', "start it with a prompt"),
    ("sessiontree -c", "continue this terminal's last session"),
    ("sessiontree -r", "pick a session to resume"),
    ("sessiontree -r 0199a3f2", "resume the session whose ID starts with this"),
    ('sessiontree -p "explain main.py"', "print one answer without the interactive UI"),
    ("sessiontree ls --all", "list the sessions of all projects"),
    ("sessiontree search parser", "search all sessions"),
    ("sessiontree -- ls", "send a command's name as a prompt"),
)

_SECTIONS = (
    (
        "Which session",
        ("continue_latest", "resume", "fork", "no_session", "name"),
    ),
    ("What to do", ("model", "print_prompt", "max_turns")),
    ("Other", ("profile", "session_dir", "store", "version")),
)

# What people type who know other programs.
_OTHER_NAMES = {
    "list": "ls",
    "cat": "show",
    "view": "show",
    "find": "search",
    "grep": "search",
    "move": "mv",
    "remove": "rm",
    "delete": "rm",
    "undo": "restore",
    "fsck": "doctor",
    "check": "doctor",
    "clean": "gc",
    "prune": "gc",
    "cost": "usage",
    "stats": "usage",
    "settings": "config",
    "resume": "--resume",
    "continue": "--continue",
    "fork": "--fork",
    "help": "--help",
    "version": "--version",
}

_START_ONLY = {
    "continue_latest": "--continue",
    "resume": "--resume",
    "fork": "--fork",
    "no_session": "--no-session",
    "model": "--model",
    "name": "--name",
    "print_prompt": "--print",
    "max_turns": "--max-turns",
}


class _HelpText(click.HelpFormatter):
    """Help in characters that the output has; click would end with an error, or write others."""

    def getvalue(self) -> str:
        from sessiontree.cli import output

        return output.spell_for(sys.stdout, super().getvalue())


class _Context(click.Context):
    formatter_class = _HelpText


def _with_help_text(command: click.Command) -> click.Command:
    """Give a command, and all below it, this help."""
    command.context_class = _Context
    for below in getattr(command, "commands", {}).values():
        _with_help_text(below)
    return command


class Program(click.Group):
    """A group whose leftover words are a prompt, and whose commands load when needed."""

    context_class = _Context

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"sessiontree.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return _with_help_text(command)

    def _main_shell_completion(
        self, ctx_args: MutableMapping[str, Any], prog_name: str, complete_var: str | None = None
    ) -> None:
        if f"_{prog_name.upper().replace('-', '_')}_COMPLETE" in os.environ:
            from sessiontree.cli.completion import teach_fish_commas

            teach_fish_commas()
        super()._main_shell_completion(ctx_args, prog_name, complete_var)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        word, is_forced = self._first_word(ctx, args)
        if word is None or (word in _COMMANDS and not is_forced):
            return super().parse_args(ctx, args)
        if not is_forced and not ctx.resilient_parsing:
            self._ask_about_typo(ctx, word)
        # The words are a prompt: options may follow them, and no command can.
        ctx.allow_interspersed_args = True
        words = click.Command.parse_args(self, ctx, args)
        ctx.meta["sessiontree.prompt"] = " ".join(words)
        ctx.args = []
        return []

    def _first_word(self, ctx: click.Context, args: list[str]) -> tuple[str | None, bool]:
        """The first argument that isn't an option, and whether ``--`` made it a prompt."""
        _, words, _ = self.make_parser(ctx).parse_args(args=list(args))
        if not words:
            return None, False
        before = len(args) - len(words) - 1
        return words[0], before >= 0 and args[before] == "--"

    def _ask_about_typo(self, ctx: click.Context, word: str) -> None:
        if not word.replace("-", "").isalpha() or len(word) > 12:
            return
        meant = _OTHER_NAMES.get(word.casefold())
        if meant is None:
            from difflib import get_close_matches

            close = get_close_matches(word.casefold(), _COMMANDS, n=1, cutoff=0.72)
            meant = close[0] if close else None
        if meant is not None:
            raise click.UsageError(
                f'No command "{word}". Did you mean "sessiontree {meant}"? '
                f"(As a prompt: sessiontree -- {word})",
                ctx,
            )

    # -- help ------------------------------------------------------------------------------------

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[OPTIONS] [PROMPT]")
        formatter.write_usage(ctx.command_path, "COMMAND [ARGUMENTS]", prefix="       ")

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        formatter.write_paragraph()
        formatter.write_text(_INTRODUCTION)
        with formatter.section("Examples"):
            formatter.write_dl(_EXAMPLES, col_max=40)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        by_name = {parameter.name: parameter for parameter in self.get_params(ctx)}
        for title, names in _SECTIONS:
            parameters = [by_name[name] for name in names]
            help_option = self.get_help_option(ctx)
            if "version" in names and help_option is not None:
                parameters.append(help_option)
            records = [parameter.get_help_record(ctx) for parameter in parameters]
            with formatter.section(title):
                formatter.write_dl([record for record in records if record])
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        formatter.write_paragraph()
        formatter.write_text(
            "sessiontree COMMAND --help explains a command. Exit codes: 0 success, 1 failure, "
            "2 wrong usage or an ID that several sessions share, 3 stopped by --max-turns."
        )


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from sessiontree._version import __version__
        from sessiontree.cli import output

        output.write_line(f"sessiontree {__version__}")
        ctx.exit(0)


def _complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    from sessiontree.cli.completion import complete_session

    return complete_session(ctx, param, incomplete)


@click.group(
    cls=Program,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "-c",
    "--continue",
    "continue_latest",
    is_flag=True,
    help="Continue this terminal's last session in this folder, else the project's newest.",
)
@click.option(
    "-r",
    "--resume",
    is_flag=False,
    flag_value="",
    metavar="[ID|PATH]",
    shell_complete=_complete_session,
    help="Resume a session by ID prefix, name or file; without a value, pick one.",
)
@click.option(
    "--fork",
    metavar="ID|PATH",
    shell_complete=_complete_session,
    help="Copy that session into a new one here.",
)
@click.option("--no-session", is_flag=True, help="Don't save the session.")
@click.option("--name", metavar="NAME", help="Name the session.")
@click.option(
    "--model",
    metavar="PROVIDER/ID",
    help="Use this model; offline needs no key.",
)
@click.option(
    "-p",
    "--print",
    "print_prompt",
    metavar="PROMPT",
    help="Print one answer and exit (- reads the prompt from standard input).",
)
@click.option(
    "--max-turns",
    type=click.IntRange(min=1),
    metavar="N",
    help="With -p: call the model at most N times (default 100), then exit with 3.",
)
@scope_options
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
@click.pass_context
def start(
    ctx: click.Context,
    /,
    profile: str | None,
    session_dir: str | None,
    store: str | None,
    **options: Any,
) -> int:
    """Start the interactive program, unless a command follows."""
    if ctx.invoked_subcommand is not None:
        for name, spelling in _START_ONLY.items():
            if options[name] not in (None, False):
                raise click.UsageError(
                    f'{spelling} does not go with the command "{ctx.invoked_subcommand}"; '
                    f"as a prompt: sessiontree {spelling} … -- {ctx.invoked_subcommand}",
                    ctx,
                )
        return 0
    from sessiontree.cli.options import resolve_scope
    from sessiontree.cli.start import StartOptions, start_program
    from sessiontree.config import Config, load_config

    prompt = ctx.meta.get("sessiontree.prompt") or None
    return start_program(
        StartOptions(prompt=prompt, **options),
        resolve_scope(profile, session_dir, store),
        ctx.find_object(Config) or load_config(),
    )
