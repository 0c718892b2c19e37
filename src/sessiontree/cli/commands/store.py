"""``store``: set up and look after a database of sessions."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, cast

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import Count
from sessiontree.scope import STORE_VARIABLE
from sessiontree.stores import open_store

if TYPE_CHECKING:
    from sessiontree.stores.postgres.database import Database
    from sessiontree.stores.postgres.upkeep import Right, StoreStatus

_URL = click.argument("url", metavar="[URL]", required=False)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("store", short_help="Set up and look after a database of sessions.")
def store_command() -> None:
    """Set up and look after a PostgreSQL database of sessions.

    URL is postgresql://USER@HOST/DATABASE; without one, the command uses --store
    or SESSIONTREE_STORE. Keep a password in a passfile or PGPASSWORD rather than in the URL.

    \b
    Examples:
      sessiontree store init postgresql://postgres@localhost/agents
      sessiontree store grant postgresql://postgres@localhost/agents anna writer --tenant blue
      sessiontree store status postgresql://anna@localhost/agents
    """


def _open(url: str | None) -> Database:
    """The database at a URL, or that of --store; ends the command for any other store."""
    context = click.get_current_context().find_root()
    url = url or context.params.get("store") or os.environ.get(STORE_VARIABLE)
    if not url:
        output.fail(f"Which store? Name its URL, or set {STORE_VARIABLE}", output.USAGE)
    store = open_store(url)
    with output.needs_extra("postgres", "A database of sessions"):
        from sessiontree.stores.postgres.store import PostgresStore
    if not isinstance(store, PostgresStore):
        output.fail(f"{store.url} is not a database: there is nothing to look after", output.USAGE)
    return store.database


@store_command.command("init")
@_URL
def init_command(url: str | None) -> None:
    """Create the tables in an empty database, or bring them up to date."""
    database = _open(url)
    from sessiontree.stores.postgres.schema import upgrade

    made = upgrade(database, is_init=True)
    _tell_made(database, made)


@store_command.command("upgrade")
@_URL
def upgrade_command(url: str | None) -> None:
    """Bring the tables to this version's schema. Clients keep working meanwhile."""
    database = _open(url)
    from sessiontree.stores.postgres.schema import upgrade

    _tell_made(database, upgrade(database))


def _tell_made(database: Database, made: list[int]) -> None:
    shown = database.address.shown
    if made:
        output.write_line(f"Ready: {shown}  (schema {made[-1]})")
    else:
        output.write_line(f"Up to date: {shown}")


@store_command.command("status")
@_URL
@_JSON
def status_command(url: str | None, as_json: bool) -> int:
    """Show what is in the store, and whether this version can use it."""
    database = _open(url)
    from sessiontree.stores.postgres.upkeep import read_status

    status = read_status(database)
    if as_json:
        output.write_json({_camel(name): value for name, value in _fields(status).items()})
    else:
        _write_status(status)
    return output.OK if status.is_usable else output.FAILURE


def _fields(status: StoreStatus) -> dict[str, Any]:
    return dataclasses.asdict(status)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _write_status(status: StoreStatus) -> None:
    output.write_line((status.url, "bold"))
    secured = "encrypted" if status.is_encrypted else "not encrypted"
    output.write_line(f"PostgreSQL {status.server}, {secured}")
    if not status.version:
        output.write_line("No tables yet: sessiontree store init URL")
        return
    output.write_line(
        f"Schema {status.version}, for clients from {status.oldest_client} on"
        + ("" if status.is_usable else "; this one is not among them")
    )
    if not status.is_usable:
        return
    tenant = status.tenant or "(none)"
    output.write_line(f"As {status.role}, tenant {tenant}")
    output.write_line(
        f"{tables.plural(status.sessions, 'session')}, {tables.plural(status.drafts, 'draft')}, "
        f"{status.trashed} in the trash"
    )
    entries = tables.plural(status.entries, "entry")
    output.write_line(f"{entries}, {tables.size_text(status.bytes)}")
    output.write_line(
        f"{tables.plural(status.blobs, 'blob')}, {tables.size_text(status.blob_bytes)}"
    )
    if status.unindexed:
        output.write_line(
            f"{tables.plural(status.unindexed, 'session')} not fully indexed: "
            "sessiontree store vacuum URL"
        )
    output.write_line(_policy_text(status.keep_days, status.trash_days))


