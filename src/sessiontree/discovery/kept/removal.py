"""Remove kept copies for good, and rewrite packs without what they no longer need.

Packs are only appended to. So removing means writing what is needed to new packs, and then removing
the old ones. Until those go, everything is there twice, which does no harm: a crash costs space.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sessiontree.clock import now_ms
from sessiontree.discovery.kept import is_keeping, kept_dir
from sessiontree.discovery.kept.index import KeptIndex, open_index
from sessiontree.discovery.kept.manifests import Manifest, encode_manifest
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.packs import CHUNK, MANIFEST, PackFolder, PackWriter

_LOCK_TIMEOUT_S = 10.0
_WORTH_CLEANING_BYTES = 64 << 20
_DEAD_SHARE = 0.3


def forget_kept(paths: Sequence[str], *, timeout_s: float = _LOCK_TIMEOUT_S) -> int:
    """Remove the copies of sessions, with their parts and files, for good; return how many files.

    Content that no other copy needs leaves the packs. Raises SessionBusyError, PersistenceError,
    OSError.
    """
    if not is_keeping():
        return 0
    packs = PackFolder(kept_dir())
    with packs.locked(timeout_s), open_index() as index:
        assert index is not None
        found = [manifest for path in paths if (manifest := index.find(path)) is not None]
        found += [each for path in paths for each in index.belongings(path)]
        if not found:
            return 0
        gone = [
            Manifest(each.agent, each.path, "gone", now_ms(), owner=each.owner) for each in found
        ]
        writer = PackWriter(packs, index.ends())
        try:
            for manifest in gone:
                writer.add(MANIFEST, encode_manifest(manifest))
            writer.commit()
            index.add([], gone, writer.ends)
        finally:
            writer.close()
        clean(index, packs)
    return len(found)


def clean_if_worth(index: KeptIndex, packs: PackFolder) -> bool:
    """Rewrite the packs if a large part of them is not needed any more."""
    live = _live_chunks(index)
    total = sum(packs.sizes().values())
    dead = total - sum(each.stored for each in index.chunks().values() if each.digest in live)
    is_worth = dead > _WORTH_CLEANING_BYTES and dead > _DEAD_SHARE * total
    if is_worth:
        clean(index, packs)
    return is_worth


def _live_chunks(index: KeptIndex) -> set[bytes]:
    manifests = [*index.find_all().values(), *index.versions()]
    return {digest for manifest in manifests for digest in manifest.chunks}


def clean(index: KeptIndex, packs: PackFolder) -> None:
    """Write what is needed to new packs, then remove the old ones; the lock must be held."""
    old = sorted(packs.sizes())
    live = _live_chunks(index)
    records = [record for digest, record in index.chunks().items() if digest in live]
    manifests = _in_order(index)
    writer = PackWriter(packs, index.ends(), is_fresh=True)
    try:
        for record in sorted(records, key=lambda record: (record.pack, record.at)):
            writer.add(CHUNK, packs.read(record), digest=record.digest)
        writer.sync()
        for manifest in manifests:
            writer.add(MANIFEST, encode_manifest(manifest))
        writer.commit()
    finally:
        writer.close()
    for no in old:
        packs.remove(no)
    FileSessionStorage().sync_dir(packs.folder)
    index.rebuild()


def _in_order(index: KeptIndex) -> list[Manifest]:
    """All manifests, each file's earlier versions before its present one."""
    made, seen = [], set()
    for manifest in (*index.versions(), *index.find_all().values()):
        is_rewritten = manifest.path in seen
        seen.add(manifest.path)
        made.append(msgspec.structs.replace(manifest, is_rewritten=is_rewritten))
    return made
