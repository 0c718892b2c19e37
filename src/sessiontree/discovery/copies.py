"""Show a session once: one file of a conversation leads, and its copies stand below it.

The same conversation may lie in several files: imported, converted, forked, resumed into another
file, copied by hand. ``families`` knows which are related.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TypeVar

from sessiontree.discovery.families import Families, Kin
from sessiontree.discovery.listing import SessionInfo

_SAME_TIME = timedelta(seconds=1)
_Item = TypeVar("_Item")


def families_of(kin: Sequence[Kin]) -> Families:
    """The families of these sessions, of which nearly all have no relations."""
    ids = Counter(each.id for each in kin)
    firsts = Counter(each.first for each in kin)
    named = {parent for each in kin for parent in each.parents}
    return Families(
        [
            each
            for each in kin
            if each.parents
            or each.id in named
            or ids[each.id] > 1
            or (each.first and firsts[each.first] > 1)
        ]
    )


def gather_families(found: Iterable[_Item], kin: Sequence[Kin]) -> list[list[tuple[_Item, Kin]]]:
    """Gather the members of each family at the place of its first one."""
    families = families_of(kin)
    gathered: dict[tuple[str, str], list[tuple[_Item, Kin]]] = {}
    for item, each in zip(found, kin, strict=True):
        gathered.setdefault(families.of(each), []).append((item, each))
    return list(gathered.values())


def choose_leader(family: Sequence[tuple[SessionInfo, Kin]]) -> SessionInfo:
    """The session of which the others are copies, and tell them so.

    It is the first, unless that was only made from another one by an import or a conversion:
    then the original, as long as the copy has nothing newer.
    """
    leader, kin = family[0]
    if kin.is_converted:
        originals = (info for info, each in family if not each.is_converted)
        oldest = leader.modified - _SAME_TIME
        leader = next((info for info in originals if info.modified >= oldest), leader)
    for info, _ in family:
        info.copy_of = leader.path if info is not leader else None
    return leader


def put_copies_below(infos: Iterable[SessionInfo]) -> list[list[SessionInfo]]:
    """Each session, followed by its copies; in the order in which the first of each comes."""
    gathered: dict[str, list[SessionInfo]] = {}
    for info in infos:
        gathered.setdefault(info.copy_of or info.path, []).append(info)
    for family in gathered.values():
        family.sort(key=lambda info: info.copy_of is not None)
    return list(gathered.values())
