"""``search``: find text in all sessions, with the command that opens each hit."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import limit_option, since_option, with_scope
from sessiontree.profiles import DEFAULT_PROFILE, get_profile
from sessiontree.scope import Scope

if TYPE_CHECKING:  # loaded only by a search: the help and the completion do without
    from sessiontree.discovery.search import SearchHit, SearchResults
    from sessiontree.importers.foreign_listing import ForeignSession

_ROLES = ("user", "assistant", "tool")
Marks = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ForeignHit:
    """A matching session of Claude Code or Codex; the fields mean the same as `SearchHit`'s."""

    session: ForeignSession
    entry_id: str
    role: str
    snippet: str
    marks: Marks

    @property
    def profile(self) -> str:
        """The other agent's name."""
        return self.session.agent


class SearchCommand(click.Command):
    """A command whose ``-word`` is an exclusion, unless it is one of its options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options: list[str] = []
        excluded: list[str] = []
        for at, word in enumerate(args):
            if word == "--":
                return super().parse_args(ctx, [*options, "--", *excluded, *args[at + 1 :]])
            (excluded if _is_exclusion(word) else options).append(word)
        return super().parse_args(ctx, [*options, "--", *excluded] if excluded else options)


def _is_exclusion(word: str) -> bool:
    if len(word) < 2 or word[0] != "-" or word[1] == "-":
        return False
    return word not in ("-n", "-h") and not (word.startswith("-n") and word[2:].isdigit())


@click.command("search", cls=SearchCommand, short_help="Search the text of all sessions.")
@click.argument("query", nargs=-1, required=True, metavar="QUERY")
@click.option("--here", is_flag=True, help="Search only this project's sessions.")
@click.option(
    "--role",
    metavar="WHO",
    type=click.Choice(_ROLES),
    help="Search only what the user, assistant or tool said.",
)
@click.option("--tools", is_flag=True, help="Search tool calls and their output, too.")
@since_option
@click.option("--all-agents", is_flag=True, help="Search sessions of Claude Code and Codex, too.")
@limit_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@partial(
    with_scope,
    profile_help="Search only this agent's sessions: sessiontree, omp, xcsh or pi.",
)
def search_command(
    scope: Scope,
    query: tuple[str, ...],
    here: bool,
    role: str | None,
    tools: bool,
    since: datetime | None,
    all_agents: bool,
    limit: int,
    as_json: bool,
) -> int:
    """Search the text and names of all sessions of sessiontree, pi, omp and xcsh, best match first.

    A session matches if it contains every word. Use "quotes" for a phrase, prefix* for a prefix,
    -word to exclude. Exits with 1 if nothing matches.

    \b
    Examples:
      sessiontree search connection pool
      sessiontree search '"connection pool"' -postgres
      sessiontree search 'migrat*' --here --since 2026-01-01
      sessiontree search TypeError --tools
    """
    if scope.session_dir is not None:
        raise click.UsageError("search does not support --session-dir.")
    text = " ".join(query)
    results = _search(scope, text, here, role, tools, since, limit)
    found: list[SearchHit | ForeignHit] = list(results)
    total = results.total
    if all_agents:
        others = list(_search_foreign(text, scope, here, role, since))
        found += others
        total = total + len(others) if total is not None else None
    shown = found[:limit] if limit else found
    if as_json:
        output.write_json([_to_wire(hit, scope) for hit in shown])
    else:
        for hit in shown:
            _write(hit, scope)
        if not shown:
            output.write_line("Nothing found")
    _write_rest(total, len(shown), tools, role, all_agents)
    if results.is_indexing and scope.files is not None:
        _finish_index(scope)
    return output.OK if shown else output.FAILURE


def _finish_index(scope: Scope) -> None:
    """Finish the index, so that the next search need not read files."""
    from sessiontree.discovery.search import is_index_held, update_search_index

    if is_index_held():
        output.write_note(("Another program holds the search index; the files were read", "dim"))
        return
    output.write_note(("Indexing, to make the next search fast; Ctrl+C stops it", "dim"))
    with output.Progress("Indexed session") as progress:
        update_search_index(
            profile=scope.profile if scope.is_profile_named else None, on_progress=progress
        )


def _search(
    scope: Scope,
    text: str,
    here: bool,
    role: str | None,
    tools: bool,
    since: datetime | None,
    limit: int,
) -> SearchResults:
    reached = scope.reaching("project" if here else "all", agents=not scope.is_profile_named)
    with output.Progress("Reading session") as progress:
        return reached.search(
            text,
            role=role,
            since=since,
            include_tools=tools,
            limit=limit or None,
            on_progress=progress,
        )


def _search_foreign(
    text: str, scope: Scope, here: bool, role: str | None, since: datetime | None
) -> Iterator[ForeignHit]:
    """Search Claude Code and Codex sessions, which are read whole because no index has them."""
    from sessiontree.discovery.paths import same_cwd
    from sessiontree.discovery.search.query import parse_query
    from sessiontree.discovery.search.scan import Matcher
    from sessiontree.errors import SessionTreeError
    from sessiontree.importers.foreign import load_foreign
    from sessiontree.importers.foreign_listing import find_foreign_sessions

    parsed = parse_query(text)
    if not parsed.wanted:
        return
    matcher = Matcher(parsed)
    for session in find_foreign_sessions():
        if here and not same_cwd(session.cwd or "", scope.cwd):
            continue
        if since is not None and session.modified < since:
            continue
        try:
            entries = load_foreign(session.path, agent=session.agent).get_entries()
        except SessionTreeError:
            continue
        hit = _match_foreign(session, entries, matcher, role)
        if hit is not None:
            yield hit


def _match_foreign(
    session: ForeignSession, entries: Sequence[Any], matcher: Any, role: str | None
) -> ForeignHit | None:
    from sessiontree.discovery.search.scan import make_snippet

    wanted = len(matcher.query.wanted)
    totals = [0] * len(matcher.terms)
    best: tuple[int, str, str, str, list[list[tuple[int, int]]]] | None = None
    for entry_id, who, text in _foreign_texts(session, entries, role):
        spans = matcher.find(text)
        totals = [total + len(each) for total, each in zip(totals, spans, strict=True)]
        score = sum(1 for each in spans[:wanted] if each)
        if score and (best is None or score >= best[0]):
            best = (score, entry_id, who, text, spans[:wanted])
    if best is None or not all(totals[:wanted]) or any(totals[wanted:]):
        return None
    _, entry_id, who, text, spans = best
    snippet = make_snippet(text, [span for each in spans for span in each])
    return ForeignHit(session, entry_id, who, snippet.text, snippet.marks)


def _foreign_texts(
    session: ForeignSession, entries: Sequence[Any], role: str | None
) -> Iterator[tuple[str, str, str]]:
    """Entry id, role and text of what is searched; first the name."""
    from sessiontree.discovery.search.names import NAME_ROLE
    from sessiontree.model.messages import text_of

    if role is None and session.title:
        yield "", NAME_ROLE, session.title
    for entry in entries:
        message = entry.data.get("message") if entry.type == "message" else None
        if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
            continue
        if role is None or message.get("role") == role:
            yield entry.id, str(message["role"]), text_of(message.get("content"), "\n")


def _write(hit: SearchHit | ForeignHit, scope: Scope) -> None:
    session = hit.session
    facts = [tables.age(session.modified), tables.short_path(session.cwd)]
    if hit.profile != DEFAULT_PROFILE:
        facts.append(hit.profile)
    output.write_line((tables.session_name(session), "bold"), (f"  {' · '.join(facts)}", "dim"))
    output.write_line((f"  {hit.role}: ", "cyan"), *_marked(hit.snippet, hit.marks))
    output.write_line((f"  {_command(hit, scope)}", "dim"))


def _command(hit: SearchHit | ForeignHit, scope: Scope) -> str:
    """A shell command that opens what was found."""
    from sessiontree.cli.start import resume_command

    session = hit.session
    if isinstance(hit, ForeignHit):
        return shlex.join(["sessiontree", "import", session.id])
    return resume_command(session.id, session.cwd or "", scope, get_profile(hit.profile))


def _marked(text: str, marks: Marks) -> Iterator[output.Span]:
    done = 0
    for start, end in marks:
        yield text[done:start]
        yield text[start:end], "bold yellow"
        done = end
    yield text[done:]


def _write_rest(
    total: int | None, shown: int, tools: bool, role: str | None, all_agents: bool
) -> None:
    sentences = []
    if total is None:
        sentences.append("More sessions may match (-n 0 shows all).")
    elif total > shown:
        sentences.append(f"{tables.plural(total - shown, 'more session')} (-n 0 shows all).")
    skipped = []
    if not tools and role is None:
        skipped.append("tool output (--tools)")
    if not all_agents:
        skipped.append("Claude Code and Codex (--all-agents)")
    if skipped:
        sentences.append(f"Not searched: {', '.join(skipped)}")
    if sentences:
        output.write_note((" ".join(sentences), "dim"))


def _to_wire(hit: SearchHit | ForeignHit, scope: Scope) -> dict[str, Any]:
    return {
        "id": hit.session.id,
        "path": hit.session.path,
        "agent": hit.profile,
        "title": hit.session.title,
        "cwd": hit.session.cwd,
        "entryId": hit.entry_id or None,
        "role": hit.role,
        "snippet": hit.snippet,
        "marks": [list(mark) for mark in hit.marks],
        "resume": _command(hit, scope),
    }
