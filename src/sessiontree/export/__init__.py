"""Export a session as Markdown, HTML, JSON or a bundle; this module chooses by file name.

``documents`` writes Markdown and JSON, ``html`` the page, ``bundle_export`` the bundle.
"""

from __future__ import annotations

import os
from collections.abc import Container

MARKDOWN, HTML, JSON, BUNDLE = "markdown", "html", "json", "bundle"
_ENDINGS = {
    MARKDOWN: (".md", ".markdown"),
    HTML: (".html", ".htm"),
    JSON: (".json",),
    BUNDLE: (".zip",),
}
_NAMES = {MARKDOWN: "Markdown", HTML: "HTML", JSON: "JSON", BUNDLE: "a bundle"}
FORMATS = tuple(_ENDINGS)


def format_of(file: str) -> str | None:
    """Return the format that the file name's suffix stands for; None for an unknown suffix."""
    lowered = file.lower()
    for kind, endings in _ENDINGS.items():
        if lowered.endswith(endings):
            return kind
    return None


def choose_format(
    file: str | None, kind: str | None = None, formats: Container[str] = FORMATS
) -> str:
    """Return ``kind`` if given, else the format of the file's suffix, else Markdown.

    Raises ValueError, with one line for the user, if the suffix stands for another format than
    ``kind``, or for none of ``formats``.
    """
    if file is None:
        return kind or MARKDOWN
    found = format_of(file)
    # A bundle needs its suffix: import recognizes it by that.
    if kind is not None and found != kind and (found is not None or kind == BUNDLE):
        ending = " or ".join(_ENDINGS[kind])
        raise ValueError(f"{file}: {_NAMES[kind]} goes to a file that ends in {ending}")
    if kind is not None:
        return kind
    if found is not None and found in formats:
        return found
    if found is None and not os.path.splitext(file)[1]:
        return MARKDOWN
    known = [
        _ENDINGS[each][0] + (" (bundle)" if each == BUNDLE else "")
        for each in FORMATS
        if each in formats
    ]
    raise ValueError(f"Can't export to {file}. Supported: {', '.join(known)}.")
