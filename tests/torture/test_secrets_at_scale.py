"""Ordinary files, many of them: how often something in them is taken for a secret, and how fast.

``SECRETS_MEGABYTES`` says how much to read (20); the files are those of this machine.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sessiontree.text.secrets import find_secrets

_ENDINGS = (
    *(".c", ".cfg", ".conf", ".css", ".h", ".html", ".js", ".json", ".md", ".pl", ".pm", ".py"),
    *(".pyi", ".rst", ".sh", ".toml", ".ts", ".txt", ".yaml", ".yml"),
)
_FOLDERS = (sys.prefix, sys.base_prefix + "/lib", "/usr/include", "/usr/share")
_MOST_MISTAKES_PER_MEGABYTE = 1.0


def _ordinary_files(rng: random.Random) -> Iterator[str]:
    paths = [
        Path(folder, name)
        for root in _FOLDERS
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith(_ENDINGS)
    ]
    rng.shuffle(paths)
    for path in paths:
        # What tests and scanners of secrets hold is meant to be found.
        if not any(word in str(path) for word in ("test", "secret", "example")):
            try:
                yield path.read_text(encoding="utf-8", errors="replace")[: 2 << 20]
            except OSError:
                continue


def test_ordinary_files_hold_next_to_no_secrets(
    rng: random.Random, figures: Callable[[str, float], None]
) -> None:
    wanted = float(os.environ.get("SECRETS_MEGABYTES", "20")) * 1e6
    size = mistakes = 0
    seconds = 0.0
    for text in _ordinary_files(rng):
        started = time.process_time()
        found = find_secrets(text)
        seconds += time.process_time() - started
        size += len(text)
        mistakes += len(found)
        if size >= wanted:
            break
    figures("megabytes", size / 1e6)
    figures("taken for secrets", mistakes)
    figures("megabytes each second", size / 1e6 / seconds)
    assert mistakes / (size / 1e6) <= _MOST_MISTAKES_PER_MEGABYTE
