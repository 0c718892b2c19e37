"""``mcp``: let agents search and read earlier sessions. `sessiontree.mcp` is the server."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING, Any

import click

from sessiontree.cli import output
from sessiontree.cli.options import Count, with_scope
from sessiontree.scope import Scope

if TYPE_CHECKING:
    from sessiontree.mcp.server import SessionServer

TOKEN_VARIABLE = "SESSIONTREE_MCP_TOKEN"
_PORT = 8642
_LEAST_TOKEN = 16


@click.command("mcp", short_help="Let agents search and read earlier sessions (MCP).")
@click.option("--http", is_flag=True, help="Serve HTTP on this machine instead of standard input.")
@click.option("--port", metavar="N", type=Count(), default=_PORT, show_default=True,
              help="With --http: listen on this port; 0 takes a free one.")  # fmt: skip
@click.option("--no-redact", is_flag=True, help="Show passwords and keys that sessions hold.")
@with_scope
def mcp_command(scope: Scope, http: bool, port: int, no_redact: bool) -> None:
    """Serve sessions to agents by the Model Context Protocol: to search, list and read, never to
    write.

    Agents start this command themselves; docs/mcp.md has the line for each. Likely passwords and
    keys are redacted unless you pass --no-redact.

    \b
    Examples:
      claude mcp add sessiontree -- sessiontree mcp
      codex mcp add sessiontree -- sessiontree mcp
      sessiontree mcp --http
    """
    with output.needs_extra("mcp", "The MCP server"):
        from sessiontree.mcp.server import SessionServer
    from sessiontree.core.gc import collect_as_usual
    from sessiontree.serving.sessions import ServedSessions

    sessions = ServedSessions(scope)
    sessions.prepare()
    collect_as_usual()
    server = SessionServer(sessions, redact=not no_redact)
    try:
        if http:
            _serve_http(server, port)
        else:
            _serve_stdio(server)
    finally:
        sessions.close()


def _serve_stdio(server: SessionServer) -> None:
    try:
        server.run("stdio")
    except* (BrokenPipeError, ConnectionResetError):
        os._exit(0)  # the agent is gone, and nothing is left to be written


def _serve_http(server: SessionServer, port: int) -> None:
    from sessiontree.serving.guard import BearerGuard, loopback_hosts
    from sessiontree.serving.listener import listen, serve

    token = os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(32)
    if len(token) < _LEAST_TOKEN:
        output.fail(f"{TOKEN_VARIABLE} is shorter than {_LEAST_TOKEN} characters.", output.USAGE)
    listening = listen("127.0.0.1", port)
    chosen = listening.getsockname()[1]
    app: Any = server.streamable_http_app(json_response=True, stateless_http=True)
    guarded = BearerGuard(app, token, loopback_hosts(chosen))
    output.write_message("Listening on ", (f"http://127.0.0.1:{chosen}/mcp", "bold"))
    if TOKEN_VARIABLE in os.environ:
        output.write_message(f"The token is that of {TOKEN_VARIABLE}. Ctrl+C stops the server.")
    else:
        output.write_message(f"Token: {token}")
        output.write_message(
            f"Set {TOKEN_VARIABLE} to keep one from start to start. Ctrl+C stops the server."
        )
    serve(guarded, listening)