def _policy_text(keep_days: int | None, trash_days: int | None) -> str:
    kept = "for ever" if keep_days is None else f"until {keep_days} days unused"
    trash = "for ever" if trash_days is None else f"for {trash_days} days"
    return f"Kept: sessions {kept}, trash {trash}"


@store_command.command("policy")
@_URL
@click.option("--keep", "keep_days", metavar="DAYS", type=Count(1),
              help="Move sessions to the trash that were not used for DAYS.")  # fmt: skip
@click.option("--trash", "trash_days", metavar="DAYS", type=Count(),
              help="Delete for good what was in the trash for DAYS.")  # fmt: skip
@click.option("--none", "is_none", is_flag=True, help="Keep everything.")
def policy_command(
    url: str | None, keep_days: int | None, trash_days: int | None, is_none: bool
) -> None:
    """Show or set how long sessions are kept. "store vacuum" deletes the others."""
    database = _open(url)
    from sessiontree.stores.postgres.upkeep import read_policy, write_policy

    kept, trash = read_policy(database)
    if is_none:
        write_policy(database, None, None)
    elif keep_days is not None or trash_days is not None:
        write_policy(
            database,
            keep_days if keep_days is not None else kept,
            trash_days if trash_days is not None else trash,
        )
    output.write_line(_policy_text(*read_policy(database)))


@store_command.command("vacuum")
@_URL
@_JSON
def vacuum_command(url: str | None, as_json: bool) -> None:
    """Delete what is too old, index new messages, remove unused blobs.

    Safe at any time, such as every hour by cron.
    """
    database = _open(url)
    from sessiontree.stores.postgres.upkeep import vacuum

    with output.Progress("Indexing sessions") as progress:
        made = vacuum(database, progress)
    if as_json:
        output.write_json(dataclasses.asdict(made))
        return
    output.write_line(
        f"Indexed {tables.plural(made.indexed, 'session')}, {made.trashed} to the trash, "
        f"{made.purged} deleted, {tables.plural(made.blobs, 'blob')} dropped"
    )


@store_command.command("check")
@_URL
@click.option("--repair", is_flag=True, help="Correct wrong counters.")
@_JSON
def check_command(url: str | None, repair: bool, as_json: bool) -> int:
    """Compare the rows with one another, and blobs with their hashes."""
    database = _open(url)
    from sessiontree.stores.postgres.upkeep import check

    found = check(database, repair=repair)
    if as_json:
        output.write_json([dataclasses.asdict(finding) for finding in found])
    elif not found:
        output.write_line("No problems found")
    else:
        for finding in found:
            output.write_line(finding.what, " (repaired)" if finding.is_repaired else "")
    return output.OK if all(finding.is_repaired for finding in found) else output.FAILURE


@store_command.command("grant")
@click.argument("url", metavar="URL")
@click.argument("role", metavar="ROLE")
@click.argument("right", type=click.Choice(("owner", "writer", "reader")))
@click.option("--tenant", metavar="NAME", help="The role sees this tenant's sessions, no others.")
def grant_command(url: str, role: str, right: str, tenant: str | None) -> None:
    """Let a database role use the store.

    A writer may do all that sessions need; a reader may look; an owner may also upgrade and grant.
    Without --tenant the role sees what it saw before: any tenant, unless it was bound to one.

    All owners act through one shared role, which the first grant of an owner creates: it owns the
    tables, and has no other right on the server.
    """
    database = _open(url)
    from sessiontree.stores.postgres.upkeep import grant

    bound = grant(database, role, cast("Right", right), tenant)
    output.write_line(f"{role}: {right}" + (f", tenant {bound}" if bound is not None else ""))
