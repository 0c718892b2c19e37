"""Sample sessions for newcomers: made as any program makes sessions, marked, removable in one step.

Each begins with a ``custom`` entry of the type ``sessiontree.sample``, and its title says so.
"""

from __future__ import annotations

from collections.abc import Callable

from sessiontree import clock
from sessiontree.discovery.recent import list_session_files
from sessiontree.samples import branched, compacted, pictured
from sessiontree.samples.speaking import SampleSession
from sessiontree.stores.base import Ref, SessionStore, SetsTimes
from sessiontree.stores.files.store import FileStore

MARK = "sessiontree.sample"
_MARK_BYTES = b'"customType":"sessiontree.sample"'
_LOOKED_AT = 1 << 14
_TITLE = "Sample: "
_HOUR_NS = 3_600_000_000_000

_SAMPLES: tuple[tuple[str, Callable[[SampleSession], None]], ...] = (
    ("Sample: two ways out of a failing test", branched.tell),
    ("Sample: a long talk, compacted", compacted.tell),
    ("Sample: a picture of a tree", pictured.tell),
)


def create_samples(cwd: str, store: SessionStore) -> list[tuple[str, str]]:
    """Make the samples in this project; (id, title) of each. Raises PersistenceError."""
    made = []
    now_ns = clock.now_ns()
    for number, (title, tell) in enumerate(_SAMPLES, 1):
        with SampleSession.create(cwd, storage=store) as manager:
            # Never newer than what the person does: --continue must not pick a sample then.
            manager.hours_ago = number
            manager.append_custom_entry(MARK, {"note": "sessiontree demo --remove takes it away"})
            manager.set_session_name(title)
            tell(manager)
            made.append((manager.session_id, title))
            ref = manager.ref
        if isinstance(store, SetsTimes):
            store.set_time_ns(ref, now_ns - number * _HOUR_NS)
    return made


def find_samples(store: SessionStore) -> list[Ref]:
    """The samples in a store, of whatever project."""
    if isinstance(store, FileStore):  # also one that was renamed: its first bytes say what it is
        return sorted(
            stat.path
            for folder in store.folders()
            for stat in list_session_files(store.storage, folder)
            if _begins_as_sample(store.storage.read_prefix(stat.path, _LOOKED_AT))
        )
    return sorted(
        info.path
        for info in store.list()
        if info.parent_session is None and (info.title or "").startswith(_TITLE)
        if _is_sample(store, info.path)
    )


def _begins_as_sample(beginning: bytes) -> bool:
    """Whether a file begins as a sample does; a session forked from one doesn't count."""
    head, mark, _ = beginning.partition(_MARK_BYTES)
    return bool(mark) and b'"parentSession":' not in head


def _is_sample(store: SessionStore, ref: Ref) -> bool:
    log = store.read(ref)
    try:
        first = log.tree.entries[:1]
        return any(entry.decode().get("customType") == MARK for entry in first)
    finally:
        log.close()
