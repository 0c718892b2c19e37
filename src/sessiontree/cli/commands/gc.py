"""``gc``: remove files that no session needs, and old trash."""

from __future__ import annotations

import contextlib
import shlex
from datetime import UTC, datetime, timedelta

import click

from sessiontree.cli import output, tables
from sessiontree.cli.options import Count, store_words, with_scope
from sessiontree.clock import now
from sessiontree.errors import PersistenceError
from sessiontree.maintenance.gc import Garbage, GarbageReport, find_garbage, remove_garbage
from sessiontree.scope import Scope
from sessiontree.stores.files.folders import walk_files
from sessiontree.stores.files.trash import TrashItem, delete_forever, is_older, list_trash

_SHOWN = 10


@click.command("gc", short_help="Remove files that no session needs.")
@click.option("-y", "--yes", is_flag=True, help="Remove them; without this, gc only lists them.")
@click.option(
    "--trash", "trash_days", metavar="DAYS", type=Count(),
    help="Also delete what has been in the trash for more than DAYS days.",
)  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Show every file, not just the sums.")
@with_scope
def gc_command(scope: Scope, yes: bool, trash_days: int | None, verbose: bool) -> int:
    """List, or with --yes remove, blobs that no session uses and leftovers of crashes.

    gc keeps a blob that is younger than an hour, or that a session, draft, trashed session or
    quarantined file of any profile uses. It knows a folder outside the profile if
    a session was started there with --session-dir; otherwise name it with --session-dir now.

    \b
    Examples:
      sessiontree gc                 list only
      sessiontree gc --yes           remove
      sessiontree gc --trash 30      include what has been in the trash for 30 days
    """
    if scope.files is None:
        return _purge_store(scope, yes, trash_days)
    folders = [scope.session_dir] if scope.session_dir else []
    trash = list_trash(scope.profile)
    expired = _expired(trash, trash_days)
    with output.Progress("Searching files for blobs in use") as progress:
        report = find_garbage(scope.profile, folders=folders, on_progress=progress)
    if not report.garbage and not expired:
        output.write_line("Nothing to remove")
    else:
        _write_garbage(report.garbage, verbose)
        _write_trashed(expired)
    _write_kept(report.referenced, report.young, len(trash) - len(expired))
    if not report.garbage and not expired:
        return output.OK
    if not yes:
        size = report.size + sum(size for _, size in expired)
        command = _same_command(scope, trash_days, verbose)
        output.write_note(f"To remove {tables.size_text(size)}: {command}")
        return output.OK
    return _remove(report, expired)


def _purge_store(scope: Scope, yes: bool, trash_days: int | None) -> int:
    """Empty the trash of a store that keeps its blobs in order by itself."""
    trash = scope.store.list_trash()
    limit = now() - timedelta(days=trash_days or 0)
    expired = [item for item in trash if trash_days is not None and is_older(item, limit)]
    if not expired:
        output.write_line("Nothing to remove")
    for item in expired:
        output.write_line("trashed session  ", (item.title or item.session_id, "bold"))
    _write_kept(0, 0, len(trash) - len(expired))
    if expired and yes:
        removed = scope.store.purge(limit)
        output.write_line(f"Removed {tables.plural(removed, 'item')}")
    elif expired:
        command = _same_command(scope, trash_days, verbose=False)
        output.write_note(f"To remove {tables.plural(len(expired), 'session')}: {command}")
    return output.OK


def _remove(report: GarbageReport, expired: list[tuple[TrashItem, int]]) -> int:
    removal = remove_garbage(report)
    count, size, failed = len(removal.removed), removal.size, list(removal.failed)
    for item, item_size in expired:
        try:
            delete_forever(item)
        except PersistenceError as error:
            failed.append(error)
        else:
            count += 1
            size += item_size
    output.write_line(f"Removed {tables.plural(count, 'item')}, {tables.size_text(size)}")
    for reason in failed:
        output.write_message((f"Not removed: {reason}", "yellow"))
    return output.FAILURE if failed else output.OK


def _same_command(scope: Scope, trash_days: int | None, verbose: bool) -> str:
    """The same command with ``--yes``."""
    words = ["sessiontree"]
    if scope.is_profile_named:
        words += ["--profile", scope.profile.name]
    words += [*store_words(scope), "gc"]
    if scope.session_dir is not None:
        words += ["--session-dir", scope.session_dir]
    if trash_days is not None:
        words += ["--trash", str(trash_days)]
    if verbose:
        words.append("--verbose")
    return shlex.join([*words, "--yes"])


def _write_trashed(expired: list[tuple[TrashItem, int]]) -> None:
    for item, size in expired:
        output.write_line(
            "trashed session  ",
            (item.title or item.session_id, "bold"),
            f"  {tables.size_text(size)}",
        )


def _write_garbage(garbage: list[Garbage], verbose: bool) -> None:
    for kind in dict.fromkeys(piece.kind for piece in garbage):
        same = [piece for piece in garbage if piece.kind == kind]
        size = tables.size_text(sum(piece.size for piece in same))
        output.write_line((tables.plural(len(same), kind), "bold"), f"  {size}")
        if verbose:
            for piece in same:
                output.write_line((f"  {tables.short_path(piece.path)}", "dim"))


def _write_kept(referenced: int, young: int, trashed: int) -> None:
    notes = []
    if referenced:
        notes.append(f"{tables.plural(referenced, 'blob')} in use")
    if young:
        notes.append(f"{tables.plural(young, 'blob')} younger than an hour")
    if trashed:
        notes.append(f"{tables.plural(trashed, 'session')} in the trash: --trash DAYS")
    if notes:
        output.write_note(("Kept: " + " · ".join(notes), "dim"))


def _expired(items: list[TrashItem], days: int | None) -> list[tuple[TrashItem, int]]:
    """The items that have been in the trash for more than these days, each with its size."""
    if days is None:
        return []
    limit = now() - timedelta(days=days)
    return [(item, _size_of(item)) for item in items if _removed_at(item) <= limit]


def _size_of(item: TrashItem) -> int:
    """The bytes of all files of the item; unreadable ones count as nothing."""
    size = 0
    with contextlib.suppress(OSError, PersistenceError):
        for file in walk_files(item.folder, follow_links=False):
            with contextlib.suppress(OSError):
                size += file.stat(follow_symlinks=False).st_size
    return size


def _removed_at(item: TrashItem) -> datetime:
    try:
        return datetime.fromisoformat(item.removed_at).astimezone(UTC)
    except (ValueError, OverflowError):
        return now()  # when unsure it has just been removed, so it stays
