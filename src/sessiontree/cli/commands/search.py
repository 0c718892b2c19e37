"""``search``: find text in all sessions, with the command that opens each hit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import agent_option, agents_of, limit_option, since_option, with_scope
from sessiontree.profiles import DEFAULT_PROFILE, PROFILE_NAMES, get_profile
from sessiontree.scope import Scope
from sessiontree.text.words import without_marks_around

if TYPE_CHECKING:  # loaded only by a search: the help and the completion do without
    from sessiontree.discovery.search import SearchHit, SearchResults
    from sessiontree.serving.filtered_search import FilteredSearch

_ROLES = ("user", "assistant", "tool")
_SPEAKERS = {"user": "you", "assistant": "agent", "toolResult": "tool"}
_LEAST_NAME = 24
Marks = tuple[tuple[int, int], ...]


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
    help="Search only what you (user), the agent (assistant) or a tool said.",
)
@click.option("--tools", is_flag=True, help="Search tool calls and their output, too.")
@since_option
@agent_option
@click.option("--all-agents", is_flag=True, hidden=True)
@limit_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
@partial(
    with_scope,
    profile_help="Search only this agent's sessions: sessiontree, omp, xcsh, pi, …",
)
def search_command(
    scope: Scope,
    query: tuple[str, ...],
    here: bool,
    role: str | None,
    tools: bool,
    since: datetime | None,
    agent: str | None,
    all_agents: bool,
    limit: int,
    as_json: bool,
) -> int:
    """Search the text and names of all sessions of all agents, best match first.

    A session matches if it contains every word. Use "quotes" for a phrase, prefix* for a prefix,
    -word to exclude. Exits with 1 if nothing matches.

    Filters in the query narrow the search: agent:codex, dir:shop, date:7d (or 2026-01, or
    2026-01..2026-03), role:user, model:opus, is:named, in:tools. Filters alone list sessions.

    \b
    Examples:
      sessiontree search connection pool
      sessiontree search '"connection pool"' -postgres
      sessiontree search 'migrat*' --here --since 2026-01-01
      sessiontree search TypeError --tools
      sessiontree search agent:claude date:30d token refresh
    """
    if scope.session_dir is not None:
        raise click.UsageError("search does not support --session-dir.")
    text = " ".join(query)
    is_narrow = scope.is_profile_named and not all_agents
    named = agents_of(scope, all_agents=all_agents, agent=agent)
    agents = named or ("own" if is_narrow else "all")
    asked = _ask(scope, text, here, agents)
    tools = tools or asked.filters.in_tools
    shown: set[str] = set()

    def show(found: SearchResults) -> None:
        """Show the hits that are not on the screen yet."""
        for hit in found:
            if hit.session.path not in shown:
                (_write if hit.session.copy_of is None else _write_copy)(hit, scope)
        shown.update(hit.session.path for hit in found)

    results = _search(asked, role, tools, since, limit, None if as_json else show)
    if as_json:
        output.write_json([_to_wire(hit, scope) for hit in results])
    else:
        show(results)
        if not results:
            _write_nothing(asked, tools, is_narrowed=role is not None or since is not None)
    if asked.filters.words:
        count = sum(hit.session.copy_of is None for hit in results)
        _write_rest(results.total, count, tools, role or asked.filters.role)
    if results.is_indexing and scope.is_in_files:
        _finish_index(scope, agents)
    return output.OK if results else output.FAILURE


def _finish_index(scope: Scope, agents: str) -> None:
    """Finish the index, so that the next search need not read files."""
    from sessiontree.discovery.search import is_index_held, update_search_index

    if is_index_held():
        output.write_note(("Another program holds the search index; the files were read", "dim"))
        return
    output.write_note(("Indexing, to make the next search fast; Ctrl+C stops it", "dim"))
    with output.Progress("Indexing sessions") as progress:
        if agents == "own":
            update_search_index(profile=scope.profile, on_progress=progress)
        else:
            update_search_index(agents=agents, on_progress=progress)


def _ask(scope: Scope, text: str, here: bool, agents: str) -> FilteredSearch:
    """Read the query and its filters; a bad one ends the command."""
    from sessiontree.serving.filtered_search import FilteredSearch, FilterError

    reached = scope.reaching(
        "project" if here else "all", agents=None if agents == "own" else agents
    )
    try:
        return FilteredSearch.of(text, reached)
    except FilterError as error:
        raise click.UsageError(str(error)) from None


def _search(
    asked: FilteredSearch,
    role: str | None,
    tools: bool,
    since: datetime | None,
    limit: int,
    show: Callable[[SearchResults], object] | None,
) -> SearchResults:
    """Search; on a terminal, ``show`` what is found soon, while the first index is made."""
    with output.Progress("Indexing sessions") as progress:

        def on_part(found: SearchResults) -> None:
            assert show is not None
            progress.hide()
            show(found)
            done, total = found.indexing.done, found.indexing.total
            output.write_note((f"Indexing {done:,} of {total:,}; the rest follows", "dim"))
            output.flush()

        is_watched = show is not None and output.is_terminal()
        return asked.search(
            role=role,
            since=since,
            include_tools=tools,
            limit=limit or None,
            on_progress=progress,
            on_part=on_part if is_watched else None,
        )


def _write(hit: SearchHit, scope: Scope) -> None:
    session = hit.session
    room = output.terminal_width()
    place = tables.short_path(session.cwd)
    facts = [
        tables.age(session.modified),
        place if room is None else output.fit_end(place, room // 3),
    ]
    if hit.profile != DEFAULT_PROFILE:
        facts.append(hit.profile)
    about, said_by = f"  {' · '.join(facts)}", f"  {_SPEAKERS.get(hit.role, hit.role)}: "
    name, snippet, marks = tables.session_name(session), hit.snippet, hit.marks
    if room is not None:
        name = output.fit(name, max(room - output.text_width(about), _LEAST_NAME))
        if hit.role in ("user", "assistant"):
            snippet, around = without_marks_around(snippet, marks)
            marks = tuple(around)
        snippet, marks = _window(snippet, marks, room - len(said_by))
    output.write_line((name, "bold"), (about, "dim"))
    output.write_line((said_by, "cyan"), *_marked(snippet, marks))
    output.write_line((f"  {_command(hit, scope)}", "dim"))


def _write_copy(hit: SearchHit, scope: Scope) -> None:
    """Write one line for a copy of the session above, whose content was just shown."""
    facts = f"{hit.profile}, {tables.age(hit.session.modified)}: {_command(hit, scope)}"
    output.write_line((f"  └ also in {facts}", "dim"))


def _command(hit: SearchHit, scope: Scope) -> str:
    """A shell command that opens what was found."""
    from sessiontree.cli.resuming import resume_command

    session = hit.session
    if hit.profile not in PROFILE_NAMES:
        return hit.resume_command
    return resume_command(session.id, session.cwd or "", scope, get_profile(hit.profile))


def _window(text: str, marks: Marks, room: int) -> tuple[str, Marks]:
    """Cut a snippet to one line in which its first match can be seen."""
    if output.text_width(text) <= room:
        return text, marks
    first = marks[0][0] if marks else 0
    start = max(0, first - room // 3)
    if start:
        start = text.find(" ", start, first) + 1 or start
    ellipsis = "…" if start and text[start] != "…" else ""
    piece = output.fit(ellipsis + text[start:], room)
    shift, end = len(ellipsis) - start, len(piece) - 1
    moved = ((a + shift, min(b + shift, end)) for a, b in marks if a >= start and a + shift < end)
    return piece, tuple(moved)


def _marked(text: str, marks: Marks) -> Iterator[output.Span]:
    done = 0
    for start, end in marks:
        yield text[done:start]
        yield text[start:end], "bold yellow"
        done = end
    yield text[done:]


def _write_nothing(asked: FilteredSearch, tools: bool, *, is_narrowed: bool) -> None:
    """Say that nothing was found, and suggest a query that finds something."""
    near = None if is_narrowed else asked.near_miss(include_tools=tools)
    if near is not None and near.query is not None:
        output.write_line("Nothing found. Did you mean: ", (near.query, "bold"))
    elif near is not None and near.unknown:
        words = ", ".join(near.unknown)
        output.write_line(f"Nothing found: no session has the word {words}")
    else:
        output.write_line("Nothing found")


def _write_rest(total: int | None, shown: int, tools: bool, role: str | None) -> None:
    sentences = []
    if total is None:
        sentences.append("More sessions may match (-n 0 shows all).")
    elif total > shown:
        sentences.append(f"{tables.plural(total - shown, 'more session')} (-n 0 shows all).")
    if not tools and role is None:
        sentences.append("Not searched: tool output (--tools)")
    if sentences:
        output.write_note((" ".join(sentences), "dim"))


def _to_wire(hit: SearchHit, scope: Scope) -> dict[str, Any]:
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
        "copyOf": hit.session.copy_of,
        "resume": _command(hit, scope),
    }
