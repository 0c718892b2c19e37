"""A session as one HTML file; ``document`` has the page, ``markup`` why it is safe to open."""

from __future__ import annotations

from sessiontree.export.html.document import HtmlOptions, render_html

__all__ = ["HtmlOptions", "render_html"]
