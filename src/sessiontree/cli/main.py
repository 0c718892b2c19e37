"""The program's entry: runs the command line and turns however it ends into an exit code.

Imports nothing before it is needed: ``--version`` is answered by this module alone.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Any


def run(argv: Sequence[str] | None = None) -> int:
    """Run the program with these arguments (the process's own); returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        # Answered before anything else is imported: shells and scripts ask it all the time.
        from sessiontree._version import __version__

        sys.stdout.write(f"sessiontree {__version__}\n")
        return 0
    if argv is not None:
        return _guarded(arguments)
    from sessiontree.core.gc import collect_rarely

    collect_rarely()
    code = _guarded(arguments)
    _leave(code)
    return code


def _leave(code: int) -> None:
    """End the process, and spare it the interpreter's tidying up: 5 of the 80 ms of a listing.

    Where more than a command's own memory is left to tidy up (threads, what could not be written),
    it returns, and the interpreter does that as usual.
    """
    import atexit
    import threading

    if threading.active_count() > 1:
        return
    atexit._run_exitfuncs()  # noqa: SLF001 - no public name does it
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):
        gc.freeze()  # nothing is left to be collected
        return
    os._exit(code)


def _guarded(arguments: list[str]) -> int:
    """Run the command; turn any error into one line and an exit code."""
    import click

    from sessiontree.cli import output
    from sessiontree.cli.program import start
    from sessiontree.config import in_force, load_config

    config = load_config()
    try:
        if "_SESSIONTREE_COMPLETE" not in os.environ:
            output.write_warnings(config.warnings)
        with in_force(config):
            code = start.main(arguments, prog_name="sessiontree", standalone_mode=False, obj=config)
        output.flush()
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.Abort:
        return output.INTERRUPTED
    except click.UsageError as error:
        return _report_usage(error)
    except click.ClickException as error:
        output.write_message(error.format_message())
        return error.exit_code
    except KeyboardInterrupt:
        output.write_message("")
        return output.INTERRUPTED
    except output.ReaderGone:
        _forget_stdout()
        return output.OK
    except Exception as error:
        return _report(error)
    return _exit_code(code)


def _exit_code(code: Any) -> int:
    return code if isinstance(code, int) else 0


def _report(error: Exception) -> int:
    from sessiontree.cli import output

    if os.environ.get("SESSIONTREE_DEBUG"):
        import traceback

        output.write_message("")
        text = output.without_keys("".join(traceback.format_exception(error)))
        for line in text.splitlines():
            output.write_message(line)
    return output.report(error)


def _report_usage(error: Any) -> int:
    from sessiontree.cli import output

    context = error.ctx
    path = context.command_path if context is not None else "sessiontree"
    message = " ".join(error.format_message().split())
    is_aside = message.endswith(")") and message.rpartition(" (")[0].endswith((".", "?"))
    if not message.endswith((".", "?")) and not is_aside:
        message += "."
    output.write_message(f"{message} See {path} --help")
    return output.USAGE


def _forget_stdout() -> None:
    """Write nothing more, and report no error: the reader of our output has gone."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)
