"""Run the program's commands in this process, and judge what they print."""

from __future__ import annotations

import contextlib
import io

import click

from sessiontree import SessionTreeError
from sessiontree.cli.program import start


def run_command(arguments: list[str]) -> str:
    """What a command prints; a refusal of any kind is as good."""
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        contextlib.suppress(
            SessionTreeError, click.ClickException, click.exceptions.Exit, SystemExit
        ),
    ):
        start.main(arguments, prog_name="sessiontree", standalone_mode=False)
    return printed.getvalue()


def is_safe(text: str) -> bool:
    return not any(ord(sign) < 32 and sign not in "\n\t" for sign in text)
