"""Print the manual page, made from the program's own help."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

import click

_VERBATIM = "\b"


def man_page(program: click.Group, version: str) -> str:
    """Return the page of a program and all its commands, in the man macros of roff."""
    context = click.Context(program, info_name="sessiontree", **program.context_settings)
    return "\n".join([*_page(program, context, version), ""])


def _page(program: click.Group, context: click.Context, version: str) -> Iterator[str]:
    yield f'.TH SESSIONTREE 1 "" "sessiontree {version}" "User Commands"'
    yield ".SH NAME"
    yield r"sessiontree \- find, branch and resume coding-agent sessions"
    yield ".SH SYNOPSIS"
    yield from _synopsis("sessiontree", "[OPTIONS] [PROMPT]")
    yield ".br"
    yield from _synopsis("sessiontree", "COMMAND [ARGUMENTS]")
    yield ".SH DESCRIPTION"
    yield from _help_of(program, context)
    yield ".SH OPTIONS"
    yield from _options(program, context)
    yield ".SH COMMANDS"
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        if command is not None and not command.hidden:
            yield from _command(command, name, context)
    yield ".SH EXIT STATUS"
    yield from _paragraphs(
        "0 success; 1 failure, nothing found, or damage found; 2 wrong usage, or an ID that "
        "several sessions share; 3 stopped by --max-turns; 130 interrupted."
    )


def _command(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f".SS {_escape(context.command_path.removeprefix('sessiontree '))}"
    yield from _synopsis(context.command_path, " ".join(command.collect_usage_pieces(context)))
    yield from _help_of(command, context)
    yield from _options(command, context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            if inner is not None and not inner.hidden:
                yield from _command(inner, each, context)


def _synopsis(name: str, arguments: str) -> Iterator[str]:
    yield f".B {_escape(name)}"
    if arguments:
        yield _escape(arguments)


def _help_of(command: click.Command, context: click.Context) -> Iterator[str]:
    """What ``--help`` says between its usage and its options."""
    if type(command).format_help_text is not click.Command.format_help_text:
        formatter = click.HelpFormatter(width=78)
        command.format_help_text(context, formatter)
        yield from _verbatim(formatter.getvalue().strip("\n").split("\n"))
    else:
        yield from _paragraphs(command.help or "")


def _paragraphs(text: str) -> Iterator[str]:
    lines = [line.rstrip() for line in text.strip().split("\n")]
    indent = min((len(line) - len(line.lstrip()) for line in lines[1:] if line), default=0)
    whole = "\n".join([lines[0], *(line[indent:] for line in lines[1:])])
    for paragraph in re.split(r"\n\s*\n", whole):
        kept = [line for line in paragraph.split("\n") if line.strip() != _VERBATIM]
        if len(kept) < len(paragraph.split("\n")):
            yield from _verbatim(kept)
        else:
            yield ".PP"
            yield _escape(" ".join(kept))


def _verbatim(lines: Iterable[str]) -> Iterator[str]:
    yield ".PP"
    yield ".nf"
    for line in lines:
        yield _escape(line)
    yield ".fi"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        if parameter.name == "help" and context.parent is not None:
            continue
        record = parameter.get_help_record(context)
        if record is not None:
            spelled, meaning = record
            yield ".TP"
            yield f".B {_escape(spelled)}"
            yield _escape(meaning or " ")


def _escape(text: str) -> str:
    """Text as roff takes it: no line of it begins a macro."""
    safe = text.replace("\\", r"\e").replace("-", r"\-").replace("…", "...")
    return rf"\&{safe}" if safe[:1] in (".", "'") else safe


if __name__ == "__main__":
    from sessiontree import __version__
    from sessiontree.cli.program import start

    sys.stdout.write(man_page(start, __version__))
