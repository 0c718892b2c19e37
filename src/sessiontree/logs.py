"""Loggers of the package. Without a handler of the program's own, nothing is printed.

Python prints warnings to standard error if no handler takes them. What we log names files and
repeats errors that are raised as well: a library leaves it to its program whether to show that.
"""

from __future__ import annotations

import logging

ROOT = "sessiontree"

logging.getLogger(ROOT).addHandler(logging.NullHandler())


def get_logger(name: str = ROOT) -> logging.Logger:
    """The logger of a module, below the package's own."""
    return logging.getLogger(name)
