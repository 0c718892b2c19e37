"""A session as one JSON document: everything in it, all branches, for programs.

``{"format": "sessiontree.session", "version": 1, "name", "leafId", "header", "entries": […]}``.
Entries are the wire objects of the file, with images and long texts put back where the file only
refers to them.
"""

from __future__ import annotations

from collections.abc import Iterator

from sessiontree.export.redact import Redactor
from sessiontree.export.view import SessionView
from sessiontree.model import codec

FORMAT = "sessiontree.session"
VERSION = 1


def render_json(view: SessionView, *, redactor: Redactor | None = None) -> Iterator[str]:
    """The document in pieces, an entry each. Secrets are replaced if there is a redactor."""

    def spell(value: object) -> str:
        cleaned = redactor.redact_value(value) if redactor is not None else value
        return codec.encode(cleaned).decode("utf-8")

    leaf_id = view.path[-1].id if view.path else None
    if redactor is not None and leaf_id is not None:
        leaf_id = redactor.redact_name(leaf_id)
    yield f'{{"format":{spell(FORMAT)},"version":{VERSION},"name":{spell(view.name)}'
    yield f',"leafId":{spell(leaf_id)},"header":{spell(dict(view.header))},"entries":['
    for number, entry in enumerate(view.tree.entries):
        yield f"{',' if number else ''}\n{spell(entry.decode())}"
    yield "\n]}\n"
