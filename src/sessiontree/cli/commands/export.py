"""``export``: write a session as Markdown, JSON or a bundle; `sessiontree.export` knows how."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import with_scope
from sessiontree.cli.resolve import (
    Target,
    find_target,
    naming_the_repair,
    open_target,
    session_argument,
)
from sessiontree.export import BUNDLE, FORMATS, choose_format
from sessiontree.scope import Scope


@click.command("export", short_help="Write a session as Markdown, HTML, JSON or a bundle.")
@session_argument()
@click.option("-o", "--output", "file", metavar="FILE", type=click.Path(dir_okay=False),
              help="Write to FILE; .md, .html, .json or .zip selects the format.")  # fmt: skip
@click.option("-f", "--format", "kind", metavar="KIND", type=click.Choice(FORMATS),
              help="markdown (default), html, json, or bundle (a full .zip).")  # fmt: skip
@click.option("--bundle", is_flag=True, help="Same as --format bundle.")
@click.option(
    "--at", metavar="ENTRY", help="Export the branch that ends at this entry (Markdown, HTML)."
)
@click.option("--redact", is_flag=True, help="Replace likely passwords and keys.")
@click.option("--review", is_flag=True, help="With --redact: show each finding and ask.")
@click.option(
    "--no-thinking", is_flag=True, help="Leave out the model's thinking (Markdown, HTML)."
)
@click.option("--no-tools", is_flag=True, help="Leave out tool calls and results (Markdown, HTML).")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@with_scope
def export_command(
    scope: Scope,
    session: str | None,
    file: str | None,
    kind: str | None,
    bundle: bool,
    at: str | None,
    redact: bool,
    review: bool,
    no_thinking: bool,
    no_tools: bool,
    force: bool,
) -> None:
    """Write a session to standard output or a file: the one with this ID, or this project's newest.

    Markdown shows the active branch. HTML is one page that needs no network: every branch, the
    tree, search. JSON holds all branches, for programs. A bundle holds everything; import it
    elsewhere with "sessiontree import FILE.zip".

    \b
    Examples:
      sessiontree export 0199a3f2 > session.md
      sessiontree export 0199a3f2 -o talk.html
      sessiontree export 0199a3f2 --redact --review -o public.html
      sessiontree export 0199a3f2 -o session.json
      sessiontree export 0199a3f2 --bundle -o session.zip
    """
    file = None if file == "-" else file
    if review and not redact:
        raise click.UsageError("--review needs --redact.")
    if bundle and kind not in (None, BUNDLE):
        raise click.UsageError("--bundle and --format contradict each other.")
    try:
        chosen = choose_format(file, BUNDLE if bundle else kind)
    except ValueError as error:
        output.fail(str(error), output.USAGE)
    if file is not None and os.path.exists(file) and not force:
        output.fail(f"{file} already exists. Use --force to overwrite it.")
    target = find_target(session, scope, foreign=chosen != BUNDLE)
    redactor = _make_redactor(review) if redact else None
    if chosen == BUNDLE:
        _export_bundle(target, scope, file, redactor, force)
    else:
        _export_text(target, scope, file, at, chosen, redactor, no_thinking, no_tools)
    if redactor is not None:
        _report_redaction(redactor)


def _export_text(
    target: Target,
    scope: Scope,
    file: str | None,
    at: str | None,
    chosen: str,
    redactor: Any,
    no_thinking: bool,
    no_tools: bool,
) -> None:
    with open_target(target, scope) as view:
        pieces = _render(view.at(at) if at else view, chosen, redactor, no_thinking, no_tools)
        if file is None:
            output.write_document(pieces, is_json=chosen == "json")
        else:
            with output.Progress("Writing", is_size=True) as progress:
                _write_file(file, progress.count(pieces))
            output.write_line("Wrote ", (tables.short_path(os.path.abspath(file)), "bold"))


def _render(
    view: Any, kind: str, redactor: Any, no_thinking: bool, no_tools: bool
) -> Iterator[str]:
    if kind == "json":
        from sessiontree.export.documents import render_json

        return render_json(view, redactor=redactor)
    if kind == "html":
        from sessiontree.export.html import HtmlOptions, render_html

        chosen = HtmlOptions(thinking=not no_thinking, tools=not no_tools)
        return render_html(view, options=chosen, redactor=redactor)
    from sessiontree.export.documents import MarkdownOptions, render_markdown

    options = MarkdownOptions(thinking=not no_thinking, tools=not no_tools)
    return render_markdown(view, options=options, redactor=redactor)


def _write_file(file: str, pieces: Iterable[str]) -> None:
    from sessiontree.storage.file import FileSessionStorage

    # The person named it: if it is a link, what it leads to is meant.
    path = os.path.realpath(file)
    if not os.path.isdir(os.path.dirname(path)):
        output.fail(f"{os.path.dirname(path)}: no such folder")
    if os.path.exists(path) and not os.path.isfile(path):
        output.fail(f"{file} is not a regular file. Leave out -o to write to standard output.")
    chunks = (piece.encode("utf-8", "replace") for piece in pieces)
    FileSessionStorage().write_atomic(path, chunks)


def _make_redactor(review: bool) -> Any:
    from sessiontree.export.redact import Redactor  # it compiles many patterns

    return Redactor(_make_review() if review else None)


def _make_review() -> Any:
    """Make the review that asks about each finding; end the command without a person to ask."""
    from sessiontree.cli.review import Review

    if not output.can_ask():
        output.fail("--review asks about each finding, so it needs a terminal.", output.USAGE)
    return Review()


def _report_redaction(redactor: Any) -> None:
    total = sum(redactor.counts.values())
    kinds = ", ".join(f"{kind} ({count})" for kind, count in redactor.counts.most_common())
    if redactor.kept:
        output.write_message(f"Kept on request: {tables.plural(redactor.kept, 'finding')}")
    if total:
        output.write_message(f"Redacted {tables.plural(total, 'secret')}: {kinds}")
    output.write_message("Read it before you publish it: redaction can miss secrets.")


def _export_bundle(
    target: Target, scope: Scope, file: str | None, redactor: Any, force: bool
) -> None:
    if file is None:
        raise click.UsageError("A bundle needs a file: -o FILE.zip")
    from sessiontree.export.bundle_export import export_bundle

    with naming_the_repair(target, scope):
        report = export_bundle(
            target.path, file, storage=scope.store, overwrite=force, redactor=redactor
        )
    output.write_line("Wrote ", (tables.short_path(os.path.abspath(file)), "bold"))
    output.write_notes(report.notes)
