"""Entry points: find the stores, agents and hooks that installed packages add."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def find_entry_points(group: str) -> list[EntryPoint]:
    """The entry points of a group, without loading what they name."""
    # importlib.metadata costs more than a whole listing, so it loads only if it is needed.
    mark = b"[" + group.encode() + b"]"
    if not any(_has_group(folder, mark) for folder in sys.path):
        return []
    return list(import_module("importlib.metadata").entry_points(group=group))


def _has_group(folder: str, mark: bytes) -> bool:
    """Whether a package in this folder of Python's path has an entry point of the group."""
    try:
        with os.scandir(folder or ".") as listing:
            infos = [item.path for item in listing if item.name.endswith(".dist-info")]
    except OSError:
        return False
    for info in infos:
        try:
            with open(os.path.join(info, "entry_points.txt"), "rb") as file:
                if mark in file.read().replace(b" ", b""):
                    return True
        except OSError:
            continue
    return False
