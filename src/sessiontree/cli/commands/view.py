"""``view``: sessions in the browser. `sessiontree.web` is the viewer."""

from __future__ import annotations

import os
import sys
from collections.abc import Container
from typing import TYPE_CHECKING

import click

from sessiontree.cli import output
from sessiontree.cli.options import Count, with_scope
from sessiontree.scope import Scope

if TYPE_CHECKING:
    from sessiontree.web.access import Access

PASSWORD_VARIABLE = "SESSIONTREE_VIEW_PASSWORD"
SECRET_VARIABLE = "SESSIONTREE_VIEW_SECRET"
_LOOPBACK = frozenset(("127.0.0.1", "::1", "localhost"))
_LEAST_SECRET = 16
_BROWSER_START_S = 60


@click.command("view", short_help="Look at sessions in the browser.")
@click.option("--port", metavar="N", type=Count(), default=0,
              help="Listen on this port; by default a free one.")  # fmt: skip
@click.option("--host", metavar="ADDRESS", default="127.0.0.1",
              help=f"Listen here; other machines then need {PASSWORD_VARIABLE}.")  # fmt: skip
@click.option("--allow-host", "names", metavar="NAME", multiple=True,
              help="A host name that browsers use for this server.")  # fmt: skip
@click.option("--login-header", metavar="HEADER",
              help=f"Take the user's name from this header ({SECRET_VARIABLE}).")  # fmt: skip
@click.option("--writer", "writers", metavar="NAME", multiple=True,
              help="With --login-header: only these users may change sessions.")  # fmt: skip
@click.option("--read-only", is_flag=True, help="Allow no changes.")
@click.option("--no-open", is_flag=True, help="Don't open the browser.")
@with_scope
def view_command(
    scope: Scope,
    port: int,
    host: str,
    names: tuple[str, ...],
    login_header: str | None,
    writers: tuple[str, ...],
    read_only: bool,
    no_open: bool,
) -> None:
    """Look at the sessions of all your agents in the browser: search, read, compare, rename.

    Only this machine can reach the viewer, and only with the address that it prints. Ctrl+C ends
    it. docs/viewer.md says how to reach it from elsewhere.

    \b
    Examples:
      sessiontree view
      sessiontree view --port 8080 --no-open
      sessiontree view --store postgresql://db.example.org/agents
    """
    with output.needs_extra("web", "The viewer"):
        import starlette  # noqa: F401 - only to say what is missing
        import uvicorn  # noqa: F401

    from sessiontree.core.gc import collect_as_usual
    from sessiontree.serving.listener import listen, serve
    from sessiontree.serving.sessions import ServedSessions
    from sessiontree.web.app import make_app

    served = ServedSessions(scope)
    if host not in _LOOPBACK and not login_header:
        _require_password(host)
    can_write = served.can_write and not read_only
    served.prepare()
    listening = listen("127.0.0.1" if host == "localhost" else host, port)
    chosen = listening.getsockname()[1]
    access = _make_access(host, chosen, names, login_header, writers or None, can_write)
    address = _address(host, chosen, access)
    output.write_message("Sessions: ", (address, "bold"))
    if not can_write and not read_only:
        output.write_message("The store lets you read only: nothing can be changed.")
    output.write_message("Ctrl+C ends it.")
    output.flush()
    if not no_open and host in _LOOPBACK and not login_header and sys.stdout.isatty():
        _open_browser(address)
    collect_as_usual()
    serve(make_app(served, access), listening)


def _require_password(host: str) -> None:
    from sessiontree.web.access import LEAST_PASSWORD

    given = os.environ.get(PASSWORD_VARIABLE, "")
    if len(given) < LEAST_PASSWORD:
        output.fail(
            f"Others can reach {host}: set {PASSWORD_VARIABLE} to a password of at least "
            f"{LEAST_PASSWORD} characters.",
            output.USAGE,
        )


def _make_access(
    host: str,
    port: int,
    names: tuple[str, ...],
    login_header: str | None,
    writers: Container[str] | None,
    can_write: bool,
) -> Access:
    from sessiontree.serving.guard import NetworkHosts, loopback_hosts
    from sessiontree.web.access import LinkAccess, PasswordAccess, ProxyAccess

    is_near = host in _LOOPBACK
    own = tuple(name.lower() for name in names)
    near = loopback_hosts(port) | {*own, *(f"{name}:{port}" for name in own)}
    hosts: Container[str] = near if is_near else NetworkHosts(port, own)
    if login_header:
        secret = os.environ.get(SECRET_VARIABLE, "")
        if len(secret) < _LEAST_SECRET:
            output.fail(
                f"--login-header needs a secret that only the proxy knows: set {SECRET_VARIABLE} "
                f"(at least {_LEAST_SECRET} characters).",
                output.USAGE,
            )
        return ProxyAccess(hosts, login_header, secret, writers=writers, can_write=can_write)
    if writers is not None:
        output.fail("--writer goes with --login-header.", output.USAGE)
    password = os.environ.get(PASSWORD_VARIABLE)
    if password is not None and not is_near:
        return PasswordAccess(hosts, password, can_write=can_write)
    return LinkAccess(hosts, can_write=can_write)


def _address(host: str, port: int, access: Access) -> str:
    shown = f"[{host}]" if ":" in host else host
    token = getattr(access, "token", "")
    return f"http://{shown}:{port}{access.root}/{f'?token={token}' if token else ''}"


def _open_browser(address: str) -> None:
    """Open it in the background; without a browser the address is there to be clicked.

    The browser gets a private page that leads there: other users of this machine can see what a
    program is called with, and the address holds the token.
    """
    import atexit
    import html
    import tempfile
    import threading
    import webbrowser
    from pathlib import Path

    # A browser from a snap sees no temporary files, but those of the home folder.
    folder = os.path.expanduser("~") if os.path.isdir("/snap") else None
    try:
        descriptor, name = tempfile.mkstemp(".html", "sessiontree-view-", folder)
    except OSError:
        return
    page = Path(name)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        target = html.escape(address)
        file.write(
            '<!doctype html><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0;url={target}"><a href="{target}">Sessions</a>'
        )
    remove = threading.Timer(_BROWSER_START_S, page.unlink, kwargs={"missing_ok": True})
    remove.daemon = True
    remove.start()
    atexit.register(page.unlink, missing_ok=True)
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
